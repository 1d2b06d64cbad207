//! Many worker processes that call each other at the same time, and the latencies of their calls.
//! Must not know who requested it, nor how the result is shown.

mod job;

use std::collections::BTreeSet;
use std::time::Duration;

use roundtrip_latency::Histogram;
use roundtrip_run::ipc::workers::{Above, Caller, Stage, Training, WorkersPlan, WorkersResult};
use serde::de::DeserializeOwned;

pub use job::WorkerJob;

use super::host::Host;
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::worker::{Event, Gently, Interrupts, Spawner, What, WorkerGroup, WorkerId};
use job::{Ask, Report, Round, RoundEnd, Update};
use roundtrip_run::ipc::Mode;

/// How long workers may take to set up: enough for the slowest machine with the most workers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far in the future the common start of a round is set: long enough for its announcement to
/// reach every caller.
const HEAD_START: Duration = Duration::from_millis(20);

/// Runs the workers.
///
/// # Errors
/// [`Error::Run`] for an invalid plan; the errors of the stage function; and every error that ends
/// a [`WorkerGroup`].
pub fn run<E: From<Error>>(
    plan: &WorkersPlan,
    spawner: &Spawner,
    mut stage: impl FnMut(Stage) -> std::result::Result<(), E>,
) -> std::result::Result<WorkersResult, E> {
    plan.check().map_err(Error::from)?;
    let mut group = WorkerGroup::new(spawner.clone())?;
    let host = match plan.mode {
        Mode::Binderize => Some(Host::open(&plan.driver)?),
        Mode::Passthrough => None,
    };
    let callers = start_workers(plan, host.as_ref(), &mut group)?;
    stage(Stage::Made { workers: plan.workers, backend: host.as_ref().map(Host::backend) })?;

    let gently = Gently::begin();
    let of_round = plan.iterations.saturating_mul(callers.len() as u64);
    let total = if plan.training { of_round.saturating_mul(2) } else { of_round };
    let calling = |stage: &mut dyn FnMut(Stage) -> std::result::Result<(), E>, done| {
        stage(Stage::Calling { done, total })
    };
    let mut threshold_ns = plan.warn_above_ns;
    let mut training = None;
    if plan.training {
        stage(Stage::Training)?;
        let round =
            run_round(&mut group, &callers, plan.iterations, None, &mut |done| calling(&mut stage, done))?;
        let trained = round.training();
        let twice_ns = trained.worst_ns.saturating_mul(2);
        threshold_ns = Some(twice_ns);
        training = Some(trained);
        group.look();
        stage(Stage::Trained { training: trained, threshold_ns: twice_ns })?;
    }
    stage(Stage::Waiting)?;
    let before = if plan.training { of_round } else { 0 };
    let round = run_round(&mut group, &callers, plan.iterations, threshold_ns, &mut |done| {
        calling(&mut stage, before + done)
    })?;
    if gently.stops() && round.calls == 0 {
        drop(gently);
        Interrupts::watch()?.check()?;
    }
    stage(Stage::Complete { iterations_per_s: round.iterations_per_s })?;

    stage(Stage::Collecting)?;
    let mut limits: BTreeSet<String> = host.iter().filter_map(Host::why_emulated).collect();
    let parts = collect(plan, &mut group, &callers, &round, &mut limits)?;
    let result = WorkersResult {
        plan: plan.clone(),
        backend: host.as_ref().map(Host::backend),
        wall_ns: round.wall_ns,
        iterations_per_s: round.iterations_per_s,
        latency: all_calls(&parts),
        above: threshold_ns.map(|threshold_ns| round.above(threshold_ns)),
        training,
        callers: parts,
        limits: limits.into_iter().collect(),
    };
    stage(Stage::Measured(Box::new(result.clone())))?;
    stage(Stage::Killing)?;
    group.finish(PATIENCE)?;
    Ok(result)
}

/// Starts the workers. Returns the callers, each connected to its services.
fn start_workers(plan: &WorkersPlan, host: Option<&Host>, group: &mut WorkerGroup) -> Result<Vec<WorkerId>> {
    if let Some(host) = host {
        host.start_service_manager(group, plan.stack)?;
    }
    let mut callers = Vec::new();
    for (role, job) in job::all(plan, host.map(Host::endpoint).as_ref()) {
        let calls = job.calls();
        let worker = group.spawn(role, &job)?;
        callers.extend(calls.then_some(worker));
    }
    group.start(PATIENCE)?;
    ask(group, &callers, &Ask::Connect)?;
    answers::<()>(group, &callers, Some(PATIENCE))?;
    Ok(callers)
}

/// Collects each caller's results of the round, and what limited the callers.
fn collect(
    plan: &WorkersPlan,
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    round: &Done,
    limits: &mut BTreeSet<String>,
) -> Result<Vec<Caller>> {
    ask(group, callers, &Ask::Report)?;
    let reports = answers::<Report>(group, callers, Some(PATIENCE))?;
    // In pairs the callers are the second half of the workers.
    let workers = plan.workers - plan.callers()..;
    let ended = workers.zip(reports.into_iter().zip(&round.ends));
    let parts = ended.map(|(worker, (report, end))| {
        limits.extend(report.limits);
        Caller { worker, wall_ns: end.end_ns - end.start_ns, latency: report.latency }
    });
    Ok(parts.collect())
}

/// The latencies of all callers' calls.
fn all_calls(callers: &[Caller]) -> Histogram {
    let mut latency = Histogram::new();
    callers.iter().for_each(|caller| latency.merge(&caller.latency));
    latency
}

/// A completed round.
struct Done {
    ends: Vec<RoundEnd>,
    wall_ns: u64,
    /// The calls of all callers.
    calls: u64,
    iterations_per_s: f64,
}

impl Done {
    fn worst_ns(&self) -> u64 {
        self.ends.iter().map(|end| end.worst_ns).max().unwrap_or(0)
    }

    fn training(&self) -> Training {
        Training { iterations_per_s: self.iterations_per_s, worst_ns: self.worst_ns() }
    }

    fn above(&self, threshold_ns: u64) -> Above {
        let count = self.ends.iter().map(|end| end.above).sum();
        Above { threshold_ns, count, worst_ns: self.worst_ns() }
    }
}

fn run_round<E: From<Error>>(
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    iterations: u64,
    threshold_ns: Option<u64>,
    progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<Done, E> {
    let start_ns = now_ns() + HEAD_START.as_nanos() as u64;
    ask(group, callers, &Ask::Round(Round { start_ns, iterations, threshold_ns }))?;
    let ends = round_ends(group, callers, progress)?;
    let start_ns = ends.iter().map(|end| end.start_ns).min().unwrap_or(start_ns);
    let end_ns = ends.iter().map(|end| end.end_ns).max().unwrap_or(start_ns);
    let wall_ns = end_ns.saturating_sub(start_ns).max(1);
    let calls: u64 = ends.iter().map(|end| end.calls).sum();
    Ok(Done { ends, wall_ns, calls, iterations_per_s: calls as f64 / (wall_ns as f64 / 1e9) })
}

fn ask(group: &mut WorkerGroup, callers: &[WorkerId], ask: &Ask) -> Result<()> {
    callers.iter().try_for_each(|&caller| group.send(caller, ask))
}

/// Waits until each caller has ended its round. Returns the ends in the callers' order. Whenever a
/// caller reports its number of calls, reports the total.
fn round_ends<E: From<Error>>(
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<RoundEnd>, E> {
    let mut ends: Vec<Option<RoundEnd>> = vec![None; callers.len()];
    let mut calls = vec![0; callers.len()];
    while ends.iter().any(Option::is_none) {
        let Some(Event { worker, what: What::Message(value) }) = group.next(None)? else { continue };
        let Some(index) = callers.iter().position(|&caller| caller == worker) else { continue };
        match roundtrip_stored::read(&value).map_err(|error| garbled(group, worker, &error))? {
            Update::Calls(made) => {
                calls[index] = made;
                progress(calls.iter().sum())?;
            }
            Update::End(end) => {
                calls[index] = end.calls;
                ends[index] = Some(end);
            }
        }
    }
    Ok(ends.into_iter().flatten().collect())
}

fn garbled(group: &WorkerGroup, worker: WorkerId, error: &roundtrip_stored::Error) -> Error {
    Error::GarbledFrame {
        from: group.role(worker).to_owned(),
        reason: format!("unexpected message: {error}"),
    }
}

/// Waits for one message from each caller, and returns them in the callers' order. The timeout
/// restarts with each message.
fn answers<T: DeserializeOwned>(
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    timeout: Option<Duration>,
) -> Result<Vec<T>> {
    let mut answers: Vec<Option<T>> = callers.iter().map(|_| None).collect();
    while let Some(missing) = answers.iter().position(Option::is_none) {
        match group.next(timeout)? {
            Some(Event { worker, what: What::Message(value) }) => {
                if let Some(index) = callers.iter().position(|&caller| caller == worker) {
                    let read = roundtrip_stored::read(&value).map_err(|error| garbled(group, worker, &error));
                    answers[index] = Some(read?);
                }
            }
            Some(_) => {}
            None => {
                return Err(Error::WorkerSilent {
                    role: group.role(callers[missing]).to_owned(),
                    pid: group.pid(callers[missing]),
                    what: "answer",
                    waited_ms: timeout.map_or(0, |timeout| timeout.as_millis() as u64),
                });
            }
        }
    }
    Ok(answers.into_iter().flatten().collect())
}
