//! The two sides of the trials, each a worker process: a server with one node, and a client that
//! makes different kinds of calls. Must not know what the results mean.

use std::sync::Arc;

use roundtrip_binder::{NodeOptions, Process};
use roundtrip_binder_emulator::Emulated;
use roundtrip_echo::{Benchmark, Echo, Purpose};
use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use super::watched::{Sent, Watched};
use crate::clock::now_ns;
use crate::error::{Disturbance, Error, Result};
use crate::ipc::endpoint::{self, Endpoint};
use crate::ipc::probe::{self, SchedulingProbe};
use crate::ipc::server::{looper_tids, register};
use crate::sched;
use crate::worker::{Link, Work};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::Stack;

/// The payload of the calls whose copies are counted, in bytes: larger than any header.
pub(super) const PAYLOAD_BYTES: usize = 4096;

/// The payload of the calls that they are compared with, in bytes. Not 0, because calls without a
/// payload also have fewer objects.
pub(super) const SMALL_BYTES: usize = 8;

/// Calls in a trial: enough to rule out coincidence.
const CALLS: u32 = 10;

/// Untimed calls before a block of timed ones.
const WARM_UP: u64 = 100;

/// A worker's job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "side", rename_all = "snake_case")]
pub enum TraitsJob {
    /// Serves, and answers each `()` of its parent with `ServerFacts`.
    Server {
        /// The context.
        endpoint: Endpoint,
        /// The stack.
        stack: Stack,
        /// Its instance name.
        instance: String,
        /// The minimum SCHED_FIFO priority of its node; `None`: the stack's default.
        least_fifo: Option<u8>,
    },
    /// Makes the calls of each `Trial` that it receives.
    Client {
        /// The context.
        endpoint: Endpoint,
        /// The stack.
        stack: Stack,
    },
}

/// A server's report about itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerFacts {
    /// How many bytes its replies made the driver copy so far.
    pub(super) reply_bytes: u64,
    /// The scheduling of its looper thread now.
    pub(super) looper: Scheduling,
    pub(super) limits: Vec<String>,
    /// How many calls ran at a priority inherited through a PI futex so far.
    pub(super) inherited_by_pi_futex: u64,
}

/// Calls that a client is to make to an instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trial {
    /// With a payload one way or both ways. Answered with [`Counted`].
    Count { instance: String, payload_bytes: usize, both_ways: bool },
    /// From a thread with this scheduling. Answered with `Result<Vec<Scheduling>, String>`: the
    /// scheduling of the serving thread in each call, or why such a caller is not possible.
    CallAs { instance: String, caller: Scheduling },
    /// Timed calls with the smallest payload. Answered with a [`Histogram`].
    Time { instance: String, calls: u64 },
}

/// What one call made the client, the server and the driver copy.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Payload bytes that client and server copied.
    pub(super) stack_bytes: u64,
    pub(super) request: Sent,
    /// Whether the driver was given the payload's own address.
    pub(super) payload_in_place: bool,
}

impl Work for TraitsJob {
    const NAME: &'static str = "traits";
    const PROCESS: &'static str = "client";

    fn run(self, link: &mut Link) -> Result<()> {
        match self {
            Self::Server { endpoint, stack, instance, least_fifo } => {
                serve(link, &endpoint, stack, &instance, least_fifo)
            }
            Self::Client { endpoint, stack } => call(link, &endpoint, stack),
        }
    }
}

fn serve(
    link: &mut Link,
    endpoint: &Endpoint,
    stack: Stack,
    instance: &str,
    least_fifo: Option<u8>,
) -> Result<()> {
    let driver = endpoint.open()?;
    let watched = Arc::new(Watched::new(Arc::clone(&driver)));
    let process = Process::new(watched.clone());
    let mut options = NodeOptions::from(stack);
    if let Some(priority) = least_fifo {
        options.least_policy = roundtrip_binder::LeastPolicy::Fifo;
        options.least_priority = priority.cast_signed();
    }
    let service = Arc::new(Echo::new(SchedulingProbe)).publish(&process, stack, options);
    process.start_looper()?;
    register(&process, stack, instance, &service)?;
    link.ready()?;
    while link.receive::<()>()?.is_some() {
        let looper = looper_tids()?.first().copied().ok_or(Disturbance::NoLooper)?;
        link.send(&ServerFacts {
            reply_bytes: watched.reply_bytes(),
            looper: sched::scheduling(looper)?,
            limits: driver.limits(),
            inherited_by_pi_futex: Emulated::of(&*driver).map_or(0, Emulated::inherited_by_pi_futex),
        })?;
    }
    process.stop();
    Ok(())
}

fn call(link: &mut Link, endpoint: &Endpoint, stack: Stack) -> Result<()> {
    let watched = Arc::new(Watched::new(endpoint.open()?));
    let counting = Process::new(watched.clone());
    // Timed calls, and calls that depend on the caller's thread, bypass the watched driver.
    let process = endpoint.connect()?;
    link.ready()?;
    while let Some(trial) = link.receive::<Trial>()? {
        match trial {
            Trial::Count { instance, payload_bytes, both_ways } => {
                let service = endpoint::find(&counting, stack, &instance)?;
                link.send(&count(&counting, &watched, &*service, payload_bytes, both_ways)?)?;
            }
            Trial::CallAs { instance, caller } => {
                let service = endpoint::find(&process, stack, &instance)?;
                link.send(&call_as(&*service, caller)?)?;
            }
            Trial::Time { instance, calls } => {
                let service = endpoint::find(&process, stack, &instance)?;
                link.send(&time(&*service, calls)?)?;
            }
        }
    }
    Ok(())
}

fn count(
    process: &Process,
    watched: &Watched,
    service: &dyn Benchmark,
    payload_bytes: usize,
    both_ways: bool,
) -> Result<Counted> {
    let payload = vec![7_u8; payload_bytes];
    let server_before = service.server_copied_bytes()?;
    let before = process.copied_bytes();
    if both_ways {
        service.send_vec(&payload, &mut |_| {})?;
    } else {
        service.call(&payload, Purpose::Plain)?;
    }
    // Read before `server_copied_bytes`, which makes a call, too.
    let request = watched.last_call();
    let client_bytes = process.copied_bytes() - before;
    let stack_bytes = client_bytes + service.server_copied_bytes()? - server_before;
    let place = (payload.as_ptr().addr() as u64, payload_bytes as u64);
    Ok(Counted { stack_bytes, payload_in_place: request.buffers.contains(&place), request })
}

/// Makes calls from a new thread, whose scheduling ends with it.
fn call_as(service: &dyn Benchmark, caller: Scheduling) -> Result<Result<Vec<Scheduling>, String>> {
    let calls = || {
        if let Err(error) = sched::set_scheduling(0, caller) {
            return Ok(Err(error.to_string()));
        }
        let serving = (0..CALLS).map(|_| {
            let placement = probe::placement(&service.call(&[], Purpose::Measured)?);
            let roundtrip_latency::Placement { policy, priority, nice, .. } = placement;
            Ok(Scheduling { policy, priority, nice: if policy.is_realtime() { 0 } else { nice } })
        });
        serving.collect::<Result<_>>().map(Ok)
    };
    let panicked = |_| Error::from(Disturbance::CallerPanicked);
    let failed = |cause| Error::system("start a thread for a caller", cause);
    std::thread::scope(|scope| {
        let caller = std::thread::Builder::new().spawn_scoped(scope, calls).map_err(failed)?;
        caller.join().map_err(panicked)?
    })
}

fn time(service: &dyn Benchmark, calls: u64) -> Result<Histogram> {
    let mut latency = Histogram::new();
    for _ in 0..WARM_UP {
        service.nop()?;
    }
    for _ in 0..calls {
        let start_ns = now_ns();
        service.nop()?;
        latency.record(now_ns() - start_ns);
    }
    Ok(latency)
}
