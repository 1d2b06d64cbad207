//! The plan of a comparison of writes with and without background load, and how many calls fit into
//! the time. Must not carry out anything.

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::error::Result;
use crate::plan_fault::PlanFault;
use crate::storage::{Api, StoragePlan};

/// The minimum number of calls for a meaningful median.
pub const MIN_CALLS: u32 = 9;

/// The maximum number of rounds.
const MAX_ROUNDS: u32 = 1000;

/// The largest share of free memory that background load may take, in percent.
const MAX_MEMORY_PERCENT: u32 = 90;

/// The lowest write limit, in bytes per second.
const MIN_IO_LIMIT: u64 = 4096;

/// The maximum number of calls in a block. Beyond this, another round is worth more than further
/// calls.
pub const MAX_CALLS: u32 = 1000;

/// A comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterferencePlan {
    /// The writes to compare. The rounds and calls in this plan are not used. If it names no CPUs,
    /// the writer is pinned to one CPU.
    pub write: StoragePlan,
    /// The conditions. Those that the machine cannot produce are reported and left out.
    pub conditions: Vec<Condition>,
    /// Whether all conditions are required. Not stored.
    #[serde(skip)]
    pub all_conditions: bool,
    /// The number of rounds. Each round runs a pair of blocks, with and without the condition.
    pub rounds: u32,
    /// The total time, in nanoseconds. Comparisons that do not fit are reported and left out.
    pub duration_ns: u64,
    /// How much of the free memory the `memory` load takes, in percent.
    pub memory_percent: u32,
    /// The writer's limit under `io-limit`, in bytes per second.
    pub io_limit_bytes_per_s: u64,
}

impl Default for InterferencePlan {
    fn default() -> Self {
        Self {
            write: StoragePlan {
                sizes_bytes: vec![16 << 10],
                apis: vec![Api::Native],
                warm_up: 5,
                ..StoragePlan::default()
            },
            conditions: Condition::ALL[1..].to_vec(),
            all_conditions: false,
            rounds: 9,
            duration_ns: 60_000_000_000,
            memory_percent: 20,
            io_limit_bytes_per_s: 4 << 20,
        }
    }
}

impl InterferencePlan {
    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error gives the reason.
    pub fn check(&self) -> Result<()> {
        self.write.check()?;
        if self.conditions.is_empty() {
            return Err(PlanFault::NoCondition.into());
        }
        if !(1..=MAX_ROUNDS).contains(&self.rounds) {
            return Err(PlanFault::ComparisonRounds { most: MAX_ROUNDS }.into());
        }
        if !(1..=MAX_MEMORY_PERCENT).contains(&self.memory_percent) {
            return Err(PlanFault::MemoryShare { most: MAX_MEMORY_PERCENT }.into());
        }
        if self.io_limit_bytes_per_s < MIN_IO_LIMIT {
            return Err(PlanFault::IoLimit { least: MIN_IO_LIMIT }.into());
        }
        Ok(())
    }
}

/// The number of calls in a block that may take `extra_ns` longer than the smallest block, if a
/// call takes `call_ns`.
#[must_use]
pub fn calls_in(extra_ns: u64, call_ns: u64) -> u32 {
    let more = u32::try_from(extra_ns / call_ns.max(1)).unwrap_or(MAX_CALLS);
    MIN_CALLS.saturating_add(more).min(MAX_CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_plans_are_refused_with_the_reason() {
        let plan = InterferencePlan::default;
        assert!(plan().check().is_ok());
        for (plan, reason) in [
            (InterferencePlan { conditions: vec![], ..plan() }, "nothing to compare"),
            (InterferencePlan { rounds: 0, ..plan() }, "1 to 1000 rounds"),
            (InterferencePlan { memory_percent: 91, ..plan() }, "1% to 90%"),
            (InterferencePlan { io_limit_bytes_per_s: 1, ..plan() }, "4096 bytes a second"),
        ] {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_block_has_as_many_calls_as_fit_and_never_too_few_for_a_median() {
        assert_eq!(calls_in(100_000_000, 1_000_000), MIN_CALLS + 100);
        assert_eq!(calls_in(100_000_000, 600_000_000), MIN_CALLS);
        assert_eq!(calls_in(0, 0), MIN_CALLS);
        assert_eq!(calls_in(u64::MAX, 1), MAX_CALLS);
    }
}
