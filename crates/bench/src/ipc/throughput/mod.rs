//! Throughput by payload size: a client process calls an echo service with payloads of each size,
//! in batches that are timed as a whole. Must not know who requested it, nor how the result is
//! shown.

mod calibration;
mod client;

use std::collections::VecDeque;
use std::time::Duration;

use roundtrip_run::ipc::Backend;
use roundtrip_run::ipc::throughput::{Batch, Length, ThroughputPlan, ThroughputResult, ThroughputRow};
use serde::de::DeserializeOwned;

pub use client::ThroughputJob;

use crate::error::{NotHere, Result};
use crate::ipc::{Host, Server, ServerJob};
use crate::progress::Progress;
use crate::schedule::shuffle::Shuffle;
use crate::worker::{Gently, Interrupts, Spawner, WorkerGroup, WorkerId, is_stopping, keep};
use crate::{clock, load, sched};
use client::{Ask, Service};
use roundtrip_run::cpus::place;
use roundtrip_run::ipc::{Mode, Stack};
use roundtrip_sorting::SmallSort as _;

/// The name under which each server registers.
const INSTANCE: &str = "throughput";

/// How long workers may take to start, to end, and to answer, in addition to the time of their
/// calls. A timeout for failures, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait for each call: no usable machine needs longer for a call, on average.
const CALL_PATIENCE: Duration = Duration::from_millis(10);

/// The number of individually timed calls for a row that a signal interrupted.
const CALLS_WHEN_STOPPED: u64 = 1000;

/// Measures throughput.
///
/// # Errors
/// As [`Session::open`] and [`Session::next_row`].
pub fn run(
    plan: &ThroughputPlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress),
) -> Result<ThroughputResult> {
    let clock_read_cost_ns = clock::read_cost_ns();
    let mut session = Session::open(plan, spawner)?;
    let backend = session.backend();
    let mut rows = Vec::new();
    let gently = Gently::begin();
    let (limits, wake_up) = match all_rows(&mut session, &gently, &mut rows, progress) {
        Ok(()) => {
            if rows.is_empty() {
                drop(gently);
                Interrupts::watch()?.check()?;
            }
            session.finish()?
        }
        Err(error) => {
            rows.extend(session.begun_rows());
            keep(error, !rows.is_empty())?;
            (Vec::new(), None)
        }
    };
    // Interleaved rows are not completed in the plan's order.
    let position = |row: &ThroughputRow| {
        let stack = plan.stacks.iter().position(|&stack| stack == row.stack);
        (stack, plan.sizes_bytes.iter().position(|&size| size == row.size_bytes))
    };
    rows.small_sort_by_key(position);
    Ok(ThroughputResult { plan: plan.clone(), backend, clock_read_cost_ns, rows, limits, wake_up })
}

/// Measures rows until all are complete or a signal arrives.
fn all_rows(
    session: &mut Session,
    gently: &Gently,
    rows: &mut Vec<ThroughputRow>,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    while !gently.stops()
        && let Some(row) = session.next_row(progress)?
    {
        rows.push(row);
    }
    if gently.stops() {
        rows.extend(session.incomplete_rows()?);
    }
    Ok(())
}

/// A measurement in progress, which returns each row as soon as it is complete. Dropping it ends
/// all its processes.
#[derive(Debug)]
pub struct Session {
    plan: ThroughputPlan,
    group: WorkerGroup,
    stations: Vec<Station>,
    running: Vec<Running>,
    /// Indices into `running`, in the order of their next batches.
    order: VecDeque<usize>,
    batches: u64,
}

/// A stack's processes, and their context.
#[derive(Debug)]
struct Station {
    client: WorkerId,
    remote: Option<(Host, Server)>,
}

/// A row being measured.
#[derive(Debug)]
struct Running {
    station: usize,
    /// The number of calls in a batch, once that is known.
    iterations: Option<u64>,
    row: ThroughputRow,
}

impl Session {
    /// Starts the processes.
    ///
    /// # Errors
    /// [`crate::Error::Run`] for an invalid plan, [`crate::Error::NotHere`] for one that this
    /// machine cannot carry out, [`crate::Error::Driver`] if the driver cannot be opened, and every
    /// error that ends a [`WorkerGroup`].
    pub fn open(plan: &ThroughputPlan, spawner: &Spawner) -> Result<Self> {
        plan.check()?;
        let (client_cpus, server_cpus) = cpus(plan)?;
        let mut group = WorkerGroup::new(spawner.clone())?;
        let max_len = plan.sizes_bytes.iter().copied().max().unwrap_or(0);
        let (mut stations, mut running) = (Vec::new(), Vec::new());
        for &stack in &plan.stacks {
            let (service, remote) = match plan.mode {
                Mode::Passthrough => (Service::Local, None),
                Mode::Binderize => {
                    let (host, server) = serve(plan, stack, &server_cpus, &mut group)?;
                    let instance = INSTANCE.to_owned();
                    (Service::Remote { endpoint: host.endpoint(), stack, instance }, Some((host, server)))
                }
            };
            let job = ThroughputJob { service, cpus: client_cpus.clone(), max_len };
            let client = group.spawn(format!("{stack} client"), &job)?;
            running.extend(plan.sizes_bytes.iter().map(|&size_bytes| Running {
                station: stations.len(),
                iterations: None,
                row: ThroughputRow {
                    stack,
                    size_bytes,
                    client_cpus: client_cpus.clone(),
                    server_cpus: if remote.is_some() { server_cpus.clone() } else { Vec::new() },
                    batches: Vec::new(),
                    latency: None,
                },
            }));
            stations.push(Station { client, remote });
        }
        for load in &plan.loads {
            load::start(load, &mut group)?;
        }
        group.start(PATIENCE)?;
        let repetitions = plan.repetitions as usize;
        let batches = running.len() * repetitions;
        let in_order: Vec<usize> = (0..batches).map(|batch| batch / repetitions).collect();
        let order = match plan.interleaved {
            true => Shuffle::new().order(batches).into_iter().map(|batch| in_order[batch]).collect(),
            false => in_order.into(),
        };
        Ok(Self { plan: plan.clone(), group, stations, running, order, batches: batches as u64 })
    }

    /// The driver used; `None` in passthrough mode.
    #[must_use]
    pub fn backend(&self) -> Option<Backend> {
        self.stations.iter().find_map(|station| station.remote.as_ref()).map(|(host, _)| host.backend())
    }

    /// Measures until another row is complete; `None` when all are.
    ///
    /// # Errors
    /// [`crate::Error::WorkerFailed`] if a call fails or an echo is wrong,
    /// [`crate::Error::PeerDied`] if a process has died, and every other error that ends a
    /// [`WorkerGroup`]. Drop the session after an error.
    pub fn next_row(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Option<ThroughputRow>> {
        while !is_stopping()
            && let Some(index) = self.order.pop_front()
        {
            let done = self.batches - self.order.len() as u64 - 1;
            progress(Progress { what: "throughput", done, total: self.batches });
            let batch = self.batch(index)?;
            self.group.look();
            self.is_in_place(index)?;
            self.running[index].iterations = Some(batch.iterations);
            self.running[index].row.batches.push(batch);
            if self.running[index].row.batches.len() == self.plan.repetitions as usize {
                return self.complete(index, self.plan.latency_calls).map(Some);
            }
        }
        progress(Progress { what: "throughput", done: self.batches, total: self.batches });
        Ok(None)
    }

    /// Completes a row that has all its batches. Its percentiles come from at most `most_calls`
    /// calls.
    fn complete(&mut self, index: usize, most_calls: u64) -> Result<ThroughputRow> {
        let mut row = self.running[index].row.clone();
        let calls = most_calls.min(row.batches.last().map_or(0, |batch| batch.iterations));
        if calls > 0 {
            let ask = Ask::Each { size_bytes: row.size_bytes, calls };
            row.latency = Some(self.ask(index, &ask, calls)?);
        }
        Ok(row)
    }

    /// The rows that have some of their batches when a signal arrives. Their percentiles come from
    /// fewer calls, so that this takes only a moment.
    fn incomplete_rows(&mut self) -> Result<Vec<ThroughputRow>> {
        let repetitions = self.plan.repetitions as usize;
        let begun = |running: &Running| (1..repetitions).contains(&running.row.batches.len());
        let begun: Vec<usize> =
            (0..self.running.len()).filter(|&index| begun(&self.running[index])).collect();
        let calls = self.plan.latency_calls.min(CALLS_WHEN_STOPPED);
        begun.into_iter().map(|index| self.complete(index, calls)).collect()
    }

    /// The rows that have some of their batches when a worker fails. They have no percentiles.
    fn begun_rows(&self) -> Vec<ThroughputRow> {
        let repetitions = self.plan.repetitions as usize;
        let rows = self.running.iter().map(|running| &running.row);
        rows.filter(|row| (1..repetitions).contains(&row.batches.len())).cloned().collect()
    }

    /// Ends the processes. Returns what the driver could not do, one sentence each, and how it
    /// wakes threads.
    ///
    /// # Errors
    /// As [`Session::next_row`].
    pub fn finish(mut self) -> Result<(Vec<String>, Option<String>)> {
        let (mut limits, mut wake_up) = (Vec::new(), None);
        for station in &self.stations {
            self.group.send(station.client, &Ask::Limits)?;
            limits.extend(self.group.message::<Vec<String>>(station.client, PATIENCE)?);
            if let Some((host, server)) = &station.remote {
                limits.extend(host.why_emulated());
                let report = server.report(&mut self.group)?;
                limits.extend(report.limits);
                wake_up = wake_up.or(report.wake_up);
            }
        }
        self.group.finish(PATIENCE)?;
        Ok((limits, wake_up))
    }

    /// Runs one repetition. The first one of a row also warms up and determines the number of
    /// calls.
    fn batch(&mut self, index: usize) -> Result<Batch> {
        let Running { iterations, ref row, .. } = self.running[index];
        let size_bytes = row.size_bytes;
        if self.plan.warm_up_ns > 0 && iterations.is_none() {
            self.warm_up(index, size_bytes)?;
        }
        let mut calls = iterations.unwrap_or_else(|| calibration::first(self.plan.length));
        loop {
            let batch: Batch = self.ask(index, &Ask::Batch { size_bytes, calls }, calls)?;
            match calibration::next(self.plan.length, &batch) {
                Some(more) if iterations.is_none() && !is_stopping() => calls = more,
                _ => return Ok(batch),
            }
        }
    }

    /// Checks that both sides of a row still run where the plan placed them.
    fn is_in_place(&self, index: usize) -> Result<()> {
        if !self.plan.is_placed() {
            return Ok(());
        }
        let Station { client, remote } = &self.stations[self.running[index].station];
        self.group.is_in_place(*client)?;
        remote.as_ref().map_or(Ok(()), |(_, server)| self.group.is_in_place(server.0))
    }

    /// Makes calls that are timed only to know when to stop.
    fn warm_up(&mut self, index: usize, size_bytes: usize) -> Result<()> {
        let length = Length::ElapsedNs(self.plan.warm_up_ns);
        let mut calls = calibration::first(length);
        loop {
            let batch: Batch = self.ask(index, &Ask::Batch { size_bytes, calls }, calls)?;
            match calibration::next(length, &batch) {
                Some(more) if !is_stopping() => calls = more,
                _ => return Ok(()),
            }
        }
    }

    fn ask<T: DeserializeOwned>(&mut self, index: usize, ask: &Ask, calls: u64) -> Result<T> {
        let client = self.stations[self.running[index].station].client;
        self.group.send(client, ask)?;
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        self.group.message(client, PATIENCE + CALL_PATIENCE * calls)
    }
}

/// Starts a context with a service manager and a server for one stack.
fn serve(
    plan: &ThroughputPlan,
    stack: Stack,
    cpus: &[u32],
    group: &mut WorkerGroup,
) -> Result<(Host, Server)> {
    let host = Host::open(&plan.driver)?;
    host.start_service_manager(group, stack)?;
    let job = ServerJob {
        endpoint: host.endpoint(),
        stack,
        instance: INSTANCE.into(),
        loopers: 1,
        inherit_rt: None,
        work_ns: 0,
        disturbance: None,
        cpus: Some(cpus.to_owned()),
        name: None,
        looper_name: None,
    };
    let server = Server::spawn(group, format!("{stack} server"), job)?;
    Ok((host, server))
}

/// The CPUs for the clients and for the servers.
fn cpus(plan: &ThroughputPlan) -> Result<(Vec<u32>, Vec<u32>)> {
    let usable = sched::allowed_cpus(0)?;
    let placed = place(plan.placement, &usable);
    match (plan.client_cpus.clone(), plan.server_cpus.clone(), placed) {
        (Some(client), Some(server), _) => Ok((client, server)),
        (client, server, Some(placed)) => Ok((client.unwrap_or(placed.0), server.unwrap_or(placed.1))),
        (_, _, None) => {
            Err(NotHere::TwoCpus { placement: plan.placement, cpu: usable.first().copied() }.into())
        }
    }
}
