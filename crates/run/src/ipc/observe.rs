//! What is to be observed of other programs' calls, and what was seen: plain data, stored in run
//! directories. Must not know how anything is recorded, nor what delayed a call.

use std::path::PathBuf;

use latency::{Deadline, Histogram, Timeline};
use serde::{Deserialize, Serialize};

pub use crate::observe::{Process, Subject};
use crate::recorder::{DEFAULT_KILOBYTES, RecorderInfo};

/// How many rows of the table there may be; calls of further ones are counted together.
pub const MAX_FLOWS: usize = 500;

/// How many pools of a server are told apart. Threads that are named after what they do at the
/// moment would make a pool each.
pub const MAX_POOLS: usize = 16;

/// How many of a pool's threads are counted in a row.
pub const MAX_THREADS: usize = 4096;

/// What to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservePlan {
    /// Whose calls.
    pub subject: Subject,
    /// For how long, in nanoseconds. `None`: until a signal, or until the command ends.
    pub duration_ns: Option<u64>,
    /// What a call may take.
    pub deadline: Deadline,
    /// How many slow calls are kept with what the kernel recorded, the slowest; the rest is
    /// counted.
    pub limit: u32,
    /// The recording's folder. Not stored: runs are of one plan wherever they are put.
    #[serde(skip)]
    pub directory: PathBuf,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}

impl Default for ObservePlan {
    fn default() -> Self {
        Self {
            subject: Subject::Everyone,
            duration_ns: Some(10_000_000_000),
            deadline: Deadline { ns: 2_500_000 },
            limit: 20,
            directory: PathBuf::new(),
            kilobytes: DEFAULT_KILOBYTES,
        }
    }
}

/// The calls of one method of one node by one process, served by one pool of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Who called.
    pub client: Process,
    /// Who served.
    pub server: Process,
    /// The names of the threads that served, with `#` for each number in them: "Binder:#_#". `None`
    /// where no thread took the call, for the pools together beyond [`MAX_POOLS`], and in runs of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The driver's number of the node; `None` for the nodes together beyond those that have rows.
    pub node: Option<i32>,
    /// The method.
    pub code: u32,
    /// Round trips.
    pub latency: Histogram,
    /// Until a thread of the server had the request.
    pub request: Histogram,
    /// Until it sent the reply.
    pub handling: Histogram,
    /// Until the client had it.
    pub reply: Histogram,
    /// For how long no thread of the server was ready, where events tell; 0 for calls for which one
    /// was.
    pub behind_pool: Histogram,
    /// Round trips that took longer than the deadline.
    pub missed: u64,
    /// Round trips made while the client served another call.
    pub nested: u64,
    /// Oneway transactions, from their sending until a thread took them.
    pub oneway: Histogram,
    /// Calls that ended with an error of the driver.
    pub failed: u64,
    /// How many threads served, at most [`MAX_THREADS`].
    pub server_threads: u32,
}

/// A call that missed the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowCall {
    /// Which flow, counted from 0.
    pub flow: usize,
    /// The driver's number of the request.
    pub id: i32,
    /// The driver's number of the node.
    pub node: i32,
    /// The thread that called.
    pub client: u32,
    /// The thread that served.
    pub server: u32,
    /// When the driver took the request, in nanoseconds of CLOCK_BOOTTIME, as all instants here.
    pub start_ns: u64,
    /// When a thread of the server had it.
    pub received_ns: u64,
    /// When it sent the reply.
    pub replied_ns: u64,
    /// When the client had the reply.
    pub end_ns: u64,
    /// For how long no thread of the server was ready.
    pub behind_pool_ns: Option<u64>,
    /// The number of the call in whose handling it was made.
    pub parent: Option<i32>,
    /// Its recording; `None` where it could not be stored.
    pub snapshot: Option<u32>,
}

impl SlowCall {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What could not be seen, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Events that the kernel had to drop.
    pub lost_events: u64,
    /// Requests whose sending was not seen: they are older than the recording, or that event was
    /// lost.
    pub begun_before: u64,
    /// Requests and replies whose end was not seen.
    pub not_ended: u64,
    /// Transactions that were forgotten because too many were under way.
    pub forgotten: u64,
    /// Calls of flows beyond [`MAX_FLOWS`].
    pub other_flows: u64,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveResult {
    /// What was asked for.
    pub plan: ObservePlan,
    /// For how long, in nanoseconds.
    pub elapsed_ns: u64,
    /// By client, server, pool, node and method: the largest sum of latencies first.
    pub flows: Vec<Flow>,
    /// The round trips of all rows over the time of the run; `None` in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Calls that missed the deadline, the slowest first, as many as the plan keeps.
    pub slow_calls: Vec<SlowCall>,
    /// Calls that missed it beyond those.
    pub over_limit: u64,
    /// What could not be seen.
    pub unseen: Unseen,
    /// What was recorded.
    pub recorder: RecorderInfo,
    /// Why recordings of slow calls could not be stored any more.
    pub not_recorded: Option<String>,
}

impl ObserveResult {
    /// How long all round trips took.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        let mut all = Histogram::new();
        self.flows.iter().for_each(|flow| all.merge(&flow.latency));
        all
    }

    /// What to know before trusting the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let lost = self.unseen.lost_events;
        let lost = (lost > 0).then(|| {
            format!("{lost} events of the kernel were lost: calls of that time are missing; a larger --buffer holds more")
        });
        lost.into_iter().chain(self.not_recorded.clone()).collect()
    }

    /// All round trips.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.flows.iter().map(|flow| flow.latency.count()).sum()
    }
}
