//! Many worker processes that call each other at the same time, and the latencies of their calls.
//! Must not know who requested it, nor how the result is shown.

mod job;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use roundtrip_latency::Histogram;
use roundtrip_run::ipc::workers::{Above, Caller, Stage, Training, WorkersPlan, WorkersResult};
use serde::de::DeserializeOwned;

pub use job::WorkerJob;

use super::host::Host;
use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::worker::{Event, Gently, Interrupts, Spawner, What, WorkerGroup, WorkerId, keep};
use job::{Ask, Report, Round, RoundEnd, Update};
use roundtrip_run::ipc::Mode;

/// How long workers may take to set up: enough for the slowest machine with the most workers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far in the future the common start of a round is set: long enough for its announcement to
/// reach every caller.
const HEAD_START: Duration = Duration::from_millis(20);

/// How long callers may take to end their rounds after another worker has failed.
const LEFT_END_WITHIN: Duration = Duration::from_secs(5);

/// How soon a worker's death is noticed after a call to it has failed.
const DEATH_IS_SEEN_WITHIN: Duration = Duration::from_millis(500);

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
        let mut round =
            run_round(&mut group, &callers, plan.iterations, None, &mut |done| calling(&mut stage, done))?;
        round.failure.take().map_or(Ok(()), Err)?;
        let trained = round.training();
        let twice_ns = trained.worst_ns.saturating_mul(2);
        threshold_ns = Some(twice_ns);
        training = Some(trained);
        group.look();
        stage(Stage::Trained { training: trained, threshold_ns: twice_ns })?;
    }
    stage(Stage::Waiting)?;
    let before = if plan.training { of_round } else { 0 };
    let mut round = run_round(&mut group, &callers, plan.iterations, threshold_ns, &mut |done| {
        calling(&mut stage, before + done)
    })?;
    let failed = round.failure.is_some();
    round.failure.take().map_or(Ok(()), |error| keep(error, round.calls > 0))?;
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
    if !failed {
        group.finish(PATIENCE)?;
    }
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

/// Collects each caller's results of the round, and what limited the callers. After a failure, only
/// the callers that are left have results.
fn collect(
    plan: &WorkersPlan,
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    round: &Done,
    limits: &mut BTreeSet<String>,
) -> Result<Vec<Caller>> {
    let ended: Vec<usize> = (0..callers.len()).filter(|&index| round.ends[index].is_some()).collect();
    let left: Vec<WorkerId> = ended.iter().map(|&index| callers[index]).collect();
    ask(group, &left, &Ask::Report)?;
    let reports = answers::<Report>(group, &left, Some(PATIENCE))?;
    // In pairs the callers are the second half of the workers.
    let first = plan.workers - plan.callers();
    let parts = ended.iter().zip(reports).filter_map(|(&index, report)| {
        let end = round.ends[index].as_ref()?;
        limits.extend(report.limits);
        let wall_ns = end.end_ns - end.start_ns;
        Some(Caller { worker: first + index as u32, wall_ns, latency: report.latency })
    });
    let parts = parts.collect();
    for lost in callers.iter().filter(|caller| !left.contains(caller)) {
        let role = group.role(*lost);
        limits.insert(format!("the calls of {role} are in no figure: it has ended, or does not answer"));
    }
    Ok(parts)
}

/// The latencies of all callers' calls.
fn all_calls(callers: &[Caller]) -> Histogram {
    let mut latency = Histogram::new();
    callers.iter().for_each(|caller| latency.merge(&caller.latency));
    latency
}

/// A round.
struct Done {
    /// By caller; `None` for those that did not end it.
    ends: Vec<Option<RoundEnd>>,
    /// Why the round ended early.
    failure: Option<Error>,
    wall_ns: u64,
    /// The calls of all callers.
    calls: u64,
    iterations_per_s: f64,
}

impl Done {
    fn worst_ns(&self) -> u64 {
        self.ends.iter().flatten().map(|end| end.worst_ns).max().unwrap_or(0)
    }

    fn training(&self) -> Training {
        Training { iterations_per_s: self.iterations_per_s, worst_ns: self.worst_ns() }
    }

    fn above(&self, threshold_ns: u64) -> Above {
        let count = self.ends.iter().flatten().map(|end| end.above).sum();
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
    let mut ends = vec![None; callers.len()];
    let failure = match round_ends(group, callers, &mut ends, progress)? {
        Some(error) => Some(rest_of_round(group, callers, &mut ends, error)?),
        None => None,
    };
    let made = || ends.iter().flatten();
    let start_ns = made().map(|end| end.start_ns).min().unwrap_or(start_ns);
    let end_ns = made().map(|end| end.end_ns).max().unwrap_or(start_ns);
    let wall_ns = end_ns.saturating_sub(start_ns).max(1);
    let calls: u64 = made().map(|end| end.calls).sum();
    Ok(Done { ends, failure, wall_ns, calls, iterations_per_s: calls as f64 / (wall_ns as f64 / 1e9) })
}

fn ask(group: &mut WorkerGroup, callers: &[WorkerId], ask: &Ask) -> Result<()> {
    callers.iter().try_for_each(|&caller| group.send(caller, ask))
}

/// Waits until each caller has ended its round. Whenever a caller reports its number of calls,
/// reports the total. Returns the failure of a caller or another worker, which ends the wait.
fn round_ends<E: From<Error>>(
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    ends: &mut [Option<RoundEnd>],
    progress: &mut dyn FnMut(u64) -> std::result::Result<(), E>,
) -> std::result::Result<Option<Error>, E> {
    let mut calls = vec![0; callers.len()];
    while ends.iter().any(Option::is_none) {
        let event = match group.next(None) {
            Err(error @ Error::Interrupted { .. }) => return Err(error.into()),
            Err(error) => return Ok(Some(error)),
            Ok(event) => event,
        };
        match update(group, callers, event)? {
            Some((index, Update::Calls(made))) => {
                calls[index] = made;
                progress(calls.iter().sum())?;
            }
            Some((index, Update::End(end))) => {
                let failed = end.failed.clone();
                calls[index] = end.calls;
                ends[index] = Some(end);
                if let Some(message) = failed {
                    let (role, pid) = (group.role(callers[index]).to_owned(), group.pid(callers[index]));
                    return Ok(Some(Error::WorkerFailed { role, pid, message }));
                }
            }
            None => {}
        }
    }
    Ok(None)
}

/// Ends the round after a failure: asks the callers that are left to make no more calls, and waits
/// for the ends of their rounds. Returns the death of another worker if there was one, because it
/// is the cause of failed calls, else the failure.
fn rest_of_round(
    group: &mut WorkerGroup,
    callers: &[WorkerId],
    ends: &mut [Option<RoundEnd>],
    mut failure: Error,
) -> Result<Error> {
    callers.iter().for_each(|&caller| group.stop(caller));
    let until = Instant::now() + LEFT_END_WITHIN;
    let cause = Instant::now() + DEATH_IS_SEEN_WITHIN;
    loop {
        let mut running = callers.iter().zip(&*ends);
        let is_over = running.all(|(&caller, end)| end.is_some() || group.has_ended(caller));
        let knows_cause = matches!(failure, Error::PeerDied { .. });
        let until = if is_over && !knows_cause { cause } else { until };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || (is_over && knows_cause) {
            return Ok(failure);
        }
        match group.next(Some(left)) {
            Err(error @ Error::Interrupted { .. }) => return Err(error),
            Err(error @ Error::PeerDied { .. }) if !knows_cause => failure = error,
            // Others may fail for the same reason.
            Err(_) => {}
            Ok(event) => {
                if let Some((index, Update::End(end))) = update(group, callers, event)? {
                    ends[index] = Some(end);
                }
            }
        }
    }
}

/// A caller's message, with the caller's index.
fn update(
    group: &WorkerGroup,
    callers: &[WorkerId],
    event: Option<Event>,
) -> Result<Option<(usize, Update)>> {
    let Some(Event { worker, what: What::Message(value) }) = event else { return Ok(None) };
    let Some(index) = callers.iter().position(|&caller| caller == worker) else { return Ok(None) };
    let update = value.read().map_err(|error| garbled(group, worker, &error))?;
    Ok(Some((index, update)))
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
                    let read = value.read().map_err(|error| garbled(group, worker, &error));
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
