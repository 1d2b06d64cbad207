//! Durations in log-linear buckets with a stated error, and exact minimum, maximum, count and sum
//! beside them. Knows no clock and no file.

use hdrhistogram::Histogram as Buckets;
use serde::{Deserialize, Serialize};

mod stored;

/// The percentiles that the stored form tells, and that reports show.
pub const PERCENTS: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// How many standard deviations around its mean hold 95% of a normal distribution.
const Z_95: f64 = 1.959_964;

/// A histogram of durations in nanoseconds.
///
/// Count, minimum, maximum and sum are exact. Percentiles and the standard deviation are read from
/// buckets: with three significant digits a bucket above 2048 ns is at most 1/1024 of its values
/// wide, so they are within [`Self::RELATIVE_ERROR`]; below, every nanosecond has its own bucket. A
/// duration above [`Self::HIGHEST_NS`] is counted in the top bucket and in [`Self::clamped`].
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Buckets<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    clamped: u64,
}

/// A percentile of a histogram and where the true one lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, 0–100.
    pub percent: f64,
    /// Its duration in nanoseconds, within [`Histogram::RELATIVE_ERROR`].
    pub ns: u64,
    /// Lower end of its interval in nanoseconds; `None` where there are too few durations.
    pub low_ns: Option<u64>,
    /// Upper end.
    pub high_ns: Option<u64>,
}

impl Histogram {
    /// Decimal digits that a bucket resolves.
    pub const SIGNIFICANT_DIGITS: u8 = 3;
    /// Largest relative error of a percentile.
    pub const RELATIVE_ERROR: f64 = 0.001;
    /// Longest duration with a bucket of its own, in nanoseconds: 2⁴² − 1, a little over 73
    /// minutes.
    pub const HIGHEST_NS: u64 = (1 << 42) - 1;

    /// An empty histogram. All its memory (about 256 KiB) is allocated here; recording allocates
    /// nothing.
    #[must_use]
    pub fn new() -> Self {
        let buckets = Buckets::new_with_bounds(1, Self::HIGHEST_NS, Self::SIGNIFICANT_DIGITS)
            .expect("constant bounds that the crate accepts");
        Self { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0, clamped: 0 }
    }

    /// An empty histogram whose memory grows with the longest duration, from 16 KiB on: recording
    /// may allocate. For what is counted afterwards, in many histograms at a time.
    ///
    /// # Panics
    /// Never: the bounds are constant.
    #[must_use]
    pub fn growing() -> Self {
        let buckets =
            Buckets::new(Self::SIGNIFICANT_DIGITS).expect("a number of digits that the crate accepts");
        Self { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0, clamped: 0 }
    }

    /// Counts one duration in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        // It cannot fail: the value lies within the bounds, or these grow.
        let recorded = self.buckets.record(value_ns.min(Self::HIGHEST_NS));
        debug_assert!(recorded.is_ok());
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns = self.sum_ns.saturating_add(value_ns);
        self.clamped += u64::from(value_ns > Self::HIGHEST_NS);
    }

    /// Adds everything that `other` counted, as if it had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.add(&other.buckets).expect("all histograms of this type have the same bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.clamped += other.clamped;
    }

    /// How many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// How many durations exceeded [`Self::HIGHEST_NS`]. Where this is not 0, percentiles that fall
    /// among them understate; the maximum stays exact.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The exact minimum in nanoseconds.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The exact maximum in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The exact sum in nanoseconds; stays at `u64::MAX` (584 years) once it gets there.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The arithmetic mean in nanoseconds, from the exact sum.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The standard deviation of the counted durations (divided by their count) in nanoseconds,
    /// from the buckets.
    #[must_use]
    pub fn stdev_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.buckets.stdev())
    }

    /// The duration in nanoseconds that `percent` (0–100, clamped) of all counted durations do not
    /// exceed: the top of the bucket in which the ⌈percent × count / 100⌉-th lies, but never
    /// outside the exact minimum and maximum.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        // 99.9% of 1000 is 999.0000000000001 in binary: the rank forgives that much, and the
        // quantile that is asked for lies in the middle of its step, out of rounding's reach.
        let count = self.count() as f64;
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * count * (1.0 - 1e-12)).ceil().max(1.0);
        let value = self.buckets.value_at_quantile((rank - 0.5) / count.max(1.0));
        (!self.is_empty()).then(|| value.clamp(self.min_ns, self.max_ns))
    }

    /// The percentile with the 95% interval in which the true one lies, by the ranks of the
    /// durations around it (Conover, Practical Nonparametric Statistics, 3.2). It assumes that
    /// the durations are independent of each other: how the machine changes between two runs is
    /// not in it. `None` for an empty histogram; no ends where they lie beyond the durations.
    pub fn percentile(&self, percent: f64) -> Option<Percentile> {
        let ns = self.percentile_ns(percent)?;
        let (count, share) = (self.count() as f64, percent.clamp(0.0, 100.0) / 100.0);
        let spread = Z_95 * (count * share * (1.0 - share)).sqrt();
        let [low, high] = [count * share - spread, count * share + spread].map(f64::ceil);
        let told = low >= 1.0 && high <= count;
        let at = |rank: f64| self.percentile_ns(100.0 * rank / count).filter(|_| told);
        Some(Percentile { percent, ns, low_ns: at(low), high_ns: at(high) })
    }

    /// The 95% interval of the mean in nanoseconds, from the standard deviation: low and high.
    /// Assumes what [`Self::percentile`] does. `None` for fewer than two durations.
    #[must_use]
    pub fn mean_interval_ns(&self) -> Option<(f64, f64)> {
        let (mean, stdev, count) = (self.mean_ns()?, self.stdev_ns()?, self.count() as f64);
        let half = Z_95 * stdev / (count - 1.0).sqrt();
        (count > 1.0).then_some(((mean - half).max(0.0), mean + half))
    }

    /// The buckets in use, ascending: highest value in nanoseconds, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

/// Equal is what counts the same, however much memory it has for more.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let exact = |of: &Self| (of.min_ns, of.max_ns, of.sum_ns, of.clamped);
        exact(self) == exact(other) && self.buckets().eq(other.buckets())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values_ns: I) -> Self {
        let mut histogram = Self::new();
        values_ns.into_iter().for_each(|value| histogram.record(value));
        histogram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(histogram: &Histogram) -> Histogram {
        let json = serde_json::to_string(histogram).expect("a histogram serialises");
        serde_json::from_str(&json).expect("and comes back")
    }

    #[test]
    fn an_empty_histogram_has_a_count_and_nothing_else() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.min_ns(), empty.max_ns()), (0, None, None));
        assert_eq!((empty.mean_ns(), empty.stdev_ns(), empty.percentile_ns(50.0)), (None, None, None));
        assert_eq!(stored(&empty), empty);
    }

    #[test]
    fn a_duration_above_the_range_is_reported_and_its_value_kept() {
        let histogram: Histogram =
            [10, Histogram::HIGHEST_NS, Histogram::HIGHEST_NS * 2].into_iter().collect();
        assert_eq!((histogram.count(), histogram.clamped()), (3, 1));
        assert_eq!(histogram.max_ns(), Some(Histogram::HIGHEST_NS * 2));
        assert_eq!(stored(&histogram), histogram);
    }

    #[test]
    fn the_standard_deviation_of_small_values_is_exact() {
        let histogram: Histogram = [2, 4, 4, 4, 5, 5, 7, 9].into_iter().collect();
        assert_eq!((histogram.mean_ns(), histogram.stdev_ns()), (Some(5.0), Some(2.0)));
    }

    #[test]
    fn a_percentile_lies_between_ends_that_more_durations_bring_closer() {
        let of = |count: u64| (1..=count).collect::<Histogram>().percentile(50.0).expect("not empty");
        // Conover's example: ceil(16 * 0.5 -+ 1.96 * sqrt(16 * 0.25)), the 5th and the 12th of 16.
        assert_eq!((of(16).low_ns, of(16).high_ns), (Some(5), Some(12)));
        assert_eq!((of(1000).low_ns, of(1000).high_ns), (Some(470), Some(531)));
        assert_eq!(of(3).low_ns, None);
        let tail = |count: u64| (1..=count).collect::<Histogram>().percentile(99.0).expect("not empty");
        assert_eq!((tail(100).ns, tail(100).high_ns, tail(1000).high_ns), (99, None, Some(997)));
    }

    #[test]
    fn the_intervals_hold_the_true_value_in_95_of_100_samples() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 2000 + 1
        };
        let (mut median, mut tail, mut mean) = (0, 0, 0);
        for _ in 0..1000 {
            let sample: Histogram = (0..500).map(|_| uniform()).collect();
            let holds = |percent: f64, value: u64| {
                let Percentile { low_ns, high_ns, .. } = sample.percentile(percent).expect("not empty");
                low_ns.zip(high_ns).is_some_and(|(low, high)| (low..=high).contains(&value))
            };
            median += u32::from(holds(50.0, 1000));
            tail += u32::from(holds(95.0, 1900));
            let (low, high) = sample.mean_interval_ns().expect("500 durations");
            mean += u32::from((low..=high).contains(&1000.5));
        }
        for (what, held) in [("median", median), ("p95", tail), ("mean", mean)] {
            assert!((930..=970).contains(&held), "{what}: {held} of 1000");
        }
    }

    fn durations() -> impl Strategy<Value = Vec<u64>> {
        // Spread over all magnitudes, and now and then out of range.
        proptest::collection::vec(
            (0_u32..45, any::<u64>()).prop_map(|(bits, v)| v & ((1 << bits) - 1)),
            0..60,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn one_that_grows_counts_like_any_other(values in durations()) {
            let mut growing = Histogram::growing();
            values.iter().for_each(|&value| growing.record(value));
            let fixed: Histogram = values.iter().copied().collect();
            prop_assert_eq!(&growing, &fixed);
            prop_assert_eq!(&fixed, &growing);
            prop_assert_eq!(growing.buckets().collect::<Vec<_>>(), fixed.buckets().collect::<Vec<_>>());
            prop_assert_eq!(growing.percentile(99.0), fixed.percentile(99.0));
            let mut merged = Histogram::growing();
            merged.merge(&fixed);
            merged.merge(&growing);
            let mut twice = fixed.clone();
            twice.merge(&fixed);
            prop_assert_eq!(merged, twice);
        }

        #[test]
        fn merging_stored_histograms_equals_recording_everything_in_one(a in durations(), b in durations()) {
            let (left, right): (Histogram, Histogram) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let mut merged = stored(&left);
            merged.merge(&stored(&right));
            let together: Histogram = a.into_iter().chain(b).collect();
            prop_assert_eq!(merged, together);
        }

        #[test]
        fn percentiles_stay_within_the_stated_error(mut values in durations(), percent in 0.0..100.0_f64) {
            values.retain(|&v| v <= Histogram::HIGHEST_NS);
            prop_assume!(!values.is_empty());
            let histogram: Histogram = values.iter().copied().collect();
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let read = histogram.percentile_ns(percent).expect("there are samples") as f64;
            prop_assert!((read - exact).abs() <= exact * Histogram::RELATIVE_ERROR, "{read} for {exact}");
        }
    }
}
