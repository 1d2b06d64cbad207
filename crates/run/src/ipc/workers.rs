//! What many workers are to do, and what came of it: plain data, stored in run directories. Must
//! not know how it is measured.

use latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Mode, Stack};
use crate::plan_fault::PlanFault;

/// The most processes that there may be, callers and services together: an emulated context holds
/// 256.
pub const MAX_PROCESSES: u32 = 250;

/// The longest payload, in bytes: it has to fit into a receive area of 1 MiB beside what else is
/// there.
pub const MAX_SIZE: usize = 1_000_000;

/// Who calls whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Every worker is a service and a caller, and calls a random other one.
    Everyone,
    /// One half of the workers are services; each of the others calls the one that is its own. Of
    /// an odd number of workers one more calls, and the first service has two callers.
    Pairs,
    /// All workers are callers; each call goes to a random one of so many services, each a process
    /// of its own.
    Services(u32),
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkersPlan {
    /// The driver.
    pub driver: DriverPlan,
    /// The stack.
    pub stack: Stack,
    /// Over the driver, or in the caller's own process.
    pub mode: Mode,
    /// How many workers; services of [`Topology::Services`] are not among them.
    pub workers: u32,
    /// Who calls whom.
    pub topology: Topology,
    /// How many calls each caller makes.
    pub iterations: u64,
    /// Payload of each call, and of its echo, in bytes.
    pub size_bytes: usize,
    /// Whether a reply is empty, and a request is the payload alone, as whole words, built before
    /// the clock is read: what Android's binderThroughputTest measures. The binder stack's,
    /// over a driver.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_reply: bool,
    /// Count the calls that take longer, in nanoseconds.
    pub warn_above_ns: Option<u64>,
    /// Run once before, and count the calls that take longer than twice that run's worst.
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
    /// Refuses what no machine can do.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] says what, and what there is instead.
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

    /// How many processes are services only, and no workers.
    fn services_apart(&self) -> u32 {
        match (self.mode, self.topology) {
            (Mode::Binderize, Topology::Services(services)) => services,
            _ => 0,
        }
    }

    /// How many workers call.
    #[must_use]
    pub fn callers(&self) -> u32 {
        match self.topology {
            Topology::Pairs => self.workers.div_ceil(2),
            Topology::Everyone | Topology::Services(_) => self.workers,
        }
    }
}

/// What many workers did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkersResult {
    /// What was asked for.
    pub plan: WorkersPlan,
    /// The driver; `None` for calls in process, which need none.
    pub backend: Option<Backend>,
    /// From the first call's begin to the last one's end, in nanoseconds.
    pub wall_ns: u64,
    /// Calls of all callers per second of that time.
    pub iterations_per_s: f64,
    /// Every call of every caller.
    pub latency: Histogram,
    /// Calls above the threshold, if there was one.
    pub above: Option<Above>,
    /// The round before, if one was asked for.
    pub training: Option<Training>,
    /// Each caller by itself.
    pub callers: Vec<Caller>,
    /// What the driver could not do, each one sentence.
    pub limits: Vec<String>,
}

/// Calls that took longer than a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// The threshold in nanoseconds.
    pub threshold_ns: u64,
    /// How many calls took longer.
    pub count: u64,
    /// The longest call of all, in nanoseconds, above the threshold or not.
    pub worst_ns: u64,
}

/// The round whose worst call sets the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Its calls per second.
    pub iterations_per_s: f64,
    /// Its longest call in nanoseconds.
    pub worst_ns: u64,
}

/// One caller's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// Which worker it is, from 0.
    pub worker: u32,
    /// From its first call's begin to its last one's end, in nanoseconds.
    pub wall_ns: u64,
    /// Its calls.
    pub latency: Histogram,
}

/// What happens, as it happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// All workers are there.
    Made {
        /// How many, as planned.
        workers: u32,
        /// The driver that they call over; `None` for calls in process.
        backend: Option<Backend>,
    },
    /// The training round begins.
    Training,
    /// The training round is over.
    Trained {
        /// What it says.
        training: Training,
        /// From where on calls are now counted, in nanoseconds.
        threshold_ns: u64,
    },
    /// The workers call each other.
    Waiting,
    /// They still do. Told of runs that last, now and then.
    Calling {
        /// The calls so far, of all callers and rounds.
        done: u64,
        /// All calls of all rounds.
        total: u64,
    },
    /// All calls are made.
    Complete {
        /// All callers' calls per second.
        iterations_per_s: f64,
    },
    /// What each call took is collected.
    Collecting,
    /// The result is there; the processes, too.
    Measured(Box<WorkersResult>),
    /// The workers are ended.
    Killing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_be_carried_out_is_refused_with_what_there_is_instead() {
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
