//! What a comparison beside neighbours is to do, and how much of it fits into the time. Must not do any of it.

use serde::{Deserialize, Serialize};

use super::Condition;
use crate::error::{Error, Result};
use crate::storage::{Api, StoragePlan};

/// The fewest calls of a block that have a median worth the name.
pub const MIN_CALLS: u32 = 9;

/// The most calls of a block: more say nothing that another round would not say better.
pub const MAX_CALLS: u32 = 1000;

/// A comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterferencePlan {
    /// Who writes what to where. Its rounds and calls are not used; without CPUs the writer is put on one.
    pub write: StoragePlan,
    /// Beside what; what the machine cannot do is left out and said.
    pub conditions: Vec<Condition>,
    /// Whether all of them are needed. Not stored.
    #[serde(skip)]
    pub all_conditions: bool,
    /// How often each pair of blocks, alone and beside, has its turn.
    pub rounds: u32,
    /// How long all may take, in nanoseconds: what does not fit is left out and said.
    pub duration_ns: u64,
    /// How much of the memory that is free the neighbour `memory` takes, in percent.
    pub memory_percent: u32,
    /// What the writer may write in a second under `io-limit`, in bytes.
    pub io_limit_bytes_per_s: u64,
}

impl Default for InterferencePlan {
    fn default() -> InterferencePlan {
        InterferencePlan {
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
    /// Whether it can be carried out on some machine.
    ///
    /// # Errors
    /// [`Error::Plan`] with what is wrong.
    pub fn check(&self) -> Result<()> {
        let wrong = |text: &str| Err(Error::Plan(text.into()));
        self.write.check()?;
        if self.conditions.is_empty() {
            return wrong("there is nothing to compare with: name a condition");
        }
        if !(1..=1000).contains(&self.rounds) {
            return wrong("a comparison takes 1 to 1000 rounds");
        }
        if !(1..=90).contains(&self.memory_percent) {
            return wrong("the share of memory must be 1% to 90%: with more the kernel kills processes");
        }
        if self.io_limit_bytes_per_s < 4096 {
            return wrong("the limit must be at least 4096 bytes a second: with less no write ends");
        }
        Ok(())
    }
}

/// The calls of a block that may take so much longer than one of the fewest, if a call takes `call_ns`.
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
