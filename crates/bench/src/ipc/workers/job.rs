//! One worker process: a service, a caller, or both. Must know nothing of the other workers but
//! their names.

use std::sync::Arc;
use std::time::Duration;

use roundtrip_binder::{NodeOptions, Parcel, Process};
use roundtrip_echo::{Benchmark, Echo, Sink};
use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::clock::now_ns;
use crate::error::{Error, Result};
use crate::ipc::endpoint::{self, Endpoint};
use crate::ipc::probe::SchedulingProbe;
use crate::ipc::server::register;
use crate::worker::{Link, Work, is_stopped};
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::workers::{Topology, WorkersPlan};

/// How many looper threads the driver may request of a service, with the defaults of Android's
/// libraries: 15 besides the first for libbinder, none for libhwbinder.
fn max_threads(stack: Stack) -> u32 {
    match stack {
        Stack::Binder => 15,
        Stack::Hwbinder => 0,
    }
}

/// How often a caller reports how many calls it has made, in nanoseconds: seldom enough to cost
/// nothing.
const TELL_EVERY_NS: u64 = 500_000_000;

/// A worker's job.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkerJob {
    /// The context; `None` for calls in process.
    endpoint: Option<Endpoint>,
    stack: Stack,
    /// The name of the instance that it serves.
    serves: Option<String>,
    /// The instances that it calls.
    calls: Vec<String>,
    size_bytes: usize,
    empty_reply: bool,
}

/// A caller's target.
enum Target {
    /// Returns its payload.
    Echo(Box<dyn Benchmark>),
    /// Returns an empty reply.
    Sink(Sink),
}

/// The parent's request to a caller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// Find the services to call, which are all registered now. Answered with `()`.
    Connect,
    /// Make calls. Answered with [`Update`].
    Round(Round),
    /// Report the latencies of the last round. Answered with [`Report`].
    Report,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Round {
    /// When all callers start, in nanoseconds of CLOCK_BOOTTIME.
    pub(super) start_ns: u64,
    pub(super) iterations: u64,
    /// Calls that take longer are counted.
    pub(super) threshold_ns: Option<u64>,
}

/// A caller's message during a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Update {
    /// The number of calls made so far, sent now and then in a long round.
    Calls(u64),
    /// The round is over.
    End(RoundEnd),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RoundEnd {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Fewer than requested if the run is stopped.
    pub(super) calls: u64,
    pub(super) worst_ns: u64,
    /// Calls that took longer than the threshold.
    pub(super) above: u64,
    /// The error of the call that ended the round early. That call is not counted.
    pub(super) failed: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) latency: Histogram,
    pub(super) limits: Vec<String>,
}

/// A plan's jobs with their roles: services first, then workers that only call.
pub(super) fn all(plan: &WorkersPlan, endpoint: Option<&Endpoint>) -> Vec<(String, WorkerJob)> {
    let workers: Vec<String> = (0..plan.workers).map(|n| format!("worker-{n}")).collect();
    let job = |serves: Option<&String>, calls: Vec<String>| WorkerJob {
        endpoint: endpoint.cloned(),
        stack: plan.stack,
        serves: serves.filter(|_| plan.mode == Mode::Binderize).cloned(),
        calls,
        size_bytes: plan.size_bytes,
        empty_reply: plan.empty_reply,
    };
    match plan.topology {
        Topology::Everyone => {
            let others = |own: &String| workers.iter().filter(|other| *other != own).cloned().collect();
            let everyone = workers.iter().enumerate();
            everyone.map(|(n, own)| (format!("worker {n}"), job(Some(own), others(own)))).collect()
        }
        Topology::Pairs => {
            let (servers, _) = workers.split_at(workers.len() / 2);
            let serving = servers.iter().enumerate();
            let serving = serving.map(|(n, own)| (format!("server of pair {n}"), job(Some(own), vec![])));
            let calling = servers.iter().enumerate().cycle().take(plan.callers() as usize);
            let calling =
                calling.map(|(n, server)| (format!("client of pair {n}"), job(None, vec![server.clone()])));
            // In process, a worker can only call itself.
            serving.filter(|_| plan.mode == Mode::Binderize).chain(calling).collect()
        }
        Topology::Services(services) => {
            let services: Vec<String> = (0..services).map(|n| format!("service-{n}")).collect();
            let serving = services.iter().enumerate();
            let serving = serving.map(|(n, own)| (format!("service {n}"), job(Some(own), vec![])));
            let calling = (0..plan.workers).map(|n| (format!("worker {n}"), job(None, services.clone())));
            serving.filter(|_| plan.mode == Mode::Binderize).chain(calling).collect()
        }
    }
}

impl Work for WorkerJob {
    const NAME: &'static str = "worker";

    fn run(self, link: &mut Link) -> Result<()> {
        let process = self.endpoint.as_ref().map(Endpoint::connect).transpose()?;
        let service = match (&process, &self.serves) {
            (Some(process), Some(instance)) => {
                let stack = self.stack;
                let echo = Arc::new(Echo::new(SchedulingProbe));
                let service = echo.publish(process, stack, NodeOptions::from(stack));
                process.set_max_threads(max_threads(self.stack))?;
                process.start_looper()?;
                register(process, self.stack, instance, &service)?;
                Some(service)
            }
            _ => None,
        };
        link.ready()?;
        let mut targets = Vec::new();
        let mut latency = Histogram::new();
        // As in Android's programs: byte i is i modulo 256.
        let payload: Vec<u8> = (0..self.size_bytes).map(|i| i as u8).collect();
        while let Some(ask) = link.receive::<Ask>()? {
            match ask {
                Ask::Connect => {
                    targets = self.connect(process.as_ref())?;
                    targets.iter().try_for_each(|target| check(target, &payload))?;
                    link.send(&())?;
                }
                Ask::Round(round) => {
                    latency = Histogram::new();
                    let end = call_all(&round, &targets, &payload, &mut latency, link)?;
                    link.send(&Update::End(end))?;
                }
                Ask::Report => {
                    let limits = process.as_ref().map_or_else(Vec::new, |process| process.driver().limits());
                    link.send(&Report { latency: std::mem::take(&mut latency), limits })?;
                }
            }
        }
        drop(service);
        if let Some(process) = process {
            process.stop();
        }
        Ok(())
    }
}

impl WorkerJob {
    pub(super) fn calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn connect(&self, process: Option<&Arc<Process>>) -> Result<Vec<Target>> {
        let target = |instance: &String| match process {
            Some(process) if self.empty_reply => {
                Ok(Target::Sink(Sink::new(endpoint::find_proxy(process, self.stack, instance)?)))
            }
            Some(process) => Ok(Target::Echo(endpoint::find(process, self.stack, instance)?)),
            None => Ok(Target::Echo(Box::new(Echo::new(SchedulingProbe)))),
        };
        self.calls.iter().map(target).collect()
    }
}

/// Checks the reply once, before anything is timed.
fn check(target: &Target, payload: &[u8]) -> Result<()> {
    let mut same = false;
    let target = match target {
        Target::Echo(target) => target,
        Target::Sink(sink) => return Ok(sink.send(&request(payload))?),
    };
    target.send_vec(payload, &mut |echo| same = echo == payload)?;
    if same {
        return Ok(());
    }
    let reason = format!("the echo of {} bytes differs from the request", payload.len());
    Err(Error::GarbledFrame { from: "the service".into(), reason })
}

/// Makes the requested calls, each to a random target. The first call that fails ends them.
fn call_all(
    round: &Round,
    targets: &[Target],
    payload: &[u8],
    latency: &mut Histogram,
    link: &mut Link,
) -> Result<RoundEnd> {
    let mut random = fastrand::Rng::with_seed(u64::from(std::process::id()) ^ round.start_ns);
    std::thread::sleep(Duration::from_nanos(round.start_ns.saturating_sub(now_ns())));
    let start_ns = now_ns();
    let mut end = RoundEnd { start_ns, end_ns: 0, calls: 0, worst_ns: 0, above: 0, failed: None };
    let mut told_ns = start_ns;
    while end.calls < round.iterations && !is_stopped() {
        let (call_ns, took_ns) = match call(&targets[random.usize(..targets.len())], payload) {
            Ok(times) => times,
            Err(error) => {
                end.failed = Some(error.to_string());
                break;
            }
        };
        end.calls += 1;
        latency.record(took_ns);
        if call_ns - told_ns >= TELL_EVERY_NS {
            link.send(&Update::Calls(end.calls))?;
            told_ns = call_ns;
        }
        end.worst_ns = end.worst_ns.max(took_ns);
        end.above += u64::from(round.threshold_ns.is_some_and(|threshold_ns| took_ns > threshold_ns));
    }
    end.end_ns = now_ns();
    Ok(end)
}

/// Makes one call. Returns its start and its duration, in nanoseconds.
#[inline]
fn call(target: &Target, payload: &[u8]) -> Result<(u64, u64)> {
    let call_ns = match target {
        Target::Echo(target) => {
            let call_ns = now_ns();
            target.send_vec(payload, &mut |_| {})?;
            call_ns
        }
        Target::Sink(sink) => {
            let request = request(payload);
            let call_ns = now_ns();
            sink.send(&request)?;
            call_ns
        }
    };
    Ok((call_ns, now_ns() - call_ns))
}

/// A parcel with only the payload, cut to whole 32-bit words.
fn request(payload: &[u8]) -> Parcel {
    let mut parcel = Parcel::with_capacity(payload.len());
    payload.chunks_exact(4).for_each(|word| {
        parcel.write_u32(word.try_into().map(u32::from_le_bytes).unwrap_or_default());
    });
    parcel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_echo_contains_only_the_padded_payload() {
        for (bytes, sent) in [(0, 0), (3, 0), (4, 4), (66, 64)] {
            let payload: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            assert_eq!(request(&payload).data(), &payload[..sent]);
        }
    }

    #[test]
    fn a_worker_calls_every_other_one_and_never_itself() {
        let plan = WorkersPlan { workers: 3, ..WorkersPlan::default() };
        for (role, job) in all(&plan, None) {
            assert_eq!(job.calls.len(), 2, "{role}");
            assert!(!job.calls.contains(job.serves.as_ref().unwrap()), "{role}");
        }
    }

    #[test]
    fn each_client_of_pairs_has_its_own_server() {
        let plan = WorkersPlan { workers: 4, topology: Topology::Pairs, ..WorkersPlan::default() };
        let jobs: Vec<_> = all(&plan, None).into_iter().map(|(_, job)| (job.serves, job.calls)).collect();
        let name = |n: u32| format!("worker-{n}");
        let expected =
            [(Some(name(0)), vec![]), (Some(name(1)), vec![]), (None, vec![name(0)]), (None, vec![name(1)])];
        assert_eq!(jobs, expected);
        let odd = all(&WorkersPlan { workers: 5, ..plan }, None).into_iter().map(|(_, job)| job.calls);
        let called: Vec<_> = odd.flatten().collect();
        assert_eq!(called, [name(0), name(1), name(0)], "the first service has two callers");
    }
}
