//! The throughput test's plan and result: plain data, stored in run directories. Must not know how
//! anything is measured.

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::cpus::CpuPlacement;
use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Mode, Stack};
use crate::load::Load;
use crate::plan_fault::{Counted, PlanFault};

/// The maximum payload in bytes. A receive area of 1 MiB minus two pages must hold it and the
/// call's other data.
pub const MAX_SIZE_BYTES: usize = 1000 << 10;

/// The maximum number of calls in one batch, as in Google Benchmark (`kMaxIterations` in its
/// `src/benchmark_runner.cc`).
pub const MAX_ITERATIONS: u64 = 1_000_000_000;

/// What to measure: an echo of each size over each stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputPlan {
    /// The driver; ignored in passthrough mode.
    pub driver: DriverPlan,
    /// The stacks, each with its own server and client process.
    pub stacks: Vec<Stack>,
    /// Whether calls go over the driver. Only hwbinder has a passthrough mode.
    pub mode: Mode,
    /// Payload sizes in bytes, the same in both directions; 1 to [`MAX_SIZE_BYTES`].
    pub sizes_bytes: Vec<usize>,
    /// The number of calls in a batch.
    pub length: Length,
    /// How long to warm up each stack and size before the first batch, in nanoseconds.
    pub warm_up_ns: u64,
    /// Batches for each stack and size; 1 to 100 000.
    pub repetitions: u32,
    /// Whether the batches of all stacks and sizes run in random order, so that drift of the
    /// machine affects all of them alike.
    pub interleaved: bool,
    /// Where client and server run.
    pub placement: CpuPlacement,
    /// The CPUs for clients, overriding the placement.
    pub client_cpus: Option<Vec<u32>>,
    /// The CPUs for servers, overriding the placement.
    pub server_cpus: Option<Vec<u32>>,
    /// Background load during the whole run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// The maximum number of calls that are timed individually after the batches, for percentiles;
    /// 0 for none.
    pub latency_calls: u64,
}

/// The number of calls in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Exactly this number of calls, 1 to [`MAX_ITERATIONS`].
    Iterations(u64),
    /// The number of calls that takes at least this much elapsed time, in nanoseconds. The first
    /// repetition determines it.
    ElapsedNs(u64),
    /// The number of calls that takes this much CPU time of the client, in nanoseconds, or five
    /// times as much elapsed time. This is Google Benchmark's default, unless a benchmark asks for
    /// real time.
    CpuNs(u64),
}

impl Default for ThroughputPlan {
    fn default() -> Self {
        Self {
            driver: DriverPlan::default(),
            stacks: Stack::ALL.into(),
            mode: Mode::Binderize,
            sizes_bytes: (2..=16).map(|power| 1 << power).collect(),
            length: Length::ElapsedNs(500_000_000),
            warm_up_ns: 0,
            repetitions: 1,
            interleaved: false,
            placement: CpuPlacement::Free,
            client_cpus: None,
            server_cpus: None,
            loads: Vec::new(),
            latency_calls: 50_000,
        }
    }
}

impl ThroughputPlan {
    /// Whether the plan chooses the CPUs of either side.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.placement != CpuPlacement::Free || self.client_cpus.is_some() || self.server_cpus.is_some()
    }

    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error says what is possible instead.
    pub fn check(&self) -> Result<()> {
        if self.sizes_bytes.is_empty() || self.stacks.is_empty() {
            return Err(PlanFault::EmptyThroughput.into());
        }
        if let Some(size) = self.sizes_bytes.iter().find(|size| !(1..=MAX_SIZE_BYTES).contains(*size)) {
            let (what, number) = (Counted::PayloadBytes, *size as u64);
            return Err(PlanFault::OutOfRange { what, number, most: MAX_SIZE_BYTES as u64 }.into());
        }
        if let Length::Iterations(iterations) = self.length
            && !(1..=MAX_ITERATIONS).contains(&iterations)
        {
            let (what, number) = (Counted::BatchCalls, iterations);
            return Err(PlanFault::OutOfRange { what, number, most: MAX_ITERATIONS }.into());
        }
        if !(1..=100_000).contains(&self.repetitions) {
            let (what, number) = (Counted::Repetitions, self.repetitions.into());
            return Err(PlanFault::OutOfRange { what, number, most: 100_000 }.into());
        }
        if self.mode == Mode::Passthrough && self.stacks != [Stack::Hwbinder] {
            return Err(PlanFault::PassthroughOverBinder.into());
        }
        Ok(())
    }
}

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputResult {
    /// The plan.
    pub plan: ThroughputPlan,
    /// The driver; `None` in passthrough mode.
    pub backend: Option<Backend>,
    /// The cost of one clock reading, in nanoseconds. It is included once in every call of
    /// [`ThroughputRow::latency`], and twice in a whole batch.
    pub clock_read_cost_ns: f64,
    /// One entry for each stack and size, in the plan's order.
    pub rows: Vec<ThroughputRow>,
    /// What the driver could not do, one sentence each.
    pub limits: Vec<String>,
    /// How the driver wakes threads, if the driver chooses that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<String>,
}

/// One stack at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputRow {
    /// The stack.
    pub stack: Stack,
    /// Payload bytes in each direction.
    pub size_bytes: usize,
    /// The CPUs that the client could use.
    pub client_cpus: Vec<u32>,
    /// The CPUs that the server could use; empty in passthrough mode.
    pub server_cpus: Vec<u32>,
    /// One entry for each repetition, in the order of execution.
    pub batches: Vec<Batch>,
    /// Calls that were timed individually; `None` if the plan requests none. They are made in a
    /// separate series, because two clock readings per call would distort the batches.
    pub latency: Option<Histogram>,
}

/// Calls that were timed together, with two readings of each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The number of calls.
    pub iterations: u64,
    /// Elapsed time (CLOCK_BOOTTIME), in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the client process (CLOCK_PROCESS_CPUTIME_ID), in nanoseconds. Does not include
    /// the server's.
    pub cpu_ns: u64,
    /// Payload bytes that were returned, counted for each call: the bytes of one direction.
    pub one_way_bytes: u64,
}

impl Batch {
    /// Elapsed time per call, in nanoseconds.
    #[must_use]
    pub fn real_time_ns(&self) -> f64 {
        self.elapsed_ns as f64 / self.iterations as f64
    }

    /// CPU time of the client process per call, in nanoseconds.
    #[must_use]
    pub fn cpu_time_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.iterations as f64
    }

    /// Payload bytes per second in one direction: all bytes of one direction, divided by the
    /// elapsed time of all calls.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        // A coarse clock may not advance during a single call. In that case, assume one nanosecond.
        self.one_way_bytes as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }
}

impl ThroughputRow {
    /// A quantile (0 to 1) of a figure over the repetitions.
    pub fn quantile(&self, q: f64, figure: impl Fn(&Batch) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.batches.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        roundtrip_latency::quantile(&values, q)
    }

    /// The median time per call over the repetitions, in nanoseconds.
    pub fn real_time_ns(&self) -> Option<f64> {
        self.quantile(0.5, Batch::real_time_ns)
    }

    /// The median CPU time per call of the client over the repetitions, in nanoseconds.
    pub fn cpu_time_ns(&self) -> Option<f64> {
        self.quantile(0.5, Batch::cpu_time_ns)
    }

    /// The median over the repetitions of payload bytes per second in one direction.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.quantile(0.5, Batch::bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_bytes_of_all_calls_by_the_time_of_all_calls() {
        // Android's published example: 21296 calls of 8 bytes, 69974 ns each, are 114 kB/s.
        let iterations = 21_296;
        let batch = Batch {
            iterations,
            elapsed_ns: iterations * 69_974,
            cpu_ns: iterations * 32_000,
            one_way_bytes: iterations * 8,
        };
        assert_eq!((batch.real_time_ns(), batch.cpu_time_ns()), (69_974.0, 32_000.0));
        assert_eq!(batch.bytes_per_second().round(), 114_328.0);
    }

    #[test]
    fn the_default_plan_has_androids_sizes() {
        let plan = ThroughputPlan::default();
        plan.check().unwrap();
        assert_eq!((plan.sizes_bytes[0], plan.sizes_bytes[14], plan.sizes_bytes.len()), (4, 65536, 15));
    }

    #[test]
    fn an_impossible_plan_is_refused_with_the_valid_choices() {
        let refused = |change: fn(&mut ThroughputPlan)| {
            let mut plan = ThroughputPlan::default();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(refused(|plan| plan.sizes_bytes = vec![]).contains("at least one size"));
        assert!(refused(|plan| plan.sizes_bytes = vec![4, 0]).contains("1 to 1024000"));
        assert!(refused(|plan| plan.sizes_bytes = vec![MAX_SIZE_BYTES + 1]).contains("1024001 bytes"));
        assert!(refused(|plan| plan.length = Length::Iterations(0)).contains("1 to 1000000000"));
        assert!(
            refused(|plan| plan.length = Length::Iterations(MAX_ITERATIONS + 1)).contains("1000000001 calls")
        );
        assert!(refused(|plan| plan.repetitions = 0).contains("0 repetitions"));
        assert!(refused(|plan| plan.mode = Mode::Passthrough).contains("only the hwbinder stack"));
    }
}
