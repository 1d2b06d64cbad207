//! The baseline: what a round trip between two processes costs on this machine with each mechanism
//! that the kernel offers, measured in one interleaved run. Must not know who requested it, nor how
//! the result is shown.

mod area;
mod driver;
mod eventfd;
mod futex;
mod mqueue;
mod mqueue_sys;
mod paged;
mod pipe;
mod shared;
mod side;
mod socket;
mod spin;
mod stack;
mod transport;
mod transports;

use std::os::fd::AsFd;
use std::time::Duration;

use roundtrip_latency::Histogram;

pub use side::BaselineJob;

use crate::error::{Disturbance, Error, Result};
use crate::ipc::Host;
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::schedule::Budget;
use crate::schedule::shuffle::Shuffle;
use crate::worker::{Spawner, WorkerGroup, WorkerId, keep};
use crate::{clock, sched};
use roundtrip_run::baseline::{BaselineCell, BaselinePlan, BaselineResult, FUTEX, NotPossible, compare};
use roundtrip_run::cpus::place;
use side::{Block, MAX_CALLS, Opened, Wakes};
use transport::{Place, Prepared, Side, Transport};
use transports::TRANSPORTS;

/// How long a worker may take to open its side, and how far a block may exceed its share of the
/// time budget. A timeout for failures, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Untimed calls before each block, so that both sides have migrated to their CPUs and touched
/// their memory.
const WARM_UP: u64 = 10;

/// Calls in a cell's first block, which determines how many calls fit into the other blocks.
const TRIAL_CALLS: u64 = 20;

/// A transport's two workers.
struct Pair {
    transport: &'static Transport,
    client: WorkerId,
    server: WorkerId,
    max_len: usize,
    /// Keeps the transport's context alive.
    host: Option<Host>,
    wakes: Wakes,
}

/// A cell being measured.
struct Running {
    pair: usize,
    calls: u64,
    /// The mean duration of a call in the last block, in nanoseconds.
    call_ns: Option<u64>,
    /// The latencies without the flight recorder, and those with it.
    cell: BaselineCell,
}

/// Measures the baseline.
///
/// # Errors
/// [`Error::Run`] for an invalid plan, and every error that ends a [`WorkerGroup`]. If this machine
/// cannot make a measurement, the result says so; that is not an error.
pub fn run(
    plan: &BaselinePlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress),
) -> Result<BaselineResult> {
    plan.check()?;
    let usable = sched::allowed_cpus(0)?;
    let clock_read_cost_ns = clock::read_cost_ns();
    let mut group = WorkerGroup::new(spawner.clone())?;
    group.may_move();
    let mut not_possible = Vec::new();
    let pairs = open(plan, &mut group, &mut not_possible)?;
    let mut cells = cells(plan, &pairs, &usable, &mut not_possible);

    let mut info = None;
    match rounds(plan, &mut group, &pairs, &mut cells, &mut info, progress) {
        Ok(()) => {
            group.finish(PATIENCE)?;
        }
        Err(error) => {
            keep(error, cells.iter().any(|running| !running.cell.latency.is_empty()))?;
            cells.retain(|running| !running.cell.latency.is_empty());
        }
    }

    let mut cells: Vec<_> = cells.into_iter().map(|running| running.cell).collect();
    compare(&mut cells);
    let wake_up = pairs.iter().find_map(|pair| pair.wakes.clone());
    Ok(BaselineResult {
        plan: plan.clone(),
        clock_read_cost_ns,
        cells,
        not_possible,
        recorder: info,
        wake_up,
    })
}

/// Runs all blocks of all cells, in rounds.
fn rounds(
    plan: &BaselinePlan,
    group: &mut WorkerGroup,
    pairs: &[Pair],
    cells: &mut [Running],
    info: &mut Option<roundtrip_run::RecorderInfo>,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let halves_of_round = if plan.recorder { 2 } else { 1 };
    // Includes the trial round, which takes about as long as the others.
    let blocks = halves_of_round * cells.len() as u64 * (u64::from(plan.rounds) + 1);
    let mut budget = Budget::new(plan.budget_ns, blocks, MAX_CALLS);
    let mut shuffle = Shuffle::new();
    for round in 0..=plan.rounds {
        for &recorded in halves(plan.recorder, round) {
            // Opened only while it is needed: enabled events cost time even while the recorder is
            // off.
            let recorder =
                recorded.then(|| Recorder::open(roundtrip_run::DEFAULT_KILOBYTES, false)).transpose()?;
            if let Some(recorder) = &recorder {
                recorder.instance.on()?;
                *info = Some(recorder.info());
            }
            for index in shuffle.order(cells.len()) {
                progress(Progress { what: "baseline", done: budget.done, total: budget.blocks });
                group.look();
                let running = &mut cells[index];
                if let Some(call_ns) = running.call_ns {
                    running.calls = budget.calls(call_ns);
                }
                let mut latencies_ns = run_block(group, &pairs[running.pair], running)?;
                let calls_ns = latencies_ns.iter().sum::<u64>();
                budget.spend(calls_ns);
                running.call_ns = Some(calls_ns / latencies_ns.len() as u64);
                // The trial block only determines how long a call takes. It is not part of the
                // result.
                if round > 0 {
                    latencies_ns.sort_unstable();
                    running.count(&latencies_ns, recorded);
                }
            }
            if let Some(what) = recorder.and_then(|recorder| recorder.changed(true)) {
                return Err(Disturbance::Recorder { what }.into());
            }
        }
    }
    progress(Progress { what: "baseline", done: budget.done, total: budget.blocks });
    Ok(())
}

/// Whether the flight recorder is on in each half of a round. The order alternates between rounds.
fn halves(both: bool, round: u32) -> &'static [bool] {
    match (both, round % 2) {
        (false, _) => &[false],
        (true, 0) => &[false, true],
        (true, _) => &[true, false],
    }
}

impl Running {
    /// Adds the latencies of a block, which must be sorted.
    fn count(&mut self, latencies_ns: &[u64], recorded: bool) {
        let (medians_ns, latency) = if recorded {
            let cell = self.cell.recorded.get_or_insert_default();
            (&mut cell.round_medians_ns, &mut cell.latency)
        } else {
            (&mut self.cell.round_medians_ns, &mut self.cell.latency)
        };
        medians_ns.push(latencies_ns[latencies_ns.len() / 2]);
        latencies_ns.iter().for_each(|&ns| latency.record(ns));
    }
}

/// Starts two workers for each transport, which serve all sizes and placements. No two transports
/// share a process, so they cannot disturb each other. Idle workers sleep.
fn open(
    plan: &BaselinePlan,
    group: &mut WorkerGroup,
    not_possible: &mut Vec<NotPossible>,
) -> Result<Vec<Pair>> {
    let longest = plan.sizes_bytes.iter().copied().max().unwrap_or(1);
    let chosen = TRANSPORTS.iter().filter(|transport| {
        transport.name == FUTEX || plan.transports.iter().any(|name| name == transport.name)
    });
    let mut pairs = Vec::new();
    for transport in chosen {
        let mut impossible = |size_bytes: Option<usize>, reason: String| {
            not_possible.push(NotPossible {
                transport: Some(transport.name.into()),
                size_bytes,
                placement: None,
                reason,
            });
        };
        let prepared = match (transport.prepare)(longest) {
            Ok(prepared) => prepared,
            Err(reason) => {
                impossible(None, reason);
                continue;
            }
        };
        let mut max_len = longest;
        if let Some((limit, reason)) = &prepared.limit {
            max_len = longest.min(*limit);
            for &size in plan.sizes_bytes.iter().filter(|&&size| size > max_len) {
                impossible(Some(size), format!("at most {limit} bytes: {reason}"));
            }
        }
        let server = match open_side(group, transport, Side::Server, &prepared, max_len)? {
            Ok((server, _)) => server,
            Err(reason) => {
                impossible(None, reason);
                continue;
            }
        };
        match open_side(group, transport, Side::Client, &prepared, max_len)? {
            Ok((client, wakes)) => {
                pairs.push(Pair { transport, client, server, max_len, host: prepared.host, wakes });
            }
            Err(reason) => impossible(None, reason),
        }
    }
    Ok(pairs)
}

fn open_side(
    group: &mut WorkerGroup,
    transport: &Transport,
    side: Side,
    prepared: &Prepared,
    max_len: usize,
) -> Result<Result<(WorkerId, Wakes), String>> {
    let role = match side {
        Side::Client => format!("{} client", transport.name),
        Side::Server => format!("{} server", transport.name),
    };
    let endpoint = prepared.host.as_ref().map(Host::endpoint);
    let job = BaselineJob { transport: transport.name.into(), side, max_len, endpoint };
    let worker = group.spawn(role, &job)?;
    let descriptors: Vec<_> = prepared.descriptors.iter().map(AsFd::as_fd).collect();
    group.send_with_descriptors(worker, &(), &descriptors)?;
    let opened: Opened = group.message(worker, PATIENCE)?;
    Ok(opened.map(|wakes| (worker, wakes)))
}

/// All cells that this machine can measure, and why it cannot measure the others.
fn cells(
    plan: &BaselinePlan,
    pairs: &[Pair],
    usable: &[u32],
    not_possible: &mut Vec<NotPossible>,
) -> Vec<Running> {
    let mut cells = Vec::new();
    for &placement in &plan.placements {
        let Some((client_cpus, server_cpus)) = place(placement, usable) else {
            let reason = format!("this needs two CPUs, but this process may use only one (CPU {usable:?})");
            not_possible.push(NotPossible {
                transport: None,
                size_bytes: None,
                placement: Some(placement),
                reason,
            });
            continue;
        };
        let on_one_cpu = client_cpus.len() == 1 && client_cpus == server_cpus;
        for (index, pair) in pairs.iter().enumerate() {
            let transport = pair.transport;
            if let Some(reason) = transport.not_on_one_cpu.filter(|_| on_one_cpu) {
                not_possible.push(NotPossible {
                    transport: Some(transport.name.into()),
                    size_bytes: None,
                    placement: Some(placement),
                    reason: reason.into(),
                });
                continue;
            }
            for &size_bytes in plan.sizes_bytes.iter().filter(|&&size| size <= pair.max_len) {
                let cell = BaselineCell {
                    transport: transport.name.into(),
                    backend: pair.host.as_ref().map(Host::backend),
                    size_bytes,
                    placement,
                    client_cpus: client_cpus.clone(),
                    server_cpus: server_cpus.clone(),
                    round_medians_ns: Vec::new(),
                    latency: Histogram::new(),
                    against_futex: None,
                    recorded: None,
                };
                cells.push(Running { pair: index, calls: TRIAL_CALLS, call_ns: None, cell });
            }
        }
    }
    cells
}

fn run_block(group: &mut WorkerGroup, pair: &Pair, running: &Running) -> Result<Vec<u64>> {
    let BaselineCell { size_bytes, client_cpus, server_cpus, .. } = &running.cell;
    // Unpinned sides start on different CPUs, so that the scheduler decides where they run, not the
    // previous block.
    let place = |cpus: &[u32], nth: usize| Place {
        first: cpus.get(nth).copied().filter(|_| cpus.len() > 1),
        cpus: cpus.to_vec(),
    };
    let block =
        Block { len: *size_bytes, warm_up: WARM_UP, calls: running.calls, place: place(server_cpus, 1) };
    group.send(pair.server, &block)?;
    group.send(pair.client, &Block { place: place(client_cpus, 0), ..block })?;
    let latencies_ns: Vec<u64> = group.message(pair.client, PATIENCE)?;
    if latencies_ns.is_empty() {
        let from = group.role(pair.client).to_owned();
        return Err(Error::GarbledFrame { from, reason: "no calls were timed".into() });
    }
    group.is_on(pair.client, client_cpus)?;
    group.is_on(pair.server, server_cpus)?;
    Ok(latencies_ns)
}
