//! The processes of a run, in the order in which they must start: servers, injected disturbances,
//! and clients. Must not know what they measure.

use std::path::PathBuf;

use super::client::LatencyJob;
use super::disturbed::Disturbed;
use super::flight::Flight;
use super::halt::HaltJob;
use super::{Notice, judge};
use crate::error::Result;
use crate::inject;
use crate::ipc::{Host, Server, ServerJob};
use crate::kernel::root::Root;
use crate::load;
use crate::sched;
use crate::worker::{WorkerGroup, WorkerId};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::{
    CallerResult, Halted, LatencyPlan, PairResult, Series, ThreadReport, Verdict,
};
use roundtrip_run::ipc::{Mode, Stack};

/// The processes of a run.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a LatencyPlan,
    pub(super) injection: Option<inject::Host<'a>>,
    pub(super) callers: Vec<Scheduling>,
    /// The `tracing_on` of the trace that a missed deadline stops.
    pub(super) halt: Option<PathBuf>,
    /// The call that stopped it.
    pub(super) halted: Option<Halted>,
    pub(super) client_cpus: Vec<u32>,
    pub(super) server_cpus: Vec<u32>,
    /// Kept because dropping them ends their contexts.
    pub(super) hosts: Vec<(Stack, Host)>,
    pub(super) clients: Vec<WorkerId>,
    /// Each pair's server for each series; none in passthrough mode.
    pub(super) servers: Vec<Vec<Server>>,
    pub(super) flight: Option<Flight>,
    /// The latencies of each client's slowest calls, in nanoseconds, as last reported.
    pub(super) slowest_ns: Vec<Vec<u64>>,
    /// What other programs did to the callers.
    pub(super) disturbed: Disturbed,
    /// When the first turn begins, CLOCK_BOOTTIME.
    pub(super) start_ns: u64,
}

impl Setup<'_> {
    pub(super) fn start(&mut self, group: &mut WorkerGroup) -> Result<()> {
        let plan = self.plan;
        if plan.mode == Mode::Binderize {
            for &stack in &plan.stacks {
                let host = Host::open(&plan.driver)?;
                host.start_service_manager(group, stack)?;
                self.hosts.push((stack, host));
            }
            // Before the clients, so that the end of a server is seen before its client's error.
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
        let plan_names = self.plan.process_name.is_some();
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
                    name: Some(self.name("server", pair)),
                    looper_name: plan_names.then(|| looper_name(stack)),
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
            halt: self.halt.clone().zip(plan.halt_trace.as_ref()).map(|(path, halt)| {
                let only_realtime = halt.only_realtime;
                HaltJob { path, only_realtime }
            }),
            name: self.name("client", pair),
            watch: self.flight.as_ref().map(Flight::watch),
        };
        group.spawn(format!("client of pair {pair}"), &job)
    }

    /// The name of a process in traces.
    fn name(&self, role: &str, pair: u32) -> String {
        self.plan.process_name.clone().unwrap_or_else(|| format!("{role}-{pair}"))
    }

    pub(super) fn host(&self, stack: Stack) -> &Host {
        let (_, host) =
            self.hosts.iter().find(|(of, _)| *of == stack).expect("every stack of the plan has one");
        host
    }

    pub(super) fn empty_series(&self) -> Vec<Series> {
        let open_loop = self.plan.rate_per_s.is_some();
        let caller = |&one| CallerResult::new(one, self.plan.deadline, open_loop, self.start_ns);
        let empty = PairResult { callers: self.callers.iter().map(caller).collect(), server: None };
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

    /// Reports the processes' main threads: servers, this process, clients.
    pub(super) fn report_processes(
        &self,
        group: &WorkerGroup,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<()> {
        let servers = self.servers.iter().flatten().map(|server| ("service", group.pid(server.0)));
        let clients = self.clients.iter().map(|&client| ("client", group.pid(client)));
        for (role, pid) in servers.chain([("main", std::process::id())]).chain(clients) {
            let cpu = judge::cpu_of(pid, &Root::real()).unwrap_or_default();
            let scheduling = sched::scheduling(pid)?;
            let role = role.to_owned();
            notice(Notice::Thread(&ThreadReport { role, pid, tid: pid, cpu, scheduling, inherited: false }));
        }
        Ok(())
    }
}

/// What the names of looper threads begin with in Android's libraries.
fn looper_name(stack: Stack) -> String {
    match stack {
        Stack::Binder => "Binder".to_owned(),
        Stack::Hwbinder => "HwBinder".to_owned(),
    }
}

/// The name under which a server registers.
fn instance(pair: u32, series: usize) -> String {
    format!("pair{pair}-{series}")
}
