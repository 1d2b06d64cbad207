//! The survey: the plans of a run that shows a new user what this machine can do, in about half a
//! minute. It consists of a short baseline, throughput at a few sizes, and latency against a
//! deadline. Must not know how they are carried out.

use roundtrip_latency::Deadline;

use crate::baseline::BaselinePlan;
use crate::cpus::CpuPlacement;
use crate::error::Result;
use crate::ipc::latency::{Amount, LatencyPlan};
use crate::ipc::throughput::{Length, ThroughputPlan};
use crate::ipc::{DriverPlan, Stack};
use crate::plan_fault::PlanFault;

/// The minimum time of a survey, in nanoseconds. With less time, a test would have too few calls.
pub const SHORTEST_NS: u64 = 3_000_000_000;

/// The plan of a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyPlan {
    /// The approximate total time, in nanoseconds; at least [`SHORTEST_NS`].
    pub budget_ns: u64,
    /// The driver.
    pub driver: DriverPlan,
    /// A call that takes longer misses the deadline.
    pub deadline: Deadline,
}

impl Default for SurveyPlan {
    /// 30 s, and the deadline of Android's latency tests, 2.5 ms.
    fn default() -> Self {
        Self {
            budget_ns: 30_000_000_000,
            driver: DriverPlan::default(),
            deadline: Deadline { ns: 2_500_000 },
        }
    }
}

/// The parts of a survey, one for each test.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// Round trips by mechanisms other than binder.
    pub baseline: BaselinePlan,
    /// Throughput by payload size.
    pub throughput: ThroughputPlan,
    /// Latency against a deadline.
    pub latency: LatencyPlan,
}

impl SurveyPlan {
    /// The shares of baseline, throughput and latency in the total time, in percent.
    pub const SHARES_PERCENT: [u64; 3] = [40, 20, 40];

    /// The plans of the tests, for a process that may use `usable_cpus` CPUs.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if there is too little time.
    pub fn parts(&self, usable_cpus: usize) -> Result<Parts> {
        if self.budget_ns < SHORTEST_NS {
            return Err(PlanFault::ShortSurvey { least_s: SHORTEST_NS / 1_000_000_000 }.into());
        }
        let [of_baseline_ns, of_throughput_ns, of_latency_ns] =
            Self::SHARES_PERCENT.map(|percent| self.budget_ns * percent / 100);
        let baseline = BaselinePlan {
            sizes_bytes: vec![4, 4096, 65536],
            placements: CpuPlacement::ALL.into(),
            rounds: 7,
            budget_ns: of_baseline_ns,
            ..BaselinePlan::default()
        };
        let sizes_bytes = vec![4, 1024, 16384, 65536];
        // Each row consists of a calibration, a batch and individual calls, which take about the
        // same time.
        let rows = (Stack::ALL.len() * sizes_bytes.len()) as u64;
        let throughput = ThroughputPlan {
            driver: self.driver.clone(),
            sizes_bytes,
            length: Length::ElapsedNs(of_throughput_ns / (3 * rows)),
            interleaved: true,
            latency_calls: 5_000,
            ..ThroughputPlan::default()
        };
        let latency = LatencyPlan {
            driver: self.driver.clone(),
            stacks: Stack::ALL.into(),
            // As recommended for this test: leave one CPU free for everything else.
            pairs: u32::try_from(usable_cpus.saturating_sub(1).clamp(1, 8)).unwrap_or(1),
            amount: Amount::DurationNs(of_latency_ns / Stack::ALL.len() as u64),
            deadline: self.deadline,
            ..LatencyPlan::default()
        };
        Ok(Parts { baseline, throughput, latency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_survey_consists_of_plans_that_its_tests_accept() {
        for (budget_ns, cpus) in [(SHORTEST_NS, 1), (30_000_000_000, 2), (3_600_000_000_000, 64)] {
            let parts = SurveyPlan { budget_ns, ..SurveyPlan::default() }.parts(cpus).unwrap();
            parts.baseline.check().unwrap();
            parts.throughput.check().unwrap();
            parts.latency.check().unwrap();
            assert!(parts.latency.pairs as usize <= cpus.saturating_sub(1).max(1));
        }
    }

    #[test]
    fn a_survey_that_is_too_short_is_refused() {
        let plan = SurveyPlan { budget_ns: SHORTEST_NS - 1, ..SurveyPlan::default() };
        assert!(plan.parts(2).is_err_and(|error| error.to_string().contains("at least 3s")));
    }
}
