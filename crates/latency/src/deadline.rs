//! Deadlines, and how many durations met or missed them. The counts are exact: they come from
//! durations, not from a histogram's buckets.

use serde::{Deserialize, Serialize};

/// A limit on a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// The limit in nanoseconds. A duration of exactly this length meets the deadline.
    pub ns: u64,
}

/// How many durations were compared with a deadline, and how many missed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineCount {
    /// The limit.
    pub deadline: Deadline,
    /// The number of durations that were compared.
    pub count: u64,
    /// The number of durations above the limit.
    pub missed: u64,
}

impl Deadline {
    /// Whether a duration in nanoseconds is longer than the limit.
    #[must_use]
    pub const fn missed(self, latency_ns: u64) -> bool {
        latency_ns > self.ns
    }

    /// An empty count against this deadline.
    #[must_use]
    pub const fn counter(self) -> DeadlineCount {
        DeadlineCount { deadline: self, count: 0, missed: 0 }
    }
}

impl DeadlineCount {
    /// Counts one duration in nanoseconds. Returns true if it missed the deadline.
    pub fn record(&mut self, latency_ns: u64) -> bool {
        let missed = self.deadline.missed(latency_ns);
        self.count += 1;
        self.missed += u64::from(missed);
        missed
    }

    /// The ratio of durations that met the deadline, 0–1; `None` if none was counted.
    #[must_use]
    pub fn meet_ratio(&self) -> Option<f64> {
        (self.count > 0).then(|| 1.0 - self.missed as f64 / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_of_exactly_the_limit_meets_it() {
        let mut count = Deadline { ns: 100 }.counter();
        assert_eq!(count.meet_ratio(), None);
        assert_eq!([99, 100, 101, 500].map(|ns| count.record(ns)), [false, false, true, true]);
        assert_eq!((count.count, count.missed, count.meet_ratio()), (4, 2, Some(0.5)));
    }
}
