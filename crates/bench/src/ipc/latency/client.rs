//! The client of a pair, in its worker process: finds its services, makes the calls of each turn
//! that the parent requests, and reports which of them were recorded. Must not know of other pairs.

use std::collections::BTreeMap;
use std::sync::Mutex;

use roundtrip_echo::{Benchmark, Echo};
use roundtrip_latency::Deadline;
use serde::{Deserialize, Serialize};

use super::call::{Caller, Shared};
use super::halt::{HaltJob, Switch};
use super::messages::{Ask, ClientMessage, Turn};
use super::turns;
use super::watch::{Watch, WatchJob};
use super::window::History;
use crate::error::Result;
use crate::ipc::endpoint::find;
use crate::ipc::{Endpoint, SchedulingProbe};
use crate::sched;
use crate::schedule::Pace;
use crate::worker::{Link, Work};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::CallerResult;
use roundtrip_run::ipc::{Mode, Stack};

/// The worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct LatencyJob {
    /// The service of each series. Without an endpoint, the client serves itself.
    pub(super) services: Vec<(Stack, Option<(Endpoint, String)>)>,
    pub(super) callers: Vec<Scheduling>,
    pub(super) payload_bytes: usize,
    pub(super) deadline: Deadline,
    /// The allowed CPUs.
    pub(super) cpus: Vec<u32>,
    pub(super) fresh_threads: bool,
    pub(super) keep_samples: bool,
    pub(super) verbose: bool,
    /// The trace to stop at the first missed deadline.
    pub(super) halt: Option<HaltJob>,
    /// The name of its threads, for example in traces; at most 15 bytes.
    pub(super) name: String,
    /// Which calls are slow, if slow calls are recorded.
    pub(super) watch: Option<WatchJob>,
}

/// What is kept of each series and caller across turns: the latest calls, because a recording can
/// reach back beyond the start of a turn, and the place in the schedule.
type Kept = BTreeMap<(usize, usize), (History, Pace)>;

/// A caller's calls of one turn, and its scheduling at the end if another program changed it.
type TurnResult = (CallerResult, Option<Scheduling>);

impl Work for LatencyJob {
    const NAME: &'static str = "latency client";
    const PROCESS: &'static str = "client";

    fn run(self, link: &mut Link) -> Result<()> {
        // Threads inherit the mask.
        sched::set_allowed_cpus(0, &self.cpus)?;
        sched::set_name(&self.name);
        let watch = self.watch.as_ref().map(Watch::open).transpose()?;
        let switch = self.halt.as_ref().map(Switch::open).transpose()?;
        let services: Vec<_> = self.services.iter().map(service).collect::<Result<_>>()?;
        let payload: Vec<u8> = (0..self.payload_bytes).map(|i| i as u8).collect();
        link.ready()?;
        let mut kept = Kept::new();
        while let Some(ask) = link.receive::<Ask>()? {
            match ask {
                Ask::Recorded => tell_recorded(watch.as_ref(), &mut kept, link)?,
                Ask::Turn(turn) => {
                    let (stack, remote) = &self.services[turn.series];
                    let shared = Shared {
                        service: &*services[turn.series],
                        payload: &payload,
                        deadline: self.deadline,
                        open_loop: turn.pace.is_some(),
                        start_ns: turn.start_ns,
                        keep_samples: self.keep_samples,
                        mode: if remote.is_some() { Mode::Binderize } else { Mode::Passthrough },
                        server_role: stack.name(),
                        verbose: self.verbose,
                        halt: switch.as_ref(),
                        watch: watch.as_ref(),
                        link: Mutex::new(link),
                    };
                    let results = self.take_turn(&turn, &shared, &mut kept)?;
                    report(results, watch.as_ref(), link)?;
                }
            }
        }
        Ok(())
    }
}

impl LatencyJob {
    /// Makes the calls of one turn. Returns each caller's result.
    fn take_turn<'a>(&self, turn: &Turn, shared: &'a Shared<'a>, kept: &mut Kept) -> Result<Vec<TurnResult>> {
        let take = |caller| kept.remove(&(turn.series, caller)).unwrap_or_default();
        let own: Vec<(History, Pace)> = (0..self.callers.len()).map(take).collect();
        let callers = self.callers.iter().zip(own);
        let mut callers: Vec<_> =
            callers.map(|(&caller, (history, pace))| Caller::new(shared, caller, history, pace)).collect();
        if self.fresh_threads {
            turns::on_fresh_threads(turn, &mut callers)?;
        } else {
            turns::on_kept_threads(turn, &mut callers)?;
        }
        let mut results = Vec::new();
        for (index, mut caller) in callers.into_iter().enumerate() {
            caller.count()?;
            kept.insert((turn.series, index), (caller.history, caller.pace));
            results.push((caller.result, caller.rescheduled));
        }
        Ok(results)
    }
}

/// Reports the results of a turn.
fn report(results: Vec<TurnResult>, watch: Option<&Watch>, link: &mut Link) -> Result<()> {
    for (result, rescheduled) in results {
        link.send_samples(&result.samples)?;
        link.send(&ClientMessage::Caller(Box::new(result), rescheduled))?;
    }
    if let Some(watch) = watch {
        link.send(&ClientMessage::Slowest(watch.slowest_ns()))?;
    }
    link.send(&ClientMessage::Done)
}

/// Reports all calls that were recorded since the parent asked last.
fn tell_recorded(watch: Option<&Watch>, kept: &mut Kept, link: &mut Link) -> Result<()> {
    if let Some(windows) = watch.and_then(Watch::windows) {
        for (&(series, caller), (history, _)) in kept {
            let (samples, complete) = history.recorded(windows)?;
            link.send_samples(&samples)?;
            link.send(&ClientMessage::Recorded { series, caller, complete })?;
        }
        windows.answered();
    }
    link.send(&ClientMessage::Done)
}

fn service((stack, remote): &(Stack, Option<(Endpoint, String)>)) -> Result<Box<dyn Benchmark>> {
    match remote {
        Some((endpoint, instance)) => find(&endpoint.connect()?, *stack, instance),
        None => Ok(Box::new(Echo::new(SchedulingProbe))),
    }
}
