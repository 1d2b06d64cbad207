//! The plan and the result of observing other programs' calls: plain data, stored in run
//! directories. Must not know how anything is recorded, nor what delayed a call.

use std::path::PathBuf;

use roundtrip_latency::{Deadline, Histogram, Timeline};
use serde::{Deserialize, Serialize};

use crate::causes::Causes;
use crate::heaviest::Row;
use crate::observe::is_zero;
pub use crate::observe::{Process, Subject};
use crate::recorder::{DEFAULT_KILOBYTES, RecorderInfo};

/// The maximum number of rows in the table, those with the most time. One further row is the sum of
/// all others.
pub const MAX_FLOWS: usize = 500;

/// The maximum number of thread pools of a server. There is a limit because some programs name
/// threads after their current task, so that each name would count as a pool.
pub const MAX_POOLS: usize = 16;

/// The maximum number of server threads that are counted for a row.
pub const MAX_THREADS: usize = 4096;

/// What to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservePlan {
    /// The programs to observe.
    pub subject: Subject,
    /// How long to observe, in nanoseconds. `None` means until a signal arrives, or until the
    /// command exits.
    pub duration_ns: Option<u64>,
    /// The deadline of a call.
    pub deadline: Deadline,
    /// How many of the slowest calls are kept with their recordings. Of the others only the causes
    /// are kept.
    pub limit: u32,
    /// The recording's folder. Not stored, because runs of one plan can be in different places.
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
    /// The process that called.
    pub client: Process,
    /// The process that served.
    pub server: Process,
    /// The names of the threads that served, with each number replaced by `#`: "Binder:#_#". `None`
    /// if no thread took the call, and in the row that sums up the pools beyond [`MAX_POOLS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The driver's number for the node; `None` in the row that sums up the nodes without their own
    /// rows.
    pub node: Option<i32>,
    /// The method.
    pub code: u32,
    /// The durations of the round trips.
    pub latency: Histogram,
    /// The request leg: from the request until a server thread had it.
    pub request: Histogram,
    /// The handling leg: from then until that thread sent the reply.
    pub handling: Histogram,
    /// The reply leg: from then until the client had the reply.
    pub reply: Histogram,
    /// How long no server thread was ready to take the request, if events show this; 0 if a thread
    /// was ready at once.
    pub behind_pool: Histogram,
    /// Round trips that took longer than the deadline.
    pub missed: u64,
    /// Round trips made while the client served another call.
    pub nested: u64,
    /// Oneway transactions, from sending until a thread took them.
    pub oneway: Histogram,
    /// Calls that ended with an error from the driver.
    pub failed: u64,
    /// Those of them whose server was dead.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dead: u64,
    /// Those of them whose server was frozen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frozen: u64,
    /// Those of them that the driver refused. Older versions stored no reasons.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// How many threads served, at most [`MAX_THREADS`].
    pub server_threads: u32,
    /// How many rows this one is the sum of: the last row, which has no processes and no method. 0
    /// for all others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stands_for: u64,
    /// None of these had more time than this, in nanoseconds. A row of its own that was one of
    /// them before lacks at most as much.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beyond_ns: u64,
}

impl Flow {
    /// A flow without calls.
    #[must_use]
    pub fn new(
        (client, server): (Process, Process),
        pool: Option<String>,
        node: Option<i32>,
        code: u32,
    ) -> Self {
        Self {
            client,
            server,
            pool,
            node,
            code,
            latency: Histogram::growing(),
            request: Histogram::growing(),
            handling: Histogram::growing(),
            reply: Histogram::growing(),
            behind_pool: Histogram::growing(),
            missed: 0,
            nested: 0,
            oneway: Histogram::growing(),
            failed: 0,
            dead: 0,
            frozen: 0,
            refused: 0,
            server_threads: 0,
            stands_for: 0,
            beyond_ns: 0,
        }
    }
}

impl Row for Flow {
    fn sum_ns(&self) -> u64 {
        self.latency.sum_ns().saturating_add(self.oneway.sum_ns())
    }

    /// Not the number of threads that served: some may have served both.
    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.request.merge(&other.request);
        self.handling.merge(&other.handling);
        self.reply.merge(&other.reply);
        self.behind_pool.merge(&other.behind_pool);
        self.oneway.merge(&other.oneway);
        self.missed += other.missed;
        self.nested += other.nested;
        self.failed += other.failed;
        self.dead += other.dead;
        self.frozen += other.frozen;
        self.refused += other.refused;
    }
}

/// A call that missed the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowCall {
    /// The index of its flow in [`ObserveResult::flows`].
    pub flow: usize,
    /// The driver's number for the request.
    pub id: i32,
    /// The driver's number for the node.
    pub node: i32,
    /// The thread that called.
    pub client: u32,
    /// The thread that served.
    pub server: u32,
    /// When the driver accepted the request, in nanoseconds of CLOCK_BOOTTIME, like the other times
    /// here.
    pub start_ns: u64,
    /// When a server thread had the request.
    pub received_ns: u64,
    /// When that thread sent the reply.
    pub replied_ns: u64,
    /// When the client had the reply.
    pub end_ns: u64,
    /// How long no server thread was ready to take the request, in nanoseconds.
    pub behind_pool_ns: Option<u64>,
    /// The driver's number for the call during whose handling this call was made.
    pub parent: Option<i32>,
    /// The number of its recording's snapshot; `None` if it could not be stored.
    pub snapshot: Option<u32>,
}

impl SlowCall {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Counts of what could not be observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Events that the kernel dropped.
    pub lost_events: u64,
    /// Requests and replies that were sent before the recording started, or whose sending was lost.
    pub begun_before: u64,
    /// Transactions that had not ended when the recording stopped, or whose end was lost.
    pub not_ended: u64,
    /// Transactions that were dropped because too many were in progress.
    pub forgotten: u64,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveResult {
    /// What was requested.
    pub plan: ObservePlan,
    /// How long the run observed, in nanoseconds.
    pub elapsed_ns: u64,
    /// The calls by client, server, pool, node and method, sorted by total time.
    pub flows: Vec<Flow>,
    /// The round trips of all rows over the time of the run.
    pub timeline: Timeline,
    /// The slowest calls that missed the deadline, the slowest first, up to the plan's limit.
    pub slow_calls: Vec<SlowCall>,
    /// The number of further calls that missed the deadline.
    pub over_limit: u64,
    /// What delayed all calls that missed the deadline, kept or not; `None` without
    /// scheduler events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Causes>,
    /// What could not be observed.
    pub unseen: Unseen,
    /// What was recorded.
    pub recorder: RecorderInfo,
    /// Why the recordings of later slow calls could not be stored; `None` if they could.
    pub not_recorded: Option<String>,
}

impl ObserveResult {
    /// The number of all round trips.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.flows.iter().map(|flow| flow.latency.count()).sum()
    }
}
