//! The result of a comparison of writes. Must not know how it was measured, nor how a call's time
//! is divided.

use roundtrip_latency::{Comparison, quantile};
use serde::{Deserialize, Serialize};

use super::{Condition, InterferencePlan};
use crate::recorder::RecorderInfo;
use crate::storage::{Call, StoragePath, WriterResult};

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceResult {
    /// The plan.
    pub plan: InterferencePlan,
    /// Where the writes went.
    pub path: StoragePath,
    /// The cost of one clock reading, in nanoseconds. Each call includes about one.
    pub clock_read_cost_ns: f64,
    /// The writers.
    pub writers: Vec<WriterResult>,
    /// The CPUs that writers could use.
    pub writer_cpus: Vec<u32>,
    /// The CPU that handled the device's interrupt at the start of the run, if known.
    pub interrupt_cpu: Option<u32>,
    /// One comparison for each condition, writer and size; the control first.
    pub comparisons: Vec<Beside>,
    /// The settings of the recording; `None` if nothing was recorded.
    pub recorder: Option<RecorderInfo>,
    /// Why the recording is incomplete, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording_ended: Option<String>,
    /// What was not possible on this machine.
    pub not_possible: Vec<String>,
    /// Conditions that ended before the others, and why. Their comparisons have fewer pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<String>,
    /// Other things that a reader must know.
    pub notes: Vec<String>,
}

/// A writer with and without a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// The condition.
    pub condition: Condition,
    /// A description of the condition on this machine.
    pub what: String,
    /// The writer without the condition: an index into [`InterferenceResult::writers`].
    pub writer: usize,
    /// The writer with the condition: the same writer, unless two ways to write are compared.
    pub writer_beside: usize,
    /// Bytes per call.
    pub size_bytes: u64,
    /// One pair for each round.
    pub pairs: Vec<Pair>,
}

/// Two consecutive blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The block without the condition.
    pub alone: Measured,
    /// The block with the condition.
    pub beside: Measured,
    /// Whether the block without the condition was first.
    pub alone_first: bool,
}

/// The measurements of one block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// The snapshot of the recording that covers the block.
    pub snapshot: Option<u32>,
    /// The duration of all calls, including the untimed ones before them, in nanoseconds.
    pub elapsed_ns: u64,
    /// The number of these calls.
    pub all_calls: u32,
    /// How long the writing thread waited for a CPU during these calls, in nanoseconds.
    pub run_delay_ns: Option<u64>,
    /// How often the writing thread was preempted.
    pub lost_cpu: u64,
    /// The frequency of the writer's first CPU at the end, in kHz; `None` if the kernel does not
    /// report it.
    pub frequency_khz: Option<u32>,
    /// Writes and flushes that the devices counted, from all processes
    /// (Documentation/block/stat.rst).
    pub requests: Option<u64>,
    /// The total duration of these requests, in nanoseconds. The kernel's counter has a resolution
    /// of milliseconds.
    pub requests_ns: Option<u64>,
    /// How much work the background load did, in the units of [`Condition::counts`].
    pub neighbour_count: Option<u64>,
    /// The CPU time of the background load, in nanoseconds.
    pub neighbour_cpu_ns: Option<u64>,
}

impl Measured {
    /// The median latency of a call, in nanoseconds; `None` without calls.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let mut latencies: Vec<f64> = self.calls.iter().map(|call| call.latency_ns() as f64).collect();
        latencies.sort_by(f64::total_cmp);
        quantile(&latencies, 0.5)
    }

    /// The mean duration of a request as the devices counted it, in nanoseconds.
    #[must_use]
    pub fn request_ns(&self) -> Option<f64> {
        Some(self.requests_ns? as f64 / self.requests.filter(|&count| count > 0)? as f64)
    }
}

impl Beside {
    /// Compares a figure of the blocks with and without the condition, by round; `None` if any
    /// block lacks the figure.
    #[must_use]
    pub fn compare(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Option<Comparison> {
        let of = |side: fn(&Pair) -> &Measured| {
            self.pairs.iter().map(|pair| figure(side(pair))).collect::<Option<Vec<f64>>>()
        };
        Comparison::of_rounds(&of(|pair| &pair.beside)?, &of(|pair| &pair.alone)?).ok()
    }

    /// The effect on the application: the ratio of the median latencies with and without the
    /// condition.
    #[must_use]
    pub fn response(&self) -> Option<Comparison> {
        self.compare(Measured::median_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latencies_ns: &[u64]) -> Measured {
        let calls = latencies_ns.iter().map(|&ns| Call { start_ns: 100, end_ns: 100 + ns });
        Measured {
            calls: calls.collect(),
            requests: Some(2),
            requests_ns: Some(3_000_000),
            ..Measured::default()
        }
    }

    #[test]
    fn the_response_is_the_ratio_of_the_medians_round_by_round() {
        let pair = |alone, beside| Pair {
            alone: measured(&[alone, alone, 10 * alone]),
            beside: measured(&[beside, beside, 100 * beside]),
            alone_first: true,
        };
        let mut beside = Beside {
            condition: Condition::HogAll,
            what: String::new(),
            writer: 0,
            writer_beside: 0,
            size_bytes: 4096,
            pairs: vec![pair(100, 80), pair(200, 160), pair(400, 320)],
        };
        let response = beside.response().unwrap();
        assert!((response.median - 0.8).abs() < 1e-12 && response.interval.is_none(), "{response:?}");
        assert_eq!((response.baseline_ns, response.subject_ns), (200.0, 160.0));
        assert_eq!(beside.compare(Measured::request_ns).unwrap().subject_ns, 1_500_000.0);
        // If one block lacks the figure, there is no comparison.
        beside.pairs[1].beside.requests = Some(0);
        assert_eq!(beside.compare(Measured::request_ns), None);
    }
}
