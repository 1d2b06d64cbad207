//! The state of the global trace, as data. Must not know how it is determined.

use std::path::PathBuf;

use crate::snapshot::CpuStats;

/// The state of the global trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its root directory.
    pub root: PathBuf,
    /// Whether it is recording now.
    pub on: bool,
    /// How long ago it was started, in nanoseconds.
    pub age_ns: u64,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// The trace's clock.
    pub clock: String,
    /// The events that it records.
    pub events: Vec<String>,
    /// Categories without any event on this kernel.
    pub missing: Vec<String>,
    /// The kernel's counters by CPU.
    pub cpus: Vec<(u32, CpuStats)>,
}
