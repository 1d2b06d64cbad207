//! The messages between a client of a latency measurement and its parent.

use roundtrip_latency::Sample;
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::{Amount, CallCounters, CallerResult, ThreadId, ThreadReport};
use serde::{Deserialize, Serialize};

use crate::schedule::Part;

/// A request to a client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Ask {
    Turn(Turn),
    /// Report the calls that lie in windows recorded since the last such request.
    Recorded,
}

/// Iterations of one series.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) series: usize,
    pub(super) amount: Amount,
    /// Uncounted calls of each caller that keeps its thread.
    pub(super) warm_up: u32,
    /// Calls per second of each caller, and the turn's part of the schedule. `None`: closed loop.
    pub(super) pace: Option<(f64, Part)>,
    pub(super) callers: usize,
    /// When the run's first turn began, CLOCK_BOOTTIME.
    pub(super) start_ns: u64,
}

/// A client's message to its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ClientMessage {
    /// Which thread runs where.
    Thread(ThreadReport),
    /// A call missed its deadline, and the kernel's trace was stopped, or could not be. This client
    /// makes no more calls.
    Halted { latency_ns: u64, end_ns: u64, caller: Scheduling, stopped: std::result::Result<(), String> },
    /// A call was slow. The client now waits for [`Resume`].
    Slow(Box<SlowCall>),
    /// The latencies of its slowest calls so far, in nanoseconds, if the trigger is the slowest
    /// calls.
    Slowest(Vec<u64>),
    /// One caller's calls of a turn, in the order of the plan's callers. If samples are kept, they
    /// were sent before. With its scheduling at the end, if another program changed it.
    Caller(Box<CallerResult>, Option<Scheduling>),
    /// One caller's recorded calls, whose samples were sent before.
    Recorded { series: usize, caller: usize, complete: bool },
    /// The turn is over, or all recorded calls have been reported.
    Done,
}

/// A slow call, as its client reports it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SlowCall {
    pub(super) caller: Scheduling,
    pub(super) sample: Sample,
    pub(super) client: ThreadId,
    pub(super) server: Option<ThreadId>,
    pub(super) client_counters: CallCounters,
    pub(super) server_counters: Option<CallCounters>,
    /// How the client stopped the recorder, or why it could not.
    pub(super) stopped: std::result::Result<Stop, String>,
}

/// How a client stopped the recorder after a slow call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stop {
    /// When it had certainly stopped, in nanoseconds.
    pub(super) at_ns: u64,
    /// Whether it was on until then.
    pub(super) was_on: bool,
}

/// Tells a client that reported a slow call to continue.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Resume {
    /// Calls that take at most this long are not slow, in nanoseconds.
    pub(super) threshold_ns: u64,
}
