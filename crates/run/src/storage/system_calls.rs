//! The plan and the result of counting other programs' system calls: plain data, stored in run
//! directories. Must not know how anything is recorded.

use std::path::PathBuf;

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::observe::Subject;
use crate::recorder::RecorderInfo;

/// What to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCallsPlan {
    /// The programs to observe.
    pub subject: Subject,
    /// How long to observe, in nanoseconds. `None` means until a signal arrives, or until the
    /// command exits.
    pub duration_ns: Option<u64>,
    /// Beside which a temporary folder may be. Not stored.
    #[serde(skip)]
    pub directory: PathBuf,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}

impl Default for SystemCallsPlan {
    fn default() -> Self {
        Self {
            subject: Subject::Everyone,
            duration_ns: Some(10_000_000_000),
            directory: PathBuf::new(),
            kilobytes: 16 << 10,
        }
    }
}

/// All calls of one system call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemCallRow {
    /// Its name: "fsync"; "system call 999" if it is not known.
    pub call: String,
    /// How long each took in the kernel.
    pub latency: Histogram,
    /// Calls that returned an error.
    pub failed: u64,
}

/// How much could not be observed, of all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenSystemCalls {
    /// Events that the kernel dropped.
    pub lost_events: u64,
    /// Calls that started before the recording.
    pub begun_before: u64,
    /// Calls whose return was lost.
    pub not_ended: u64,
    /// Calls dropped because too many were in flight.
    pub forgotten: u64,
}

/// The system calls that were observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemCallsResult {
    /// What was requested.
    pub plan: SystemCallsPlan,
    /// How long the run observed, in nanoseconds.
    pub elapsed_ns: u64,
    /// One entry for each system call, sorted by total time, the longest first.
    pub rows: Vec<SystemCallRow>,
    /// What could not be observed.
    pub unseen: UnseenSystemCalls,
    /// What was recorded.
    pub recorder: RecorderInfo,
    /// What ended the recording early; `None` if nothing did.
    pub not_recorded: Option<String>,
}

impl SystemCallsResult {
    /// The time of all calls together, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.latency.sum_ns()).sum()
    }
}
