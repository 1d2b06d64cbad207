//! The client of a pair, in its worker process: finds its services, then makes the calls of each turn that the parent
//! asks for. Must not know of other pairs.

use std::sync::Mutex;

use binder::echo::{Benchmark, Echo};
use latency::Deadline;
use serde::{Deserialize, Serialize};

use super::call::{Caller, Shared, ThreadReport};
use super::halt::Switch;
use super::plan::Amount;
use super::result::CallerResult;
use super::turns;
use crate::error::Result;
use crate::ipc::endpoint::find;
use crate::ipc::{Endpoint, Mode, SchedulingProbe, Stack};
use crate::sched::{self, Scheduling};
use crate::worker::Link;

/// The worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct LatencyJob {
    /// The service of each series; no endpoint: the client's own.
    pub(super) services: Vec<(Stack, Option<(Endpoint, String)>)>,
    pub(super) callers: Vec<Scheduling>,
    pub(super) payload_bytes: usize,
    pub(super) deadline: Deadline,
    /// The CPUs that it may use.
    pub(super) cpus: Vec<u32>,
    pub(super) fresh_threads: bool,
    pub(super) keep_samples: bool,
    pub(super) verbose: bool,
    /// The `tracing_on` to write to at the first miss.
    pub(super) halt: Option<std::path::PathBuf>,
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
}

/// What a client says to its parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// Who runs where.
    Thread(ThreadReport),
    /// A call missed its deadline, and the kernel's trace was stopped.
    Halted { latency_ns: u64, caller: Scheduling, stopped: std::result::Result<(), String> },
    /// One caller's calls of a turn, in the order of the plan's callers; its samples came before, if they are kept.
    Caller(Box<CallerResult>),
    /// The turn is over.
    Done,
}

impl LatencyJob {
    pub(crate) fn run(self, link: &mut Link) -> Result<()> {
        // Threads inherit it.
        sched::set_allowed_cpus(0, &self.cpus)?;
        let switch = self.halt.as_deref().map(Switch::open).transpose()?;
        let services: Vec<_> = self.services.iter().map(service).collect::<Result<_>>()?;
        let payload: Vec<u8> = (0..self.payload_bytes).map(|i| i as u8).collect();
        link.ready()?;
        while let Some(turn) = link.receive::<Turn>()? {
            let (stack, remote) = &self.services[turn.series];
            let shared = Shared {
                service: &*services[turn.series],
                payload: &payload,
                deadline: self.deadline,
                open_loop: turn.rate_per_s.is_some(),
                keep_samples: self.keep_samples,
                mode: if remote.is_some() { Mode::Binderize } else { Mode::Passthrough },
                server_role: stack.name(),
                verbose: self.verbose,
                halt: switch.as_ref(),
                link: Mutex::new(link),
            };
            let mut callers: Vec<_> =
                self.callers.iter().map(|&caller| Caller::new(&shared, caller)).collect();
            if self.fresh_threads {
                turns::on_fresh_threads(&turn, &mut callers)?;
            } else {
                turns::on_kept_threads(&turn, &mut callers)?;
            }
            let mut results = Vec::new();
            for mut caller in callers {
                caller.count();
                results.push(caller.result);
            }
            for result in results {
                link.send_samples(&result.samples)?;
                link.send(&Said::Caller(Box::new(result)))?;
            }
            link.send(&Said::Done)?;
        }
        Ok(())
    }
}

fn service((stack, remote): &(Stack, Option<(Endpoint, String)>)) -> Result<Box<dyn Benchmark>> {
    match remote {
        Some((endpoint, instance)) => find(&endpoint.connect()?, *stack, instance),
        None => Ok(Box::new(Echo::new(SchedulingProbe))),
    }
}
