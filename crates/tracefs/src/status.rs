//! How the global trace is doing, as data. Must not know how that is found out.

use std::path::PathBuf;

use crate::snapshot::CpuStats;

/// How the global trace is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its directory.
    pub root: PathBuf,
    /// Whether it records at this moment.
    pub on: bool,
    /// How long ago it was started, in nanoseconds.
    pub age_ns: u64,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// The trace's clock.
    pub clock: String,
    /// The events that it records.
    pub events: Vec<String>,
    /// Categories of which this kernel has no event.
    pub missing: Vec<String>,
    /// What the kernel has counted, by CPU.
    pub cpus: Vec<(u32, CpuStats)>,
}
