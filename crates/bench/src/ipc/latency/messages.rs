//! What a client of a latency measurement and its parent say to each other.

use latency::Sample;
use run::Scheduling;
use run::ipc::latency::{Amount, CallCounters, CallerResult, ThreadId, ThreadReport};
use serde::{Deserialize, Serialize};

/// What a client is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Ask {
    Turn(Turn),
    /// The calls that lie in what was recorded since it was asked last.
    Recorded,
}

/// Some iterations of one series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) series: usize,
    pub(super) amount: Amount,
    /// Calls of each caller with a thread of its own that are not counted.
    pub(super) warm_up: u32,
    pub(super) rate_per_s: Option<f64>,
    pub(super) callers: usize,
    /// When the run's first turn began, CLOCK_BOOTTIME.
    pub(super) start_ns: u64,
}

/// What a client says to its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Who runs where.
    Thread(ThreadReport),
    /// A call missed its deadline, and the kernel's trace was stopped.
    Halted { latency_ns: u64, caller: Scheduling, stopped: std::result::Result<(), String> },
    /// A call was slow. The client waits for [`Resume`].
    Slow(Box<SlowCall>),
    /// What its slowest calls so far took, in nanoseconds, where the slowest are of interest.
    Slowest(Vec<u64>),
    /// One caller's calls of a turn, in the order of the plan's callers; its samples came before,
    /// if they are kept.
    Caller(Box<CallerResult>),
    /// One caller's calls that were recorded; their samples came before.
    Recorded { series: usize, caller: usize, complete: bool },
    /// The turn is over, or all calls that were recorded are told.
    Done,
}

/// A slow call, as its client tells it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SlowCall {
    pub(super) caller: Scheduling,
    pub(super) sample: Sample,
    pub(super) client: ThreadId,
    pub(super) server: Option<ThreadId>,
    pub(super) client_counters: CallCounters,
    pub(super) server_counters: Option<CallCounters>,
    /// When the recorder had stopped, in nanoseconds, or why it could not be.
    pub(super) stopped: std::result::Result<u64, String>,
}

/// The parent's word that a client which told of a slow call may go on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Resume {
    /// Calls that take no longer are not slow, in nanoseconds.
    pub(super) threshold_ns: u64,
}
