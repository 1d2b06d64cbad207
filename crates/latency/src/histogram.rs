//! Histograms of durations: log-linear buckets with a known error, and an exact minimum, maximum,
//! count and sum. This file knows no clocks or files.

use hdrhistogram::Histogram as Fixed;
use serde::{Deserialize, Serialize};

use crate::Z_95;

mod sparse;
mod stored;
#[cfg(test)]
mod tests;

use sparse::Sparse;

/// The percentiles in the stored form and in reports.
pub const PERCENTS: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// Whether `count` durations are enough to distinguish the `percent` (0–100) percentile from the
/// maximum: at least one of them must be expected above it. p99.9 needs 1,000, p99.99 needs 10,000.
#[must_use]
pub fn resolvable(count: u64, percent: f64) -> bool {
    // Tolerates the rounding of 100 − 99.99, which is negligible for realistic counts.
    count as f64 * (100.0 - percent) >= 100.0 * (1.0 - 1e-9)
}

/// A histogram of durations in nanoseconds.
///
/// Count, minimum, maximum and sum are exact. Percentiles and the standard deviation come from the
/// buckets and are within [`Self::RELATIVE_ERROR`]. Buckets have three significant digits: above
/// 2048 ns a bucket is at most 1/1024 of its values wide, and below that each nanosecond has a
/// bucket. A duration above [`Self::HIGHEST_NS`] counts in the top bucket and in [`Self::clamped`].
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Buckets,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    clamped: u64,
}

/// Where the counts are. Both forms have the same buckets.
#[derive(Debug, Clone)]
enum Buckets {
    /// All buckets, allocated in advance.
    Fixed(Fixed<u64>),
    /// Only the buckets in use.
    Sparse(Sparse),
}

/// A percentile of a histogram, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The percentage, 0–100.
    pub percent: f64,
    /// The duration in nanoseconds, within [`Histogram::RELATIVE_ERROR`].
    pub ns: u64,
    /// The lower end of the interval in nanoseconds; `None` if there are too few durations.
    pub low_ns: Option<u64>,
    /// The upper end in nanoseconds; `None` if there are too few durations.
    pub high_ns: Option<u64>,
}

impl Histogram {
    /// The decimal digits that a bucket resolves.
    pub const SIGNIFICANT_DIGITS: u8 = 3;
    /// The largest relative error of a percentile.
    pub const RELATIVE_ERROR: f64 = 0.001;
    /// The longest duration that has a bucket, in nanoseconds: 2⁴² − 1, a little over 73 minutes.
    pub const HIGHEST_NS: u64 = (1 << 42) - 1;

    /// An empty histogram. Allocates all memory (about 256 KiB), so that recording allocates none.
    #[must_use]
    pub fn new() -> Self {
        let buckets = Fixed::new_with_bounds(1, Self::HIGHEST_NS, Self::SIGNIFICANT_DIGITS)
            .expect("constant bounds that the crate accepts");
        Self::empty(Buckets::Fixed(buckets))
    }

    /// An empty histogram for analysis after a measurement, where there are many histograms. Its
    /// memory grows with the number of buckets in use, by 16 bytes each, so recording may allocate.
    #[must_use]
    pub fn growing() -> Self {
        Self::empty(Buckets::Sparse(Sparse::default()))
    }

    fn empty(buckets: Buckets) -> Self {
        Self { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0, clamped: 0 }
    }

    /// Counts one duration in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns.min(Self::HIGHEST_NS), 1);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
        self.sum_ns = self.sum_ns.saturating_add(value_ns);
        self.clamped += u64::from(value_ns > Self::HIGHEST_NS);
    }

    /// Counts a value up to [`Self::HIGHEST_NS`] in its bucket, and nowhere else.
    fn record_n(&mut self, value_ns: u64, times: u64) {
        match &mut self.buckets {
            Buckets::Fixed(buckets) => {
                // Cannot fail: the value is within the bounds.
                let recorded = buckets.record_n(value_ns, times);
                debug_assert!(recorded.is_ok());
            }
            Buckets::Sparse(buckets) => buckets.record_n(value_ns, times),
        }
    }

    /// Adds the counts of `other`, as if its durations had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.buckets, &other.buckets) {
            (Buckets::Fixed(buckets), Buckets::Fixed(other)) => {
                buckets.add(other).expect("all histograms of this type have the same bounds");
            }
            (Buckets::Sparse(buckets), Buckets::Sparse(other)) => buckets.add(other),
            _ => other.buckets().for_each(|(value_ns, times)| self.record_n(value_ns, times)),
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.clamped += other.clamped;
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.buckets {
            Buckets::Fixed(buckets) => buckets.len(),
            Buckets::Sparse(buckets) => buckets.len(),
        }
    }

    /// Whether the histogram is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of durations above [`Self::HIGHEST_NS`]. A percentile that falls among them is
    /// too low; the maximum is still exact.
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

    /// The exact sum in nanoseconds. Saturates at `u64::MAX` (584 years).
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The arithmetic mean in nanoseconds, from the exact sum.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The standard deviation of the counted durations in nanoseconds, from the buckets. It is the
    /// population's: the divisor is the number of durations.
    #[must_use]
    pub fn stdev_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| match &self.buckets {
            Buckets::Fixed(buckets) => buckets.stdev(),
            Buckets::Sparse(buckets) => buckets.stdev(),
        })
    }

    /// The duration in nanoseconds that `percent` (0–100, clamped) of all durations do not exceed:
    /// the ⌈percent × count / 100⌉-th shortest one. `None` if it is not [`resolvable`].
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        // 99.9% of 1000 is 999.0000000000001 in binary. The rank tolerates this error.
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * self.count() as f64 * (1.0 - 1e-12)).ceil();
        self.ranked_ns((rank as u64).max(1)).filter(|_| resolvable(self.count(), percent))
    }

    /// The `rank`-th shortest duration, counted from 1: the highest value of its bucket, clamped to
    /// the exact minimum and maximum. `None` if there are not so many durations.
    #[must_use]
    pub fn ranked_ns(&self, rank: u64) -> Option<u64> {
        let highest_ns = || match &self.buckets {
            // The requested quantile is in the middle of its step: rounding does not matter.
            Buckets::Fixed(buckets) => buckets.value_at_quantile((rank as f64 - 0.5) / self.count() as f64),
            Buckets::Sparse(buckets) => buckets.ranked(rank),
        };
        let is_one = (1..=self.count()).contains(&rank);
        is_one.then(|| highest_ns().clamp(self.min_ns, self.max_ns))
    }

    /// The percentile with its 95% confidence interval, from the ranks of the durations around it
    /// (Conover, Practical Nonparametric Statistics, 3.2). `percent` is clamped to 0–100. Assumes
    /// independent durations, so the interval does not cover changes of the machine between runs.
    /// `None` if the percentile is not [`resolvable`]. An end of the interval is `None` if it lies
    /// outside all durations.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Percentile> {
        self.percentile_in_clumps(percent, 1.0)
    }

    /// [`Self::percentile`] if durations above it come in clumps, so that their number varies by
    /// `clump` times the variance of independent ones.
    pub fn percentile_in_clumps(&self, percent: f64, clump: f64) -> Option<Percentile> {
        let ns = self.percentile_ns(percent)?;
        let (count, share) = (self.count() as f64, percent.clamp(0.0, 100.0) / 100.0);
        let spread = Z_95 * (clump * count * share * (1.0 - share)).sqrt();
        let [low, high] = [count * share - spread, count * share + spread].map(f64::ceil);
        let bounded = low >= 1.0 && high <= count;
        let at = |rank: f64| self.ranked_ns(rank as u64).filter(|_| bounded);
        Some(Percentile { percent, ns, low_ns: at(low), high_ns: at(high) })
    }

    /// The 95% confidence interval of the mean in nanoseconds, from the standard deviation: low and
    /// high. Assumes independent durations. `None` for fewer than two durations.
    #[must_use]
    pub fn mean_interval_ns(&self) -> Option<(f64, f64)> {
        let (mean, stdev, count) = (self.mean_ns()?, self.stdev_ns()?, self.count() as f64);
        let half = Z_95 * stdev / (count - 1.0).sqrt();
        (count > 1.0).then_some(((mean - half).max(0.0), mean + half))
    }

    /// The buckets that are not empty, ascending: the highest value in nanoseconds, and the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (fixed, sparse) = match &self.buckets {
            Buckets::Fixed(buckets) => (Some(buckets), None),
            Buckets::Sparse(buckets) => (None, Some(buckets)),
        };
        let fixed = fixed.into_iter().flat_map(Fixed::iter_recorded);
        fixed
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .chain(sparse.into_iter().flat_map(Sparse::iter))
    }
}

/// Histograms are equal if their counts are equal, whatever their capacity.
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

/// All durations of several histograms. Its memory grows as that of [`Histogram::growing`].
impl<'a> FromIterator<&'a Self> for Histogram {
    fn from_iter<I: IntoIterator<Item = &'a Self>>(parts: I) -> Self {
        let mut all = Self::growing();
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<I: IntoIterator<Item = u64>>(values_ns: I) -> Self {
        let mut histogram = Self::new();
        values_ns.into_iter().for_each(|value| histogram.record(value));
        histogram
    }
}
