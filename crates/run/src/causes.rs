//! What delayed many operations, as sums: plain data, stored in run directories. Must not know how
//! causes are found, nor how they are shown.

use serde::{Deserialize, Serialize};

/// What delayed operations that missed their deadline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The number of operations.
    pub operations: u64,
    /// How many of them took no longer than usual.
    pub ordinary: u64,
    /// The causes, the one to which most time was lost first.
    pub causes: Vec<Cause>,
}

/// What many operations lost to one process, whatever its ids and threads, or to one thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind of the reason: "cpu", "sleep", "unknown".
    pub kind: String,
    /// The name of the process; `None` if no process names the cause.
    pub process: Option<String>,
    /// How the process was scheduled: "other", "real-time 50", "nice 5", "deadline", "unknown".
    /// `None` without a process.
    pub class: Option<String>,
    /// What names the cause if no process does, in words; `None` if it is a process or unknown.
    pub what: Option<String>,
    /// The number of operations of which it was the main cause.
    pub operations: u64,
    /// The time that all operations lost to it, in nanoseconds.
    pub lost_ns: u64,
    /// The most that one operation lost to it, in nanoseconds.
    pub worst_ns: u64,
}
