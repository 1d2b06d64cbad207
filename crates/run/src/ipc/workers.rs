//! The plan and result of the workers test: plain data, stored in run directories. Must not know
//! how anything is measured.

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Mode, Stack};
use crate::plan_fault::PlanFault;

/// The maximum number of processes, callers and services together. An emulated context supports
/// 256.
pub const MAX_PROCESSES: u32 = 250;

/// The maximum payload, in bytes. A receive area of 1 MiB must hold it and everything else in a
/// call.
pub const MAX_SIZE: usize = 1_000_000;

/// Which workers call which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Every worker is both a service and a caller, and calls a random other worker.
    Everyone,
    /// Half of the workers are services, and each of the others calls its own service. If the
    /// number of workers is odd, there is one more caller, and the first service has two callers.
    Pairs,
    /// All workers are callers. Each call goes to a random one of this many services, each in its
    /// own process.
    Services(u32),
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersPlan {
    /// The driver.
    pub driver: DriverPlan,
    /// The stack.
    pub stack: Stack,
    /// Whether calls go over the driver, or stay in the caller's own process.
    pub mode: Mode,
    /// The number of workers; the services of [`Topology::Services`] do not count.
    pub workers: u32,
    /// Which workers call which.
    pub topology: Topology,
    /// Calls by each caller.
    pub iterations: u64,
    /// Payload of each call and of its echo, in bytes.
    pub size_bytes: usize,
    /// Whether replies are empty and requests consist of only the payload, padded to whole words
    /// and built before the clock is read. This is what Android's binderThroughputTest measures.
    /// Only for the binder stack over a driver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_reply: bool,
    /// Calls that take longer than this, in nanoseconds, are counted.
    pub warn_above_ns: Option<u64>,
    /// Whether to run a training round first, and count calls that take longer than twice its
    /// slowest call.
    pub training: bool,
}

impl Default for WorkersPlan {
    fn default() -> Self {
        Self {
            driver: DriverPlan::default(),
            stack: Stack::Binder,
            mode: Mode::Binderize,
            workers: 2,
            topology: Topology::Everyone,
            iterations: 10_000,
            size_bytes: 0,
            empty_reply: false,
            warn_above_ns: None,
            training: false,
        }
    }
}

impl WorkersPlan {
    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error says what is possible instead.
    pub fn check(&self) -> Result<()> {
        let workers = self.workers;
        match self.topology {
            Topology::Everyone if workers < 2 => {
                return Err(PlanFault::LonelyWorker.into());
            }
            Topology::Pairs if workers < 2 => {
                return Err(PlanFault::Unpaired { workers }.into());
            }
            Topology::Services(0) => return Err(PlanFault::NoService.into()),
            Topology::Services(_) if workers == 0 => {
                return Err(PlanFault::NoWorker.into());
            }
            _ => {}
        }
        let processes = u64::from(workers) + u64::from(self.services_apart());
        if processes > u64::from(MAX_PROCESSES) {
            return Err(PlanFault::TooManyProcesses { processes, most: MAX_PROCESSES }.into());
        }
        if self.iterations == 0 {
            return Err(PlanFault::NoWorkerCalls.into());
        }
        if self.empty_reply && (self.stack, self.mode) != (Stack::Binder, Mode::Binderize) {
            return Err(PlanFault::EmptyReply.into());
        }
        if self.size_bytes > MAX_SIZE {
            return Err(PlanFault::PayloadTooLong { bytes: self.size_bytes, most: MAX_SIZE }.into());
        }
        Ok(())
    }

    /// The number of processes that are services but not workers.
    fn services_apart(&self) -> u32 {
        match (self.mode, self.topology) {
            (Mode::Binderize, Topology::Services(services)) => services,
            _ => 0,
        }
    }

    /// How many workers make calls.
    #[must_use]
    pub fn callers(&self) -> u32 {
        match self.topology {
            Topology::Pairs => self.workers.div_ceil(2),
            Topology::Everyone | Topology::Services(_) => self.workers,
        }
    }
}

/// The result of the workers test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkersResult {
    /// The plan.
    pub plan: WorkersPlan,
    /// The driver; `None` for calls in process.
    pub backend: Option<Backend>,
    /// From the start of the first call to the end of the last, in nanoseconds.
    pub wall_ns: u64,
    /// Calls per second, of all callers together.
    pub iterations_per_s: f64,
    /// All calls of all callers.
    pub latency: Histogram,
    /// Calls above the threshold, if there is one.
    pub above: Option<Above>,
    /// The training round, if requested.
    pub training: Option<Training>,
    /// The results of each caller.
    pub callers: Vec<Caller>,
    /// What the driver could not do, one sentence each.
    pub limits: Vec<String>,
}

/// Calls that took longer than a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// The threshold in nanoseconds.
    pub threshold_ns: u64,
    /// How many calls took longer.
    pub count: u64,
    /// The slowest call, in nanoseconds, whether or not above the threshold.
    pub worst_ns: u64,
}

/// A training round. Its slowest call determines the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Its calls per second.
    pub iterations_per_s: f64,
    /// Its slowest call in nanoseconds.
    pub worst_ns: u64,
}

/// The results of one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// The worker's number, counted from 0.
    pub worker: u32,
    /// From the start of its first call to the end of its last, in nanoseconds.
    pub wall_ns: u64,
    /// Its calls.
    pub latency: Histogram,
}

/// The stages of a run, reported as they happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// All workers have been started.
    Made {
        /// The number of workers.
        workers: u32,
        /// The driver; `None` for calls in process.
        backend: Option<Backend>,
    },
    /// The training round starts.
    Training,
    /// The training round is over.
    Trained {
        /// Its result.
        training: Training,
        /// The threshold above which calls are counted, in nanoseconds.
        threshold_ns: u64,
    },
    /// The workers start to call each other.
    Waiting,
    /// The progress of the calls, reported periodically in long runs.
    Calling {
        /// The number of calls so far, over all callers and rounds.
        done: u64,
        /// The total number of calls over all rounds.
        total: u64,
    },
    /// All calls are done.
    Complete {
        /// Calls per second, of all callers together.
        iterations_per_s: f64,
    },
    /// The latencies are being collected.
    Collecting,
    /// The result is complete. The processes still run.
    Measured(Box<WorkersResult>),
    /// The workers are being stopped.
    Killing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impossible_plan_is_refused_with_the_valid_choices() {
        let refused = |plan: WorkersPlan| plan.check().unwrap_err().to_string();
        let default = WorkersPlan::default;
        assert!(default().check().is_ok());
        assert!(refused(WorkersPlan { workers: 1, ..default() }).contains("2 or more"));
        assert!(
            refused(WorkersPlan { workers: 1, topology: Topology::Pairs, ..default() })
                .contains("form pairs")
        );
        assert!(refused(WorkersPlan { topology: Topology::Services(0), ..default() }).contains("no service"));
        assert!(refused(WorkersPlan { topology: Topology::Services(249), ..default() }).contains("251"));
        assert!(refused(WorkersPlan { workers: u32::MAX, ..default() }).contains("at most 250"));
        assert!(refused(WorkersPlan { iterations: 0, ..default() }).contains("0 calls"));
        assert!(refused(WorkersPlan { size_bytes: 2_000_000, ..default() }).contains("1000000"));
    }

    #[test]
    fn only_the_calling_half_of_pairs_counts() {
        let plan = WorkersPlan { workers: 6, topology: Topology::Pairs, ..WorkersPlan::default() };
        assert_eq!(plan.callers(), 3);
        assert_eq!(WorkersPlan { workers: 7, ..plan.clone() }.callers(), 4);
        assert_eq!(WorkersPlan { topology: Topology::Services(1), ..plan }.callers(), 6);
    }
}
