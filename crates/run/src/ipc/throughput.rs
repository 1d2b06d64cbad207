//! What to measure and what came of it: plain data, stored in run directories. Must not know how it
//! is measured.

use latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::cpus::CpuPlacement;
use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Mode, Stack};
use crate::plan_fault::{Counted, PlanFault};

/// The longest payload in bytes: what a receiver's area of 1 MiB less two pages holds beside the
/// call's own words.
pub const MAX_SIZE_BYTES: usize = 1000 << 10;

/// The most calls in one batch, as in Google Benchmark (`kMaxIterations` in its
/// `src/benchmark_runner.cc`).
pub const MAX_ITERATIONS: u64 = 1_000_000_000;

/// What to measure: an echo of each size, over each stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputPlan {
    /// The driver; of no account in passthrough mode.
    pub driver: DriverPlan,
    /// The stacks, each with a server process and a client process of its own.
    pub stacks: Vec<Stack>,
    /// Whether calls go over the driver. Passthrough is hwbinder's alone.
    pub mode: Mode,
    /// Payloads in bytes, the same each way; 1 to [`MAX_SIZE_BYTES`].
    pub sizes_bytes: Vec<usize>,
    /// How many calls a batch has.
    pub length: Length,
    /// How long each stack and size runs before its first batch, in nanoseconds.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// Batches for each stack and size; 1 to 100 000.
    pub repetitions: u32,
    /// Whether the batches of all stacks and sizes run in random order, so that a drift of the
    /// machine hits all alike.
    pub interleaved: bool,
    /// Where client and server run.
    pub placement: CpuPlacement,
    /// The CPUs of the clients, instead of what the placement says.
    pub client_cpus: Option<Vec<u32>>,
    /// The CPUs of the servers, instead of what the placement says.
    pub server_cpus: Option<Vec<u32>>,
    /// The most calls that are timed one by one after the batches, for percentiles; 0 for none.
    pub latency_calls: u64,
}

/// How many calls a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// Exactly so many, 1 to [`MAX_ITERATIONS`].
    Iterations(u64),
    /// As many as take at least so long by the clock, in nanoseconds. The first repetition finds
    /// out how many.
    ElapsedNs(u64),
    /// As many as take so much of the client's CPU time in nanoseconds, or five times as long by
    /// the clock: what Google Benchmark does unless a benchmark asks for real time.
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
            latency_calls: 50_000,
        }
    }
}

impl ThroughputPlan {
    /// Refuses what no machine can do.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] says what, and what there is instead.
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

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputResult {
    /// What was asked for.
    pub plan: ThroughputPlan,
    /// The driver that was measured; `None` in passthrough mode, where there was none.
    pub backend: Option<Backend>,
    /// What one clock reading costs, in nanoseconds: contained in every call of
    /// [`ThroughputRow::latency`], and twice in a whole batch.
    pub clock_read_cost_ns: f64,
    /// One entry for each stack and size, in the plan's order.
    pub rows: Vec<ThroughputRow>,
    /// What the driver could not do, each one sentence.
    pub limits: Vec<String>,
    /// How the driver wakes threads, where that is its own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<String>,
}

/// One stack at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputRow {
    /// The stack.
    pub stack: Stack,
    /// Payload bytes each way.
    pub size_bytes: usize,
    /// The CPUs that the client was allowed.
    pub client_cpus: Vec<u32>,
    /// The CPUs that the server was allowed; in passthrough mode there is none.
    pub server_cpus: Vec<u32>,
    /// One entry for each repetition, in the order in which they ran.
    pub batches: Vec<Batch>,
    /// Calls timed one by one, in a series of their own, for reading a clock twice in each call
    /// would distort the batches; `None` if the plan wants none.
    pub latency: Option<Histogram>,
}

/// Calls that were timed as a whole, by two readings of each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Calls.
    pub iterations: u64,
    /// By the clock (CLOCK_BOOTTIME), in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the client process (CLOCK_PROCESS_CPUTIME_ID), in nanoseconds. The server's is
    /// not in it.
    pub cpu_ns: u64,
    /// Payload bytes that came back, counted call by call: the bytes that went one way.
    pub one_way_bytes: u64,
}

impl Batch {
    /// Time of one call, in nanoseconds.
    #[must_use]
    pub fn real_time_ns(&self) -> f64 {
        self.elapsed_ns as f64 / self.iterations as f64
    }

    /// CPU time of the client process for one call, in nanoseconds.
    #[must_use]
    pub fn cpu_time_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.iterations as f64
    }

    /// Payload bytes per second in one direction, by the clock: all bytes that went one way,
    /// divided by the time of all calls.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        // A clock too coarse for a single call has not seen it: as fast as one nanosecond is the
        // least that can be said.
        self.one_way_bytes as f64 / (self.elapsed_ns.max(1) as f64 / 1e9)
    }
}

impl ThroughputRow {
    /// A quantile (0 to 1) of a figure over the repetitions.
    pub fn quantile(&self, q: f64, figure: impl Fn(&Batch) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.batches.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        latency::quantile(&values, q)
    }

    /// The median over the repetitions of one call's time, in nanoseconds.
    pub fn real_time_ns(&self) -> Option<f64> {
        self.quantile(0.5, Batch::real_time_ns)
    }

    /// The median over the repetitions of one call's CPU time in the client, in nanoseconds.
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
    fn the_default_plan_has_the_contracts_sizes() {
        let plan = ThroughputPlan::default();
        plan.check().unwrap();
        assert_eq!((plan.sizes_bytes[0], plan.sizes_bytes[14], plan.sizes_bytes.len()), (4, 65536, 15));
    }

    #[test]
    fn an_impossible_plan_is_refused_with_what_there_is_instead() {
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
