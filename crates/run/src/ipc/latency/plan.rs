//! The plan of a latency test: which processes call each other, how often, and with which
//! disturbances. Plain data. Must not know how it is carried out.

use std::path::PathBuf;
use std::str::FromStr;

use roundtrip_latency::Deadline;
use serde::{Deserialize, Serialize};

use super::slow_calls::{ExplainPlan, Trigger};
use crate::cpus::CpuPlacement;
use crate::error::{Error, Result};
use crate::injection::Injection;
use crate::ipc::{AREA_BYTES, DriverPlan, Mode, Stack};
use crate::load::Load;
use crate::plan_fault::{PlanFault, Unknown};
use crate::scheduling::Scheduling;

/// A latency test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyPlan {
    /// The driver; ignored in passthrough mode.
    pub driver: DriverPlan,
    /// The stacks. Each is measured with the same settings.
    pub stacks: Vec<Stack>,
    /// Whether calls go over the driver or stay in process.
    pub mode: Mode,
    /// Whether the servers' nodes request real-time inheritance. Each value is measured with the
    /// same settings.
    pub inheritance: Vec<Inheritance>,
    /// The number of client processes, each with its own server process.
    pub pairs: u32,
    /// The number of iterations. In each one, every caller calls once.
    pub amount: Amount,
    /// A call that takes longer misses the deadline.
    pub deadline: Deadline,
    /// How the calling threads are scheduled, in the order in which they call.
    pub callers: Vec<Scheduling>,
    /// Bytes sent with each call.
    pub payload_bytes: usize,
    /// CPU time that a server uses for each call, in nanoseconds; ignored in passthrough mode.
    pub work_ns: u64,
    /// Looper threads in each server. With only one thread, a call may have to wait until the
    /// thread has finished the previous call.
    pub server_threads: u32,
    /// Calls per second of each caller (open loop): each call starts on schedule, even if the
    /// previous call was late. `None`: each call starts after the previous one (closed loop).
    pub rate_per_s: Option<f64>,
    /// Where clients and servers run.
    pub placement: CpuPlacement,
    /// The CPUs for clients, overriding the placement.
    pub client_cpus: Option<Vec<u32>>,
    /// The CPUs for servers, overriding the placement.
    pub server_cpus: Option<Vec<u32>>,
    /// Background load during the whole run.
    pub loads: Vec<Load>,
    /// Whether a caller whose scheduling differs from the client's uses a new thread for each call,
    /// as Android's programs do. The time of a call then includes the thread's setup for the
    /// driver. Otherwise callers keep their threads and warm them up.
    pub fresh_threads: bool,
    /// Whether to keep all samples in addition to the histograms.
    pub keep_samples: bool,
    /// Whether to report for each call which thread runs on which CPU.
    pub verbose: bool,
    /// If set, the first call that misses the deadline stops the running kernel trace and the run.
    pub halt_trace: Option<HaltTrace>,
    /// The name of all processes in traces, as Android's programs have it; servers then name their
    /// looper threads as libbinder and libhwbinder do. `None`: names that say each process's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_name: Option<String>,
    /// Disturbances that make some calls slow on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injection: Option<Injection>,
    /// Which recordings of slow calls to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<ExplainPlan>,
}

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This number of iterations.
    Iterations(u64),
    /// As many iterations as fit into this time, in nanoseconds.
    DurationNs(u64),
}

/// Whether a server's node requests real-time inheritance (`FLAT_BINDER_FLAG_INHERIT_RT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inheritance {
    /// The stack's default: on for hwbinder, off for binder.
    Stack,
    /// The node requests it.
    On,
    /// The node does not request it.
    Off,
}

impl Inheritance {
    /// The name in arguments and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Whether a node of this stack requests it.
    #[must_use]
    pub fn is_on(self, stack: Stack) -> bool {
        match self {
            Self::Stack => stack == Stack::Hwbinder,
            Self::On => true,
            Self::Off => false,
        }
    }
}

/// Where to look for a kernel trace, and which calls stop it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltTrace {
    /// Possible mount points of tracefs. The first with a `tracing_on` is used.
    pub roots: Vec<PathBuf>,
    /// Whether only calls of real-time callers stop the trace, as in Android's programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_realtime: bool,
}

impl Default for HaltTrace {
    fn default() -> Self {
        let roots = vec!["/sys/kernel/tracing".into(), "/sys/kernel/debug/tracing".into()];
        Self { roots, only_realtime: false }
    }
}

impl Default for LatencyPlan {
    /// The default plan: one hwbinder pair with a real-time and an ordinary caller, 10 000
    /// iterations and a deadline of 2.5 ms.
    fn default() -> Self {
        Self {
            driver: DriverPlan::default(),
            stacks: vec![Stack::Hwbinder],
            mode: Mode::Binderize,
            inheritance: vec![Inheritance::Stack],
            pairs: 1,
            amount: Amount::Iterations(10_000),
            deadline: Deadline { ns: 2_500_000 },
            callers: vec![Scheduling::fifo(99), Scheduling::other(0)],
            payload_bytes: 16,
            work_ns: 0,
            server_threads: 1,
            rate_per_s: None,
            placement: CpuPlacement::Free,
            client_cpus: None,
            server_cpus: None,
            loads: Vec::new(),
            fresh_threads: false,
            keep_samples: false,
            verbose: false,
            halt_trace: None,
            process_name: None,
            injection: None,
            explain: None,
        }
    }
}

/// The maximum number of pairs in a run.
pub const MAX_PAIRS: u32 = 256;

/// The maximum number of threads of a server.
pub const MAX_SERVER_THREADS: u32 = 64;

/// The maximum payload, in bytes. A server's receive area must also hold the previous payload,
/// which may not have been freed yet.
pub const MAX_PAYLOAD_BYTES: usize = 500 << 10;

/// What a call needs in addition to its payload, in bytes, with room to spare.
const CALL_BYTES: usize = 1 << 10;

/// The maximum number of samples that are kept in addition to histograms. Each takes 64 bytes.
const MAX_KEPT: u64 = 20_000_000;

impl LatencyPlan {
    /// Whether the plan chooses the CPUs of either side.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.placement != CpuPlacement::Free || self.client_cpus.is_some() || self.server_cpus.is_some()
    }

    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`Error::Plan`] if the plan is invalid. The error gives the reason.
    pub fn check(&self) -> Result<()> {
        if self.stacks.is_empty() || self.inheritance.is_empty() || self.callers.is_empty() {
            return Err(PlanFault::EmptyLatency.into());
        }
        if !(1..=MAX_PAIRS).contains(&self.pairs) {
            return Err(PlanFault::Pairs { pairs: self.pairs, most: MAX_PAIRS }.into());
        }
        if !(1..=MAX_SERVER_THREADS).contains(&self.server_threads) {
            let (threads, most) = (self.server_threads, MAX_SERVER_THREADS);
            return Err(PlanFault::ServerThreads { threads, most }.into());
        }
        if self.payload_bytes > MAX_PAYLOAD_BYTES {
            let (bytes, most) = (self.payload_bytes, MAX_PAYLOAD_BYTES);
            return Err(PlanFault::PayloadNotPossible { bytes, most }.into());
        }
        if self.payload_bytes > self.most_payload_bytes() {
            return Err(PlanFault::PayloadTooOften {
                bytes: self.payload_bytes,
                callers: self.callers.len(),
                server_threads: self.server_threads,
                most: self.most_payload_bytes(),
            }
            .into());
        }
        if matches!(self.amount, Amount::Iterations(0) | Amount::DurationNs(0)) {
            return Err(PlanFault::NoIterations.into());
        }
        if self.rate_per_s.is_some() && self.fresh_threads {
            return Err(PlanFault::RateOfFreshThreads.into());
        }
        if self.injection.is_some() && self.mode == Mode::Passthrough {
            return Err(PlanFault::DisturbancesWithoutServer.into());
        }
        if self.halt_trace.is_some() && self.explain.is_some() {
            return Err(PlanFault::HaltAndExplain.into());
        }
        if self.explain.as_ref().is_some_and(|explain| explain.trigger == Trigger::Slowest(0)) {
            return Err(PlanFault::NoSlowestCall.into());
        }
        if let (Amount::Iterations(iterations), true) = (self.amount, self.keep_samples) {
            let samples = self.series().len() as u64 * u64::from(self.pairs) * self.callers.len() as u64;
            if iterations.saturating_mul(samples) > MAX_KEPT {
                return Err(PlanFault::TooManySamples { most: MAX_KEPT }.into());
            }
        }
        Ok(())
    }

    /// The maximum payload for these callers and servers, in bytes. When new payloads arrive, each
    /// server thread may still hold its previous one. Without a rate one new payload arrives at a
    /// time; with a rate, one per caller.
    fn most_payload_bytes(&self) -> usize {
        let arriving = if self.rate_per_s.is_some() { self.callers.len() } else { 1 };
        let at_once = self.server_threads as usize + arriving;
        let most = AREA_BYTES as usize / at_once - CALL_BYTES;
        if self.mode == Mode::Passthrough { MAX_PAYLOAD_BYTES } else { most.min(MAX_PAYLOAD_BYTES) }
    }

    /// The series that are measured in turn: each stack with each inheritance setting. In
    /// passthrough mode there is nothing to inherit.
    #[must_use]
    pub fn series(&self) -> Vec<(Stack, Inheritance)> {
        let settings = match self.mode {
            Mode::Binderize => &self.inheritance[..],
            Mode::Passthrough => &[Inheritance::Stack],
        };
        self.stacks.iter().flat_map(|&stack| settings.iter().map(move |&setting| (stack, setting))).collect()
    }
}

impl FromStr for Inheritance {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Stack, Self::On, Self::Off];
        let found = all.into_iter().find(|setting| setting.name() == text);
        found.ok_or_else(|| Unknown::new("setting", text, all.map(Self::name)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(plan: LatencyPlan) -> String {
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn an_impossible_plan_is_refused_with_the_reason() {
        let plan = LatencyPlan::default;
        plan().check().unwrap();
        assert!(refusal(LatencyPlan { pairs: 0, ..plan() }).contains("1 to 256 pairs"));
        assert!(refusal(LatencyPlan { callers: vec![], ..plan() }).contains("a caller"));
        assert!(refusal(LatencyPlan { payload_bytes: 1 << 20, ..plan() }).contains("1048576 bytes"));
        let large = LatencyPlan { payload_bytes: MAX_PAYLOAD_BYTES, ..plan() };
        large.check().unwrap();
        assert!(refusal(LatencyPlan { server_threads: 3, ..large.clone() }).contains("at most 259072"));
        assert!(refusal(LatencyPlan { rate_per_s: Some(1.0), ..large }).contains("at most 345770"));
        assert!(refusal(LatencyPlan { amount: Amount::Iterations(0), ..plan() }).contains("at least one"));
        let (rate_per_s, fresh_threads) = (Some(1.0), true);
        assert!(refusal(LatencyPlan { rate_per_s, fresh_threads, ..plan() }).contains("--rate"));
        let (amount, keep_samples) = (Amount::Iterations(u64::MAX), true);
        assert!(refusal(LatencyPlan { amount, keep_samples, ..plan() }).contains("can be kept"));
    }

    #[test]
    fn in_process_there_is_one_series_for_each_stack() {
        let inheritance = vec![Inheritance::On, Inheritance::Off];
        let stacks = Stack::ALL.to_vec();
        let plan = LatencyPlan { inheritance, stacks, ..LatencyPlan::default() };
        assert_eq!(plan.series().len(), 4);
        assert_eq!(LatencyPlan { mode: Mode::Passthrough, ..plan }.series().len(), 2);
    }
}
