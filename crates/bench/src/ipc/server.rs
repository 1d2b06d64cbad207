//! Server workers: the service manager, and servers of the benchmark service. Must not know who
//! calls them, or why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use roundtrip_binder::manager::{self, ServiceManager};
use roundtrip_binder::{NodeOptions, Process};
use roundtrip_binder_emulator::Emulated;
use roundtrip_echo::{Echo, service_name};
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::probe::WorkingProbe;
use crate::error::{Error, Result};
use crate::inject::{Handler, HandlerPlan};
use crate::kernel::counters;
use crate::sched;
use crate::worker::{Link, Work, WorkerGroup, WorkerId};
use roundtrip_run::ThreadCounters;
use roundtrip_run::ipc::Stack;

/// How long a server may take to answer its parent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The service manager of one context. Serves until its group ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServiceManagerJob {
    pub(super) endpoint: Endpoint,
    pub(super) stack: Stack,
}

impl Work for ServiceManagerJob {
    const NAME: &'static str = "service manager";
    const PROCESS: &'static str = "manager";

    fn run(self, link: &mut Link) -> Result<()> {
        let process = self.endpoint.connect()?;
        manager::serve(&process, self.stack)?;
        process.start_looper()?;
        link.ready()?;
        // Serves on its looper until the parent, which sends nothing, closes the link.
        while link.receive::<()>()?.is_some() {}
        process.stop();
        Ok(())
    }
}

/// A server of the benchmark service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerJob {
    /// The context.
    pub endpoint: Endpoint,
    /// The stack that its service is published on.
    pub stack: Stack,
    /// The name of its instance, unique in the context.
    pub instance: String,
    /// The number of looper threads; at least 1.
    pub loopers: u32,
    /// Whether its node inherits real-time priorities; `None`: the stack's default.
    pub inherit_rt: Option<bool>,
    /// CPU time to use for each call that asks for the server's scheduling, in nanoseconds; 0 for
    /// none.
    pub work_ns: u64,
    /// Disturbances to inject into some calls.
    pub disturbance: Option<HandlerPlan>,
    /// The allowed CPUs; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// The name of its main thread in traces; `None` for the program's name.
    pub name: Option<String>,
    /// What the names of its looper threads begin with, before `:PID_N`; `None` for `looper-N`.
    pub looper_name: Option<String>,
}

/// A server's report about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its looper threads and what the scheduler did to each so far.
    pub loopers: Vec<(u32, ThreadCounters)>,
    /// Payload bytes that it has copied into and out of parcels so far.
    pub copied_bytes: u64,
    /// What the driver could not do for it, one sentence each.
    pub limits: Vec<String>,
    /// How many calls its threads have served at a priority inherited through a PI futex so far.
    pub inherited_by_pi_futex: u64,
    /// How the emulated driver wakes its threads; `None` over the kernel's driver.
    pub wake_up: Option<String>,
}

impl Work for ServerJob {
    const NAME: &'static str = "server";

    fn run(self, link: &mut Link) -> Result<()> {
        if let Some(cpus) = &self.cpus {
            // Before the loopers start, because threads inherit the mask.
            sched::set_allowed_cpus(0, cpus)?;
        }
        if let Some(name) = &self.name {
            sched::set_name(name);
        }
        let stack = self.stack;
        let process = self.endpoint.connect()?;
        let mut options = NodeOptions::from(stack);
        options.inherit_rt = self.inherit_rt.unwrap_or(options.inherit_rt);
        let handler = self.disturbance.clone().map(Handler::new).transpose()?;
        let echo = Arc::new(Echo::new(WorkingProbe { work_ns: self.work_ns, handler }));
        let service = echo.publish(&process, stack, options);
        if let Some(name) = &self.looper_name {
            process.name_loopers(format!("{name}:{}_", std::process::id()));
        }
        for _ in 0..self.loopers.max(1) {
            process.start_looper()?;
        }
        register(&process, self.stack, &self.instance, &service)?;
        link.ready()?;
        while link.receive::<()>()?.is_some() {
            link.send(&report(&process)?)?;
        }
        process.stop();
        Ok(())
    }
}

pub(super) fn register(
    process: &Arc<Process>,
    stack: Stack,
    instance: &str,
    service: &roundtrip_binder::Binder,
) -> Result<()> {
    let manager = ServiceManager::new(process, stack);
    let until = Instant::now() + PATIENCE;
    loop {
        match manager.add(&service_name(stack, instance), service) {
            // The service manager starts at the same time, so it may not be ready yet.
            Err(roundtrip_binder::Error::DeadObject { .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return Ok(other?),
        }
    }
}

fn report(process: &Process) -> Result<ServerReport> {
    let loopers = looper_tids()?;
    let emulated = Emulated::of(&**process.driver());
    let counters = loopers.into_iter().map(|tid| Ok((tid, counters::of_thread(tid)?)));
    Ok(ServerReport {
        loopers: counters.collect::<Result<_>>()?,
        copied_bytes: process.copied_bytes(),
        limits: process.driver().limits(),
        inherited_by_pi_futex: emulated.map_or(0, Emulated::inherited_by_pi_futex),
        wake_up: emulated.map(Emulated::wake_up),
    })
}

/// This process's looper threads, found by their names.
pub(super) fn looper_tids() -> Result<Vec<u32>> {
    // A new thread sets its own name. On a busy machine, it may do so only after its creator has
    // continued.
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        let tids = named_loopers()?;
        if !tids.is_empty() || Instant::now() >= until {
            return Ok(tids);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What the names of looper threads begin with.
const LOOPERS: [&str; 3] = ["looper-", "Binder:", "HwBinder:"];

fn named_loopers() -> Result<Vec<u32>> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .map_err(|source| Error::file("read", "/proc/self/task", source))?;
    let mut tids: Vec<u32> = tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            LOOPERS
                .iter()
                .any(|start| name.starts_with(start))
                .then(|| path.file_name()?.to_str()?.parse().ok())
                .flatten()
        })
        .collect();
    tids.sort_unstable();
    Ok(tids)
}

/// The parent's reference to a server worker.
#[derive(Debug, Clone, Copy)]
pub struct Server(pub WorkerId);

impl Server {
    /// Starts a server; `role` names it in errors. The server is ready when its group is.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`].
    pub fn spawn(group: &mut WorkerGroup, role: impl Into<String>, job: ServerJob) -> Result<Self> {
        Ok(Self(group.spawn(role, &job)?))
    }

    /// Requests a report. Must not be used while calls are timed, because the server then reads
    /// files.
    ///
    /// # Errors
    /// As [`WorkerGroup::message`].
    pub fn report(self, group: &mut WorkerGroup) -> Result<ServerReport> {
        group.send(self.0, &())?;
        group.message(self.0, PATIENCE)
    }
}
