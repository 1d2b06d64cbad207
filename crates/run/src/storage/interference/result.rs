//! What came of a comparison of writes. Must not know how it was measured, nor how a call's time is
//! divided.

use latency::{Comparison, quantile};
use serde::{Deserialize, Serialize};

use super::{Condition, InterferencePlan};
use crate::recorder::RecorderInfo;
use crate::storage::{Call, StoragePath, WriterResult};

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterferenceResult {
    /// What was asked for.
    pub plan: InterferencePlan,
    /// Where the writes went.
    pub path: StoragePath,
    /// What a reading of the clock costs, in nanoseconds; each call contains about one.
    pub clock_read_cost_ns: f64,
    /// Who wrote.
    pub writers: Vec<WriterResult>,
    /// The CPUs that writers could use.
    pub writer_cpus: Vec<u32>,
    /// The CPU that the device's interrupt came to when the run began, where it is known.
    pub interrupt_cpu: Option<u32>,
    /// One for each condition, writer and size; the control first.
    pub comparisons: Vec<Beside>,
    /// What the kernel's events were recorded with; `None` where they were not.
    pub recorder: Option<RecorderInfo>,
    /// Why not everything was recorded that was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording_ended: Option<String>,
    /// What this machine could not do.
    pub not_possible: Vec<String>,
    /// What else a reader must know.
    pub notes: Vec<String>,
}

/// A writer alone, and beside something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Beside what.
    pub condition: Condition,
    /// What that was here, in words.
    pub what: String,
    /// The writer alone, by its place in [`InterferenceResult::writers`].
    pub writer: usize,
    /// The writer beside it: the same, unless two ways to write are compared.
    pub writer_beside: usize,
    /// How much each call wrote, in bytes.
    pub size_bytes: u64,
    /// One for each round.
    pub pairs: Vec<Pair>,
}

/// Two blocks, one right behind the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The writer alone.
    pub alone: Measured,
    /// The writer beside it.
    pub beside: Measured,
    /// Which came first.
    pub alone_first: bool,
}

/// What came of one block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Its calls, in their order.
    pub calls: Vec<Call>,
    /// The snapshot of the recording that holds what the kernel did meanwhile.
    pub snapshot: Option<u32>,
    /// All calls together with the untimed ones before, in nanoseconds.
    pub elapsed_ns: u64,
    /// How many calls that were.
    pub all_calls: u32,
    /// How long the writing thread waited for a CPU meanwhile, in nanoseconds.
    pub run_delay_ns: Option<u64>,
    /// How often it lost its CPU.
    pub lost_cpu: u64,
    /// How fast the writer's first CPU ran at the end, in kHz; `None` where the kernel does not
    /// tell.
    pub frequency_khz: Option<u32>,
    /// What the devices counted meanwhile, whoever asked for it (Documentation/block/stat.rst):
    /// writes and flushes.
    pub requests: Option<u64>,
    /// How long these took together, in nanoseconds, counted in milliseconds.
    pub requests_ns: Option<u64>,
    /// How much the neighbour did, see [`Condition::counts`].
    pub neighbour_count: Option<u64>,
    /// The CPU time that the neighbour had, in nanoseconds.
    pub neighbour_cpu_ns: Option<u64>,
}

impl Measured {
    /// The median of what the application waited, in nanoseconds; `None` without calls.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let mut latencies: Vec<f64> = self.calls.iter().map(|call| call.latency_ns() as f64).collect();
        latencies.sort_by(f64::total_cmp);
        quantile(&latencies, 0.5)
    }

    /// The mean time of a request as the devices counted it, in nanoseconds.
    #[must_use]
    pub fn request_ns(&self) -> Option<f64> {
        Some(self.requests_ns? as f64 / self.requests.filter(|&count| count > 0)? as f64)
    }
}

impl Beside {
    /// Compares a figure of the blocks, round by round; `None` where a block has none.
    #[must_use]
    pub fn compare(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Option<Comparison> {
        let of = |side: fn(&Pair) -> &Measured| {
            self.pairs.iter().map(|pair| figure(side(pair))).collect::<Option<Vec<f64>>>()
        };
        Comparison::of_rounds(&of(|pair| &pair.beside)?, &of(|pair| &pair.alone)?).ok()
    }

    /// The application's response: the ratio of the blocks' medians.
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
        // One block without a figure, and there is no comparison of it.
        beside.pairs[1].beside.requests = Some(0);
        assert_eq!(beside.compare(Measured::request_ns), None);
    }
}
