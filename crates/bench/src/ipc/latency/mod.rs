//! Latency against a deadline: pairs of client and server processes, real-time and ordinary
//! callers, and scheduler statistics. Must not know who requested it, nor how the result is shown.

mod account;
mod call;
mod client;
mod disturbed;
mod flight;
mod halt;
mod judge;
mod kept;
mod messages;
mod round;
mod setup;
mod stops;
mod tape;
mod timetable;
mod turns;
mod watch;
mod window;

use std::ops::ControlFlow;
use std::time::Duration;

pub use client::LatencyJob;

use crate::clock;
use crate::error::Result;
use crate::inject;
use crate::ipc::probe::work_takes_ns;
use crate::kernel::root::Root;
use crate::progress::Progress;
use crate::sched;
use crate::worker::{Gently, Interrupts, Spawner, WorkerGroup, keep};
use disturbed::Disturbed;
use flight::Flight;
use roundtrip_run::ipc::latency::{
    Amount, Explained, LatencyPlan, LatencyResult, Series, ThreadReport, Verdict,
};
use setup::Setup;
use timetable::Timetable;

/// How long workers may take to start and to end. A timeout for failures, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest work in a call whose true duration is worth measuring.
const MAX_TRIED_WORK_NS: u64 = 1_000_000;

/// The number of turns in a run: with many turns, drift of the machine affects all series alike.
const TURNS: u64 = 10;

/// The shortest turn of a run with a duration. Setting up a turn takes a few milliseconds.
const SHORTEST_TURN_NS: u64 = 50_000_000;

/// What is reported during a run.
#[derive(Debug)]
pub enum Notice<'a> {
    /// How far the run has come.
    Progress(Progress<'a>),
    /// Which thread runs where, if the plan is verbose.
    Thread(&'a ThreadReport),
}

/// Measures latency.
///
/// # Errors
/// [`crate::Error::Run`] for an invalid plan; [`crate::Error::NoTrace`] if the plan needs a running
/// kernel trace and there is none; [`crate::Error::Driver`]; and every error that ends a
/// [`WorkerGroup`].
pub fn run(
    plan: &LatencyPlan,
    spawner: &Spawner,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<LatencyResult> {
    plan.check()?;
    let amounts = divide(plan);
    let rounds = amounts.len() as u64;
    let (amounts, each) = (&mut amounts.into_iter(), &mut |_: &Series| ControlFlow::Continue(()));
    carry_out(plan, spawner, Turns { amounts, rounds, each }, notice)
}

/// Measures latency in turns of `turn_ns` each, until `each` ends the measurement. After each turn
/// of a series, while no client makes calls, `each` is called with the result of that turn alone.
/// The plan's amount is ignored. In the result's plan, the amount is the total time of all turns.
///
/// # Errors
/// As [`run()`].
pub fn watch(
    plan: &LatencyPlan,
    spawner: &Spawner,
    turn_ns: u64,
    each: &mut dyn FnMut(&Series) -> ControlFlow<()>,
) -> Result<LatencyResult> {
    let mut turns = 0;
    let amounts = &mut std::iter::repeat(Amount::DurationNs(turn_ns));
    let each = &mut |series: &Series| {
        turns += 1;
        each(series)
    };
    let mut result = carry_out(plan, spawner, Turns { amounts, rounds: u64::MAX, each }, &mut |_| {})?;
    result.plan.amount = Amount::DurationNs(turn_ns.saturating_mul(turns));
    Ok(result)
}

/// The turns of a run.
struct Turns<'a> {
    /// The amount of each series' turn, for each round.
    amounts: &'a mut dyn Iterator<Item = Amount>,
    /// The number of rounds.
    rounds: u64,
    /// Called with the result of each turn alone. May end the run.
    each: &'a mut dyn FnMut(&Series) -> ControlFlow<()>,
}

fn carry_out(
    plan: &LatencyPlan,
    spawner: &Spawner,
    turns: Turns<'_>,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<LatencyResult> {
    // Before the group, so that contexts and the recorder outlive the workers that use them.
    let Prepared {
        mut setup,
        interrupts,
        usable_cpus,
        clock_read_cost_ns,
        work_takes_ns,
        refused,
        mut warnings,
    } = prepare(plan)?;
    let mut group = WorkerGroup::new(spawner.clone())?;
    setup.start(&mut group)?;
    group.start(PATIENCE)?;
    if let Some(flight) = &mut setup.flight {
        flight.begin()?;
    }
    if plan.verbose {
        setup.report_processes(&group, notice)?;
    }
    setup.start_ns = clock::now_ns();
    let mut series = setup.empty_series();
    // Until the group has ended, a signal does not discard what was measured.
    let mut timetable = Timetable::default();
    let ended = take_turns(&mut setup, turns, &mut timetable, &mut series, &mut group, interrupts, notice)?;
    warnings.extend(plan.rate_per_s.iter().flat_map(|&rate| timetable.warnings(rate, &series)));
    warnings.append(&mut setup.disturbed.warnings);
    let elapsed = Duration::from_nanos(clock::now_ns() - setup.start_ns);
    warnings.extend(setup.flight.as_ref().and_then(|flight| flight.waited(elapsed)));
    let backend = setup.hosts.first().map(|(_, host)| host.backend());
    warnings.extend(setup.hosts.first().and_then(|(_, host)| host.why_emulated()));
    let Served { wake_up, inherited_by_pi_futex } =
        judge_all(&setup, &mut series, refused.as_deref(), &mut group, &ended, &mut warnings)?;
    let missed = series.iter().flat_map(|one| &one.pairs).flat_map(|pair| &pair.callers);
    let missed = missed.map(|caller| caller.deadline.missed).sum();
    if !ended.failed {
        group.finish(PATIENCE)?;
    }
    let slowest_ns = std::mem::take(&mut setup.slowest_ns);
    let explained = setup.flight.take().map(|flight| flight.finish(missed, slowest_ns));
    warnings.extend(explained.iter().flat_map(Explained::warnings));
    let halted = setup.halted.take();
    if halted.is_some() {
        warnings
            .push("the run ended early: a call missed its deadline, and the trace was stopped".to_owned());
    }
    warnings.dedup();
    Ok(LatencyResult {
        plan: plan.clone(),
        backend,
        usable_cpus,
        clock_read_cost_ns,
        work_takes_ns,
        series,
        warnings,
        realtime_refused: refused,
        explained,
        halted,
        inherited_by_pi_futex,
        wake_up,
    })
}

/// What a run needs before it starts its first process.
struct Prepared<'a> {
    setup: Setup<'a>,
    interrupts: &'static Interrupts,
    usable_cpus: usize,
    clock_read_cost_ns: f64,
    /// How long the work of each call takes, if that differs from the request.
    work_takes_ns: Option<u64>,
    /// Why there is no real-time caller although one was planned.
    refused: Option<String>,
    warnings: Vec<String>,
}

/// Checks the plan, chooses CPUs and callers, and prepares what outlives the processes.
fn prepare(plan: &LatencyPlan) -> Result<Prepared<'_>> {
    plan.check()?;
    let halt = plan.halt_trace.as_ref().map(halt::running).transpose()?;
    let usable = sched::allowed_cpus(0)?;
    let (client_cpus, server_cpus) = judge::cpus(plan, &usable)?;
    let usable_cpus = usable.len();
    let chosen = judge::callers(plan, &sched::realtime_permission(), sched::least_nice());
    let mut warnings = chosen.warnings;
    warnings.extend(judge::machine_warnings(plan, &chosen.callers, usable_cpus, &Root::real()));

    let clock_read_cost_ns = clock::read_cost_ns();
    // Longer work takes what was requested, within a thousandth.
    let work_takes_ns = (1..MAX_TRIED_WORK_NS).contains(&plan.work_ns).then(|| work_takes_ns(plan.work_ns));
    // Before the recorder, so that no signal ends the process without removing it.
    let interrupts = Interrupts::watch()?;
    let injection = plan.injection.as_ref().map(inject::Host::new).transpose()?;
    let setup = Setup {
        plan,
        injection,
        callers: chosen.callers,
        halt,
        halted: None,
        client_cpus,
        server_cpus,
        hosts: Vec::new(),
        clients: Vec::new(),
        servers: Vec::new(),
        flight: plan.explain.as_ref().map(|explain| Flight::prepare(explain, plan)).transpose()?,
        slowest_ns: vec![Vec::new(); plan.pairs as usize],
        disturbed: Disturbed::default(),
        start_ns: 0,
    };
    let refused = chosen.refused;
    Ok(Prepared { setup, interrupts, usable_cpus, clock_read_cost_ns, work_takes_ns, refused, warnings })
}

/// How the turns ended.
struct Ended {
    /// Present if there are results, so that a signal does not discard them.
    _gently: Option<Gently>,
    /// Whether a failure ended them. The workers may be gone.
    failed: bool,
}

/// Runs the turns: in each round, every series has one. A signal or a failure ends this early, and
/// leaves only the series that have made calls. What a turn that failed has measured is discarded.
fn take_turns(
    setup: &mut Setup<'_>,
    turns: Turns<'_>,
    timetable: &mut Timetable,
    series: &mut Vec<Series>,
    group: &mut WorkerGroup,
    interrupts: &Interrupts,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<Ended> {
    let total = turns.rounds.saturating_mul(series.len() as u64);
    let (mut done, mut failure) = (0, None);
    let gently = Gently::begin();
    'turns: for (round, amount) in (1..).zip(turns.amounts) {
        let part = setup.plan.rate_per_s.map(|rate| timetable.next(rate, amount, round == turns.rounds));
        for (index, one) in series.iter_mut().enumerate() {
            notice(Notice::Progress(Progress { what: "latency", done, total }));
            let pairs = match setup.turn(index, (amount, part), group, notice) {
                Ok(pairs) => pairs,
                Err(error) => {
                    failure = Some(error);
                    break 'turns;
                }
            };
            timetable.ended(&pairs);
            done += 1;
            let counts = !setup.disturbed.spoils_turn();
            if counts {
                round::add(one, &pairs);
            }
            let Series { stack, inheritance, .. } = *one;
            // Priority inheritance is judged at the end.
            let turn = Series { stack, inheritance, pairs, verdict: Verdict::Pass };
            let is_enough = counts && (turns.each)(&turn).is_break();
            if gently.stops() || is_enough || setup.halted.is_some() {
                break 'turns;
            }
        }
    }
    // In an interrupted run, the last series may not have had a turn.
    let called = |one: &Series| {
        one.pairs.iter().flat_map(|pair| &pair.callers).any(|caller| !caller.latency.is_empty())
    };
    series.retain(called);
    let failed = failure.is_some();
    failure.map_or(Ok(()), |error| keep(error, !series.is_empty()))?;
    let gently = (!series.is_empty()).then_some(gently);
    if gently.is_none() {
        interrupts.check()?;
        setup.disturbed.is_all()?;
    }
    notice(Notice::Progress(Progress { what: "latency", done, total }));
    Ok(Ended { _gently: gently, failed })
}

/// What the servers report about the driver below them.
struct Served {
    /// How the emulated driver wakes threads; `None` without it.
    wake_up: Option<String>,
    /// Whether any priority was inherited through a PI futex.
    inherited_by_pi_futex: bool,
}

/// Judges each series by what its servers report. Limits of the driver, and failures of requested
/// inheritance, become warnings.
fn judge_all(
    setup: &Setup<'_>,
    series: &mut [Series],
    refused: Option<&str>,
    group: &mut WorkerGroup,
    ended: &Ended,
    warnings: &mut Vec<String>,
) -> Result<Served> {
    let backend = setup.hosts.first().map(|(_, host)| host.backend());
    let mut served = Served { wake_up: None, inherited_by_pi_futex: false };
    for (index, one) in series.iter_mut().enumerate() {
        let (mut limits, mut inherited) = (Vec::new(), 0);
        for pair in setup.servers.iter().filter_map(|pair| pair.get(index)) {
            let report = match pair.report(group) {
                // The server may be what failed. Its calls say how they were served.
                Err(_) if ended.failed => continue,
                report => report?,
            };
            limits.extend(report.limits);
            inherited += report.inherited_by_pi_futex;
            served.wake_up = served.wake_up.or(report.wake_up);
        }
        limits.sort();
        limits.dedup();
        one.verdict = judge::verdict(setup.plan, one, backend.as_ref(), refused, &limits, inherited);
        served.inherited_by_pi_futex |= inherited != 0;
        // Without a request, there is no failure to warn about.
        if let (Verdict::Fail { reason }, true) = (&one.verdict, one.inheritance.is_on(one.stack)) {
            warnings.push(format!("inheritance over {} failed: {reason}", one.stack));
        }
        warnings.extend(limits);
    }
    Ok(served)
}

/// Divides a plan's amount into turns. Callers with a new thread for each call have a single turn:
/// they keep nothing between calls. With real-time hogs there is also a single turn: ordinary
/// threads do all the work between turns, and each time they may wait up to a second for a CPU.
fn divide(plan: &LatencyPlan) -> Vec<Amount> {
    let crowded = plan.loads.iter().any(|load| load.scheduling.policy.is_realtime());
    let most = if plan.fresh_threads || crowded { 1 } else { TURNS };
    match plan.amount {
        Amount::Iterations(iterations) => {
            let turns = most.min(iterations);
            let share = |turn| iterations / turns + u64::from(turn < iterations % turns);
            (0..turns).map(|turn| Amount::Iterations(share(turn))).collect()
        }
        Amount::DurationNs(duration_ns) => {
            // The duration is that of the whole run, however many series it has.
            let duration_ns = duration_ns / plan.series().len() as u64;
            let turns = (duration_ns / SHORTEST_TURN_NS).clamp(1, most);
            vec![Amount::DurationNs((duration_ns / turns).max(1)); turns as usize]
        }
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_run::ipc::Stack;

    use super::*;

    #[test]
    fn turns_add_up_to_the_requested_amount() {
        for iterations in [1, 7, 10, 12_345] {
            let plan = LatencyPlan { amount: Amount::Iterations(iterations), ..LatencyPlan::default() };
            let sum: u64 = divide(&plan)
                .into_iter()
                .map(|amount| if let Amount::Iterations(share) = amount { share } else { 0 })
                .sum();
            assert_eq!(sum, iterations);
        }
        let amount = Amount::DurationNs(200_000_000);
        let stacks = Stack::ALL.to_vec();
        let plan = LatencyPlan { amount, stacks, ..LatencyPlan::default() };
        assert_eq!(divide(&plan), [Amount::DurationNs(50_000_000); 2]);
        let once = [Amount::DurationNs(100_000_000)];
        assert_eq!(divide(&LatencyPlan { fresh_threads: true, ..plan.clone() }), once);
        let loads = vec!["hogs=1,policy=fifo:1".parse().unwrap()];
        assert_eq!(divide(&LatencyPlan { loads, ..plan }), once);
    }
}
