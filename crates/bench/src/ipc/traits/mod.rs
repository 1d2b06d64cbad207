//! Compares binder with hwbinder: tests each of Android's statements about them on this machine and
//! driver. Must not know how the table is shown.

mod holds;
mod job;
mod watched;

use std::time::{Duration, Instant};

use roundtrip_latency::Histogram;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use job::TraitsJob;

use super::host::Host;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::sched::realtime_permission;
use crate::worker::{Spawner, WorkerGroup, WorkerId, keep};
use holds::holds;
use job::{Counted, PAYLOAD_BYTES, SMALL_BYTES, ServerFacts, Trial};
use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::traits::{Aspect, Finding, Row, TraitsPlan, TraitsResult};
use roundtrip_run::{RealtimePermission, Scheduling};

/// How long a worker may take for a trial. A timeout for failures, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a server may take to restore its own scheduling after its caller has the reply. A
/// preempted server cannot do so before other threads leave its CPU.
const GIVEN_BACK_WITHIN: Duration = Duration::from_millis(500);

/// The real-time priority that is tried, if it is permitted.
const FIFO_PRIORITY: u8 = 50;

/// The number of blocks of each stack's timed calls. The stacks alternate, so that drift of the
/// machine affects both.
const BLOCKS: u64 = 5;

/// A server for calls that do not change its scheduling.
const PLAIN: &str = "plain";

/// The trials of inheritance, with the aspects that each shows. Every trial has its own server,
/// because an inherited nice value cannot be restored without permission.
const INHERITANCE: [(&str, &[Aspect]); 4] = [
    ("realtime", &[Aspect::RealtimeInheritance]),
    ("least", &[Aspect::LeastPolicy]),
    ("background", &[Aspect::NiceRaised, Aspect::BackgroundPolicy]),
    ("favoured", &[Aspect::NiceLowered]),
];

/// Runs the trials.
///
/// # Errors
/// [`Error::Run`] for an invalid plan, and every error that ends a [`WorkerGroup`]. If this machine
/// does not permit a trial, the result says so; that is not an error.
pub fn run(
    plan: &TraitsPlan,
    spawner: &Spawner,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<TraitsResult> {
    plan.check()?;
    let permission = realtime_permission();
    let mut group = WorkerGroup::new(spawner.clone())?;
    let hosts = [Host::open(&plan.driver)?, Host::open(&plan.driver)?];
    let least_fifo = permission.max_priority().map(|most| most.min(FIFO_PRIORITY));
    let [binder, hwbinder] = Stack::ALL;
    let binder = Side::start(&mut group, &hosts[0], binder, least_fifo)?;
    let hwbinder = Side::start(&mut group, &hosts[1], hwbinder, least_fifo)?;
    group.start(PATIENCE)?;

    let total = BLOCKS + 2;
    let mut step = |done| progress(Progress { what: "traits", done, total });
    step(0);
    let mut found = [Vec::new(), Vec::new()];
    for (side, found) in [&binder, &hwbinder].into_iter().zip(&mut found) {
        found.extend(words(side.stack));
        found.extend(side.copies(&mut group)?);
        found.extend(side.inheritance(&mut group, &permission)?);
    }
    let latencies = timed(&mut group, [&binder, &hwbinder], plan.calls, &mut step);
    let is_complete = latencies.is_ok();
    // If a signal arrives, the results of the earlier trials are kept, without the times.
    match latencies {
        Ok(latencies) => {
            for (found, latency) in found.iter_mut().zip(latencies) {
                found.push((Aspect::RoundTrip, Finding::RoundTrip { latency }));
            }
        }
        Err(error) => keep(error, true)?,
    }
    step(BLOCKS + 1);
    if is_complete {
        group.finish(PATIENCE)?;
    }
    step(total);

    let [binder, hwbinder] = found;
    let rows = Aspect::ALL.into_iter().filter_map(|aspect| {
        let of = |found: &[(Aspect, Finding)]| {
            found.iter().find(|(about, _)| *about == aspect).map(|(_, finding)| finding.clone())
        };
        Some(Row { aspect, binder: of(&binder)?, hwbinder: of(&hwbinder)? })
    });
    Ok(TraitsResult { plan: plan.clone(), backend: hosts[0].backend(), rows: rows.collect() })
}

/// Measures how long the smallest calls take over each stack.
fn timed(
    group: &mut WorkerGroup,
    sides: [&Side; 2],
    calls: u64,
    step: &mut dyn FnMut(u64),
) -> Result<[Histogram; 2]> {
    let mut latencies = [Histogram::new(), Histogram::new()];
    for block in 0..BLOCKS {
        step(block + 1);
        // The first blocks are longer if the calls do not divide evenly.
        let calls = calls / BLOCKS + u64::from(block < calls % BLOCKS);
        group.look();
        for (side, latency) in sides.into_iter().zip(&mut latencies) {
            let trial = Trial::Time { instance: PLAIN.into(), calls };
            latency.merge(&side.ask::<Histogram>(group, &trial)?);
        }
    }
    Ok(latencies)
}

/// Aspects that cannot be measured.
fn words(stack: Stack) -> [(Aspect, Finding); 2] {
    let (purpose, property) = match stack {
        Stack::Binder => ("general IPC for the framework", "tuned for framework use"),
        Stack::Hwbinder => ("talking to hardware services", "least overhead, low latency"),
    };
    let words = |text: &str| Finding::Words { text: text.into() };
    [(Aspect::Purpose, words(purpose)), (Aspect::Property, words(property))]
}

/// One stack's workers.
struct Side {
    stack: Stack,
    client: WorkerId,
    plain: WorkerId,
    /// In the order of [`INHERITANCE`].
    inheriting: Vec<WorkerId>,
    least_fifo: Option<u8>,
}

impl Side {
    fn start(group: &mut WorkerGroup, host: &Host, stack: Stack, least_fifo: Option<u8>) -> Result<Self> {
        host.start_service_manager(group, stack)?;
        let mut server = |instance: &str| {
            let least_fifo = least_fifo.filter(|_| instance == "least");
            let instance = instance.to_owned();
            let role = format!("{stack} server '{instance}'");
            let job = TraitsJob::Server { endpoint: host.endpoint(), stack, instance, least_fifo };
            group.spawn(role, &job)
        };
        let plain = server(PLAIN)?;
        let inheriting = INHERITANCE.iter().map(|(instance, _)| server(instance)).collect::<Result<_>>()?;
        let job = TraitsJob::Client { endpoint: host.endpoint(), stack };
        let client = group.spawn(format!("{stack} client"), &job)?;
        Ok(Self { stack, client, plain, inheriting, least_fifo })
    }

    fn ask<T: DeserializeOwned>(&self, group: &mut WorkerGroup, trial: &impl Serialize) -> Result<T> {
        group.send(self.client, trial)?;
        group.message(self.client, PATIENCE)
    }

    fn facts(group: &mut WorkerGroup, server: WorkerId) -> Result<ServerFacts> {
        group.send(server, &())?;
        group.message(server, PATIENCE)
    }

    /// Counts copies with a large and with a small payload. Bytes that both have in common are not
    /// copies of the payload.
    fn copies(&self, group: &mut WorkerGroup) -> Result<[(Aspect, Finding); 3]> {
        let mut count = |payload_bytes, both_ways| {
            let replied = Self::facts(group, self.plain)?.reply_bytes;
            let trial = Trial::Count { instance: PLAIN.into(), payload_bytes, both_ways };
            let counted = self.ask::<Counted>(group, &trial)?;
            Ok::<_, Error>((counted, Self::facts(group, self.plain)?.reply_bytes - replied))
        };
        let per_byte =
            |with: u64, without: u64| (with as f64 - without as f64) / (PAYLOAD_BYTES - SMALL_BYTES) as f64;
        let ((small, _), (request, _)) = (count(SMALL_BYTES, false)?, count(PAYLOAD_BYTES, false)?);
        let ((small_both, small_reply), (both, reply)) =
            (count(SMALL_BYTES, true)?, count(PAYLOAD_BYTES, true)?);
        let stack = per_byte(request.stack_bytes, small.stack_bytes);
        let stack_both = per_byte(both.stack_bytes, small_both.stack_bytes);
        let copies = |stack, driver| Finding::Copies { payload_bytes: PAYLOAD_BYTES as u64, stack, driver };
        let driver = per_byte(request.request.bytes, small.request.bytes);
        let arguments = Finding::Arguments {
            scatter_gather: request.request.scatter_gather,
            buffers: request.request.buffers.len() as u64,
            payload_in_place: request.payload_in_place,
        };
        Ok([
            (Aspect::ArgumentPassing, arguments),
            (Aspect::RequestCopies, copies(stack, driver)),
            (Aspect::ReplyCopies, copies(stack_both - stack, per_byte(reply, small_reply))),
        ])
    }

    /// Runs the trials of inheritance.
    fn inheritance(
        &self,
        group: &mut WorkerGroup,
        permission: &RealtimePermission,
    ) -> Result<Vec<(Aspect, Finding)>> {
        let mut found = Vec::new();
        for ((instance, aspects), &server) in INHERITANCE.into_iter().zip(&self.inheriting) {
            let caller = match instance {
                "realtime" => self.least_fifo.map_or(Scheduling::fifo(FIFO_PRIORITY), Scheduling::fifo),
                "background" => Scheduling::other(10),
                "favoured" => Scheduling::other(-10),
                _ => Scheduling::other(0),
            };
            let served = self.served(group, (instance, server), caller, permission)?;
            found.extend(aspects.iter().map(|&aspect| (aspect, served.about(aspect))));
        }
        Ok(found)
    }

    /// Calls a server from a caller with the given scheduling, and records the server's scheduling
    /// before, during and after the calls.
    fn served(
        &self,
        group: &mut WorkerGroup,
        (instance, server): (&str, WorkerId),
        caller: Scheduling,
        permission: &RealtimePermission,
    ) -> Result<Served> {
        let needs_realtime = caller.policy.is_realtime() || instance == "least";
        if let RealtimePermission::Refused { reason } = permission
            && needs_realtime
        {
            return Ok(Served::NotTried(reason.clone()));
        }
        let before = Self::facts(group, server)?;
        let at_rest = before.looper;
        let trial = Trial::CallAs { instance: instance.to_owned(), caller };
        Ok(match self.ask::<std::result::Result<Vec<Scheduling>, String>>(group, &trial)? {
            Err(reason) => Served::NotTried(reason),
            Ok(serving) => {
                // The looper restores its own scheduling before it waits again, a moment after the
                // caller has its reply.
                let mut afterwards = Self::facts(group, server)?;
                let until = Instant::now() + GIVEN_BACK_WITHIN;
                while afterwards.looper != at_rest && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                    afterwards = Self::facts(group, server)?;
                }
                let least = self.least_fifo.filter(|_| instance == "least").map(Scheduling::fifo);
                let inherited = afterwards.inherited_by_pi_futex - before.inherited_by_pi_futex;
                Served::Tried { caller, least, at_rest, serving, inherited, afterwards }
            }
        })
    }
}

/// The server's scheduling in a trial.
enum Served {
    Tried {
        caller: Scheduling,
        least: Option<Scheduling>,
        at_rest: Scheduling,
        serving: Vec<Scheduling>,
        /// How many calls ran at a priority inherited through a PI futex.
        inherited: u64,
        afterwards: ServerFacts,
    },
    NotTried(String),
}

impl Served {
    fn about(&self, aspect: Aspect) -> Finding {
        match self {
            Self::NotTried(reason) => Finding::NotTried { reason: reason.clone() },
            Self::Tried { caller, least, at_rest, serving, inherited, afterwards } => {
                let held = serving.iter().filter(|serving| holds(aspect, *caller, *least, **serving)).count();
                if aspect == Aspect::RealtimeInheritance
                    && let Some(&shown) = serving.last().filter(|_| held == 0)
                    && *inherited >= serving.len() as u64
                {
                    return Finding::InheritedUnseen { calls: serving.len() as u32, caller: *caller, shown };
                }
                // A refusal by the system is not a property of the stack.
                if held < serving.len() && !afterwards.limits.is_empty() {
                    return Finding::NotTried { reason: afterwards.limits.join("; ") };
                }
                Finding::Served {
                    holds: held == serving.len(),
                    calls: serving.len() as u32,
                    held: held as u32,
                    caller: *caller,
                    least: *least,
                    at_rest: *at_rest,
                    serving: serving.last().copied().unwrap_or(*at_rest),
                    afterwards: afterwards.looper,
                }
            }
        }
    }
}
