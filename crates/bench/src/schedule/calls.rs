//! The number of calls in a block: as many as fit into its share of the remaining time. Must not
//! know what a block does.

use crate::clock::now_ns;

/// The fewest calls with a meaningful median.
const MIN_CALLS: u64 = 9;

/// A run's time, divided among its blocks. Time lost to starting blocks, or to a busy machine, is
/// taken from the calls of later blocks.
pub(crate) struct Budget {
    start_ns: u64,
    total_ns: u64,
    /// All blocks, including the trial round, which takes about as long as others.
    pub(crate) blocks: u64,
    /// The most calls in one block.
    most: u64,
    /// Completed blocks.
    pub(crate) done: u64,
    /// Time spent in timed calls.
    calls_ns: u64,
}

impl Budget {
    /// For this many blocks including trial blocks, each with at most `most` calls.
    pub(crate) fn new(total_ns: u64, blocks: u64, most: u64) -> Self {
        Self { start_ns: now_ns(), total_ns, blocks, most, done: 0, calls_ns: 0 }
    }

    /// Counts a block whose timed calls took `calls_ns`.
    pub(crate) fn spend(&mut self, calls_ns: u64) {
        self.done += 1;
        self.calls_ns += calls_ns;
    }

    /// The number of calls in the next block if one takes `call_ns`.
    pub(crate) fn calls(&self, call_ns: u64) -> u64 {
        (self.block_ns() / call_ns.max(1)).clamp(MIN_CALLS, self.most)
    }

    /// How long the calls of the next block may take, in nanoseconds.
    pub(crate) fn block_ns(&self) -> u64 {
        let elapsed_ns = now_ns() - self.start_ns;
        let left_ns = self.total_ns.saturating_sub(elapsed_ns);
        let block_ns = left_ns / (self.blocks - self.done).max(1);
        let overhead_ns = elapsed_ns.saturating_sub(self.calls_ns) / self.done.max(1);
        block_ns.saturating_sub(overhead_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_used_up_still_leaves_the_fewest_calls() {
        let mut budget = Budget::new(3_600_000_000_000, 100, 1_000_000);
        // An hour for 100 blocks is 36 s each: 36 000 calls of a millisecond, less what the test
        // itself takes.
        let calls = budget.calls(1_000_000);
        assert!((35_000..=36_000).contains(&calls), "{calls}");
        assert_eq!(budget.calls(1), 1_000_000);
        budget.spend(1);
        budget.start_ns = 0;
        budget.total_ns = 0;
        assert_eq!(budget.calls(1), MIN_CALLS);
    }
}
