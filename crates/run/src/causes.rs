//! What delayed many operations, as sums: plain data, stored in run directories. Must not know how
//! causes are found, nor how they are shown.

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

/// What delayed operations that missed their deadline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Causes {
    /// The number of operations.
    pub operations: u64,
    /// How many of them took no longer than usual.
    pub ordinary: u64,
    /// The causes, the one to which most time was lost first.
    pub causes: Vec<Cause>,
    /// The times of the operations; `None` in runs that did not store them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed: Option<Timed>,
}

/// The times of slow operations, whatever delayed them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// How long those took of whose delay at most a tenth is unknown.
    pub known: Histogram,
    /// How long the others took.
    pub unknown: Histogram,
    /// Those that missed their deadline.
    pub missed: OverTime,
}

/// How many operations began in each stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverTime {
    /// The binary logarithm of a stretch's length in nanoseconds.
    pub length_log2_ns: u32,
    /// The number of each stretch that has some, which is its start divided by its length, and how
    /// many operations began in it.
    pub counts: Vec<(u64, u64)>,
}

/// What operations that lost time to a cause would have been without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Without {
    /// How long they took.
    pub took: Histogram,
    /// How long they would have taken.
    pub would_take: Histogram,
    /// Those that missed their deadline, and would have met it.
    pub saved: OverTime,
}

/// What many operations lost to one process, whatever its ids and threads, or to one thing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// What they would have been without it. Only of the first causes; `None` in runs that did not
    /// store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<Without>,
}
