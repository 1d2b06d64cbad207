//! Latency against a deadline: client and server processes in pairs, real-time and ordinary callers, and what the
//! scheduler did meanwhile. Must not know who asked, nor how the result is shown.

mod account;
mod call;
mod client;
mod flight;
mod halt;
mod judge;
mod messages;
mod turns;
mod watch;
mod window;

use std::path::PathBuf;
use std::time::Duration;

pub use client::LatencyJob;

use crate::clock;
use crate::error::{Error, Result};
use crate::inject;
use crate::ipc::{Host, Server, ServerJob, ServerReport};
use crate::load;
use crate::progress::Progress;
use crate::root::Root;
use crate::sched;
use crate::worker::{Event, Interrupts, Spawner, What, WorkerGroup, WorkerId};
use flight::Flight;
use messages::{Ask, Resume, Said, SlowCall, Turn};
use run::Scheduling;
use run::ThreadCounters;
use run::ipc::latency::{
    Amount, CallerResult, Explained, LatencyPlan, LatencyResult, Miss, PairResult, Series, ThreadReport,
    Verdict,
};
use run::ipc::{Mode, Stack};

/// How long workers may take to start and to end: no measurement, only the end of all patience.
const PATIENCE: Duration = Duration::from_secs(60);

/// Turns that a run is divided into, so that a drift of the machine hits all series alike.
const TURNS: u64 = 10;

/// The shortest turn of a run with a duration: setting a turn up takes a few milliseconds.
const SHORTEST_TURN_NS: u64 = 50_000_000;

/// Untimed calls of each caller before each turn: then both sides have touched their memory.
const WARM_UP: u32 = 10;

/// What is told while a run goes on.
#[derive(Debug)]
pub enum Notice<'a> {
    /// How far it is.
    Progress(Progress<'a>),
    /// Who runs where, when the plan is verbose.
    Thread(&'a ThreadReport),
}

/// Measures latency.
///
/// # Errors
/// [`Error::Run`] for a plan that cannot be carried out, [`Error::Plan`] without the running kernel trace that it asks for;
/// [`Error::TraceHalted`] when that was stopped; [`Error::Driver`] and everything that ends a [`WorkerGroup`].
pub fn run(
    plan: &LatencyPlan,
    spawner: &Spawner,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<LatencyResult> {
    plan.check()?;
    let halt = plan.halt_trace.as_ref().map(halt::running).transpose()?;
    let usable = sched::allowed_cpus(0)?;
    let (client_cpus, server_cpus) = judge::cpus(plan, &usable)?;
    let usable_cpus = usable.len();
    let chosen = judge::callers(plan, &sched::realtime_permission(), sched::least_nice());
    let mut warnings = chosen.warnings;
    warnings.extend(judge::machine_warnings(plan, &chosen.callers, usable_cpus, &Root::real()));

    let clock_read_cost_ns = clock::read_cost_ns();
    // Before the recorder, so that no signal ends the process without it.
    Interrupts::watch()?;
    // Before the group, so that contexts and the recorder end after the workers that have them open.
    let injection = plan.injection.as_ref().map(inject::Host::new).transpose()?;
    let mut setup = Setup {
        plan,
        injection,
        callers: chosen.callers,
        halt,
        client_cpus,
        server_cpus,
        hosts: Vec::new(),
        clients: Vec::new(),
        servers: Vec::new(),
        flight: plan.explain.as_ref().map(|explain| Flight::prepare(explain, plan)).transpose()?,
        slowest_ns: vec![Vec::new(); plan.pairs as usize],
    };
    let mut group = WorkerGroup::new(spawner.clone())?;
    setup.start(&mut group)?;
    group.start(PATIENCE)?;
    if let Some(flight) = &mut setup.flight {
        flight.begin()?;
    }
    if plan.verbose {
        setup.report_processes(&group, notice)?;
    }
    let mut series = setup.empty_series();
    let amounts = divide(plan);
    let total = amounts.len() as u64 * series.len() as u64;
    let mut done = 0;
    for amount in amounts {
        for (index, one) in series.iter_mut().enumerate() {
            notice(Notice::Progress(Progress { what: "latency", done, total }));
            setup.turn(index, amount, one, &mut group, notice)?;
            done += 1;
        }
    }
    notice(Notice::Progress(Progress { what: "latency", done, total }));
    let backend = setup.hosts.first().map(|(_, host)| host.backend());
    warnings.extend(setup.hosts.first().and_then(|(_, host)| host.why_emulated()));
    let (mut wake_up, mut lent_by_pi_futex) = (None, false);
    for (index, one) in series.iter_mut().enumerate() {
        let (mut limits, mut lent) = (Vec::new(), 0);
        for pair in setup.servers.iter().filter_map(|pair| pair.get(index)) {
            let report = pair.report(&mut group)?;
            limits.extend(report.limits);
            lent += report.lent_by_pi_futex;
            wake_up = wake_up.or(report.wake_up);
        }
        limits.sort();
        limits.dedup();
        one.verdict = judge::verdict(plan, one, backend.as_ref(), chosen.refused.as_deref(), &limits, lent);
        lent_by_pi_futex |= lent != 0;
        // Where nobody asked for it, nothing went wrong.
        if let (Verdict::Fail { reason }, true) = (&one.verdict, one.inheritance.is_on(one.stack)) {
            warnings.push(format!("inheritance over {} failed: {reason}", one.stack));
        }
        warnings.extend(limits);
    }
    let missed = series.iter().flat_map(|one| &one.pairs).flat_map(|pair| &pair.callers);
    let missed = missed.map(|caller| caller.deadline.missed).sum();
    group.finish(PATIENCE)?;
    let slowest_ns = std::mem::take(&mut setup.slowest_ns);
    let explained = setup.flight.take().map(|flight| flight.finish(missed, slowest_ns));
    warnings.extend(explained.iter().flat_map(Explained::warnings));
    warnings.dedup();
    Ok(LatencyResult {
        plan: plan.clone(),
        backend,
        usable_cpus,
        clock_read_cost_ns,
        series,
        warnings,
        realtime_refused: chosen.refused,
        explained,
        lent_by_pi_futex,
        wake_up,
    })
}

/// The processes of a run.
struct Setup<'a> {
    plan: &'a LatencyPlan,
    injection: Option<inject::Host<'a>>,
    callers: Vec<Scheduling>,
    halt: Option<PathBuf>,
    client_cpus: Vec<u32>,
    server_cpus: Vec<u32>,
    /// Kept, because contexts end with them.
    hosts: Vec<(Stack, Host)>,
    clients: Vec<WorkerId>,
    /// For each pair the server of each series; none in passthrough mode.
    servers: Vec<Vec<Server>>,
    flight: Option<Flight>,
    /// What the slowest calls of each client took, in nanoseconds, as it last said.
    slowest_ns: Vec<Vec<u64>>,
}

impl Setup<'_> {
    fn start(&mut self, group: &mut WorkerGroup) -> Result<()> {
        let plan = self.plan;
        if plan.mode == Mode::Binderize {
            for &stack in &plan.stacks {
                let host = Host::open(plan.driver)?;
                host.start_service_manager(group, stack)?;
                self.hosts.push((stack, host));
            }
            // Before the clients: when a server dies, its end is then seen before its client's complaint about it.
            for pair in 1..=plan.pairs {
                let servers = self.start_servers(pair, group)?;
                self.servers.push(servers);
            }
        }
        if let Some(injection) = &self.injection {
            let pids: Vec<u32> = self.servers.iter().flatten().map(|server| group.pid(server.0)).collect();
            injection.start(group, &pids, &self.server_cpus)?;
        }
        for load in &plan.loads {
            load::start(load, group)?;
        }
        for pair in 1..=plan.pairs {
            let client = self.start_client(pair, group)?;
            self.clients.push(client);
        }
        Ok(())
    }

    fn start_servers(&self, pair: u32, group: &mut WorkerGroup) -> Result<Vec<Server>> {
        let series = self.plan.series().into_iter().enumerate();
        series
            .map(|(index, (stack, inheritance))| {
                let job = ServerJob {
                    endpoint: self.host(stack).endpoint(),
                    stack,
                    instance: instance(pair, index),
                    loopers: self.plan.server_threads,
                    inherit_rt: Some(inheritance.is_on(stack)),
                    work_ns: self.plan.work_ns,
                    disturbance: self.injection.as_ref().map(inject::Host::handler),
                    cpus: Some(self.server_cpus.clone()),
                    name: Some(format!("server-{pair}")),
                };
                Server::spawn(group, format!("server of pair {pair}"), job)
            })
            .collect()
    }

    fn start_client(&self, pair: u32, group: &mut WorkerGroup) -> Result<WorkerId> {
        let plan = self.plan;
        let service = |(index, (stack, _))| {
            let remote =
                (plan.mode == Mode::Binderize).then(|| (self.host(stack).endpoint(), instance(pair, index)));
            (stack, remote)
        };
        let job = LatencyJob {
            services: plan.series().into_iter().enumerate().map(service).collect(),
            callers: self.callers.clone(),
            payload_bytes: plan.payload_bytes,
            deadline: plan.deadline,
            cpus: self.client_cpus.clone(),
            fresh_threads: plan.fresh_threads,
            keep_samples: plan.keep_samples,
            verbose: plan.verbose,
            halt: self.halt.clone(),
            name: format!("client-{pair}"),
            watch: self.flight.as_ref().map(Flight::watch),
        };
        group.spawn(format!("client of pair {pair}"), &job)
    }

    fn host(&self, stack: Stack) -> &Host {
        let (_, host) =
            self.hosts.iter().find(|(of, _)| *of == stack).expect("every stack of the plan has one");
        host
    }

    fn empty_series(&self) -> Vec<Series> {
        let open_loop = self.plan.rate_per_s.is_some();
        let callers = self.callers.iter();
        let empty = PairResult {
            callers: callers.map(|&one| CallerResult::new(one, self.plan.deadline, open_loop)).collect(),
            server: None,
        };
        let series = self.plan.series().into_iter();
        series
            .map(|(stack, inheritance)| Series {
                stack,
                inheritance,
                pairs: vec![empty.clone(); self.plan.pairs as usize],
                verdict: Verdict::Pass,
            })
            .collect()
    }

    /// Tells of the processes' main threads: servers, this one, clients.
    fn report_processes(&self, group: &WorkerGroup, notice: &mut dyn FnMut(Notice<'_>)) -> Result<()> {
        let servers = self.servers.iter().flatten().map(|server| ("service", group.pid(server.0)));
        let clients = self.clients.iter().map(|&client| ("client", group.pid(client)));
        for (role, pid) in servers.chain([("main", std::process::id())]).chain(clients) {
            let cpu = judge::cpu_of(pid, &Root::real()).unwrap_or_default();
            let scheduling = sched::scheduling(pid)?;
            let role = role.to_owned();
            notice(Notice::Thread(&ThreadReport { role, pid, tid: pid, cpu, scheduling, lent: false }));
        }
        Ok(())
    }

    /// Has all clients make some iterations of one series at the same time, and adds what came of it.
    fn turn(
        &mut self,
        index: usize,
        amount: Amount,
        series: &mut Series,
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<()> {
        let before = self.server_reports(index, group)?;
        let turn = Turn {
            series: index,
            amount,
            warm_up: WARM_UP,
            rate_per_s: self.plan.rate_per_s,
            callers: self.callers.len(),
        };
        for &client in &self.clients {
            group.send(client, &Ask::Turn(turn.clone()))?;
        }
        let mut pairs = self.collect(index, group, notice)?;
        self.recorded(index, group, notice)?;
        let after = self.server_reports(index, group)?;
        for (pair, (before, after)) in pairs.iter_mut().zip(before.iter().zip(&after)) {
            pair.server = Some(served_between(before, after));
        }
        for (ours, new) in series.pairs.iter_mut().zip(&pairs) {
            // What the kernel made of the wish, and only the clients know.
            for (ours, new) in ours.callers.iter_mut().zip(&new.callers) {
                ours.caller = new.caller;
            }
            ours.merge(new);
        }
        Ok(())
    }

    fn server_reports(&self, series: usize, group: &mut WorkerGroup) -> Result<Vec<ServerReport>> {
        self.servers.iter().map(|servers| servers[series].report(group)).collect()
    }

    /// Takes in what the clients say until each is done with its turn.
    fn collect(
        &mut self,
        series: usize,
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Vec<PairResult>> {
        let mut pairs = vec![PairResult { callers: Vec::new(), server: None }; self.clients.len()];
        let mut samples = vec![Vec::new(); self.clients.len()];
        let mut busy = self.clients.len();
        while busy > 0 {
            let Some(Event { worker, what }) = group.next(None)? else { continue };
            let garbled =
                |reason: String| Error::GarbledFrame { from: group.role(worker).to_owned(), reason };
            let Some(pair) = self.clients.iter().position(|&client| client == worker) else { continue };
            let said = match what {
                What::Samples(new) => {
                    samples[pair].extend(new);
                    continue;
                }
                What::Message(value) => stored::read(&value).map_err(|error| garbled(error.to_string()))?,
                What::Done => return Err(garbled("it ended before its turn was over".into())),
                What::Ready => continue,
            };
            match said {
                Said::Thread(report) => notice(Notice::Thread(&report)),
                Said::Caller(mut result) => {
                    result.samples = std::mem::take(&mut samples[pair]);
                    pairs[pair].callers.push(*result);
                }
                Said::Recorded { series, caller, complete } => {
                    let calls = std::mem::take(&mut samples[pair]);
                    let caller = self.callers[caller];
                    if let Some(flight) = &mut self.flight {
                        flight.recorded(series, pair, caller, complete, &calls);
                    }
                }
                Said::Done => busy -= 1,
                Said::Slowest(latencies_ns) => self.slowest_ns[pair] = latencies_ns,
                Said::Slow(call) => {
                    let threshold_ns = self.slow(series, pair, *call)?;
                    group.send(worker, &Resume { threshold_ns })?;
                }
                Said::Halted { latency_ns, caller, stopped } => {
                    return Err(self.halted(latency_ns, caller, stopped));
                }
            }
        }
        Ok(pairs)
    }

    /// Has the clients tell of all calls that lie in what was recorded meanwhile, and stores them.
    fn recorded(
        &mut self,
        series: usize,
        group: &mut WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<()> {
        if !self.flight.as_ref().is_some_and(Flight::wants_calls) {
            return Ok(());
        }
        for &client in &self.clients {
            group.send(client, &Ask::Recorded)?;
        }
        self.collect(series, group, notice)?;
        self.flight.iter_mut().for_each(Flight::store_calls);
        Ok(())
    }

    /// Keeps what was recorded of a slow call, whose client waits meanwhile. Tells from when on its calls are slow.
    fn slow(&mut self, series: usize, pair: usize, call: SlowCall) -> Result<u64> {
        let Some(flight) = &mut self.flight else { return Ok(u64::MAX) };
        let SlowCall { caller, sample, client, server, client_counters, server_counters, stopped } = call;
        let snapshot = None;
        let miss =
            Miss { series, pair, caller, sample, client, server, client_counters, server_counters, snapshot };
        flight.slow(miss, stopped)
    }

    fn halted(&self, latency_ns: u64, caller: Scheduling, stopped: Result<(), String>) -> Error {
        let switch = self.halt.clone().unwrap_or_default();
        match stopped {
            Ok(()) => Error::TraceHalted {
                caller: caller.to_string(),
                latency_ns,
                deadline_ns: self.plan.deadline.ns,
                log: halt::log_of(&switch),
            },
            Err(cause) => Error::file("write", switch, std::io::Error::other(cause)),
        }
    }
}

/// The name under which a server registers.
fn instance(pair: u32, series: usize) -> String {
    format!("pair{pair}-{series}")
}

/// The amounts of the turns that a plan is divided into. Callers with new threads have no turns: they have nothing to
/// keep between calls. Beside real-time hogs there is one, too, for all that lies between turns is done by ordinary threads,
/// which then wait up to a second each time.
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
            // The time is that of the run, whatever the number of series.
            let duration_ns = duration_ns / plan.series().len() as u64;
            let turns = (duration_ns / SHORTEST_TURN_NS).clamp(1, most);
            vec![Amount::DurationNs((duration_ns / turns).max(1)); turns as usize]
        }
    }
}

/// What the scheduler did to a server's loopers between two reports.
fn served_between(before: &ServerReport, after: &ServerReport) -> ThreadCounters {
    let since = |&(tid, ref counters): &(u32, ThreadCounters)| {
        let earlier = before.loopers.iter().find(|(known, _)| *known == tid);
        earlier.map_or(*counters, |(_, earlier)| counters.since(earlier))
    };
    after.loopers.iter().map(since).reduce(|one, other| one.plus(&other)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_add_up_to_what_was_asked_for() {
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

    #[test]
    fn a_looper_that_is_new_counts_from_its_begin() {
        let counters =
            |switches| ThreadCounters { voluntary_switches: switches, ..ThreadCounters::default() };
        let report = |loopers| ServerReport {
            loopers,
            copied_bytes: 0,
            limits: Vec::new(),
            lent_by_pi_futex: 0,
            wake_up: None,
        };
        let before = report(vec![(7, counters(10))]);
        let after = report(vec![(7, counters(15)), (8, counters(3))]);
        assert_eq!(served_between(&before, &after).voluntary_switches, 8);
    }
}
