//! What a served call reports: time, CPU and scheduling of the serving thread. Must not know who
//! requests it.

use roundtrip_echo::{Probe, Purpose, Scheduling};
use roundtrip_latency::{Placement, Policy};

use crate::inject::Handler;
use crate::{clock, sched};

/// The probe that servers pass to their service.
#[derive(Debug, Clone, Copy, Default)]
pub struct SchedulingProbe;

impl Probe for SchedulingProbe {
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn cpu(&self) -> u32 {
        sched::current_cpu()
    }

    fn scheduling(&self) -> Scheduling {
        // The calling thread exists, so its policy can be read.
        let own = sched::scheduling(0).unwrap_or(roundtrip_run::Scheduling::other(0));
        Scheduling {
            pid: std::process::id().cast_signed(),
            tid: sched::gettid().cast_signed(),
            policy: own.policy.to_kernel(),
            priority: own.priority.into(),
            nice: own.nice.into(),
        }
    }
}

/// Like [`SchedulingProbe`], for a service that also does some work.
#[derive(Debug)]
pub(crate) struct WorkingProbe {
    /// CPU time to use in each call, in nanoseconds. Time that the thread waits for a CPU is added
    /// to it.
    pub(crate) work_ns: u64,
    /// Injects disturbances into some calls: only into measured ones, because others are not
    /// reported.
    pub(crate) handler: Option<Handler>,
}

impl Probe for WorkingProbe {
    fn now_ns(&self) -> u64 {
        SchedulingProbe.now_ns()
    }

    fn cpu(&self) -> u32 {
        SchedulingProbe.cpu()
    }

    fn scheduling(&self) -> Scheduling {
        SchedulingProbe.scheduling()
    }

    fn work(&self, purpose: Purpose) {
        if self.work_ns > 0 {
            let until_ns = clock::thread_cpu_ns() + self.work_ns;
            while clock::thread_cpu_ns() < until_ns {
                std::hint::spin_loop();
            }
        }
        if let Some(handler) = self.handler.as_ref().filter(|_| purpose == Purpose::Measured) {
            handler.run();
        }
    }
}

/// How long such work takes without a wait for a CPU, in nanoseconds: more than requested, because
/// reading the clock of CPU time is part of it. The median of a few trials.
pub(crate) fn work_takes_ns(work_ns: u64) -> u64 {
    const TRIALS: usize = 101;
    let probe = WorkingProbe { work_ns, handler: None };
    let trial = || {
        let begin_ns = clock::now_ns();
        probe.work(Purpose::WarmUp);
        clock::now_ns() - begin_ns
    };
    let mut took_ns: Vec<u64> = (0..TRIALS).map(|_| trial()).collect();
    *took_ns.select_nth_unstable(TRIALS / 2).1
}

/// The serving thread of a report, in the form that samples store.
pub(crate) fn placement(report: &roundtrip_echo::ServerReport) -> Placement {
    let scheduling = report.scheduling.unwrap_or_default();
    Placement {
        cpu: report.cpu,
        policy: Policy::from_kernel(scheduling.policy),
        priority: u8::try_from(scheduling.priority).unwrap_or(0),
        nice: i8::try_from(scheduling.nice).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_what_was_requested_or_longer() {
        for work_ns in [1, 200, 50_000] {
            assert!(work_takes_ns(work_ns) >= work_ns, "{work_ns}");
        }
    }
}
