//! The figures that summarise a histogram, in nanoseconds. This file does not format them.

use serde::{Deserialize, Serialize};

use crate::Histogram;

/// A histogram's figures in nanoseconds. All are `None` for an empty histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of durations.
    pub count: u64,
    /// The number of durations above [`Histogram::HIGHEST_NS`], which count in the top bucket.
    pub clamped: u64,
    /// Exact minimum.
    pub min_ns: Option<u64>,
    /// Arithmetic mean of the exact values.
    pub mean_ns: Option<f64>,
    /// Standard deviation, within the histogram's stated error.
    pub stdev_ns: Option<f64>,
    /// Exact maximum.
    pub max_ns: Option<u64>,
    /// Median. This and the other percentiles are within [`Histogram::RELATIVE_ERROR`].
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile. With fewer than 1,000 durations, it is just the maximum.
    #[serde(rename = "p99_9_ns")]
    pub p999_ns: Option<u64>,
    /// 99.99th percentile. With fewer than 10,000 durations, it is just the maximum.
    #[serde(rename = "p99_99_ns")]
    pub p9999_ns: Option<u64>,
}

impl From<&Histogram> for Summary {
    fn from(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            clamped: histogram.clamped(),
            min_ns: histogram.min_ns(),
            mean_ns: histogram.mean_ns(),
            stdev_ns: histogram.stdev_ns(),
            max_ns: histogram.max_ns(),
            p50_ns: histogram.percentile_ns(50.0),
            p90_ns: histogram.percentile_ns(90.0),
            p95_ns: histogram.percentile_ns(95.0),
            p99_ns: histogram.percentile_ns(99.0),
            p999_ns: histogram.percentile_ns(99.9),
            p9999_ns: histogram.percentile_ns(99.99),
        }
    }
}

impl Summary {
    /// Whether the `percent` (0–100) percentile differs in meaning from the maximum, see
    /// [`resolvable`].
    #[must_use]
    pub fn resolvable(&self, percent: f64) -> bool {
        resolvable(self.count, percent)
    }
}

/// Whether `count` durations are enough to distinguish the `percent` (0–100) percentile from the
/// maximum: at least one of them must be expected above it. p99.9 needs 1,000, p99.99 needs 10,000.
#[must_use]
pub fn resolvable(count: u64, percent: f64) -> bool {
    // Tolerates the rounding of 100 − 99.99, which is negligible for realistic counts.
    count as f64 * (100.0 - percent) >= 100.0 * (1.0 - 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let summary = Summary::from(&Histogram::new());
        assert_eq!((summary.count, summary.mean_ns, summary.p9999_ns), (0, None, None));
        let json = serde_json::to_string(&summary).expect("a summary serialises");
        assert!(json.contains(r#""p99_99_ns":null"#), "{json}");
    }

    #[test]
    fn a_thousand_steps_give_the_percentiles_by_name() {
        let summary = Summary::from(&(1..=1000).collect::<Histogram>());
        assert_eq!((summary.min_ns, summary.mean_ns, summary.max_ns), (Some(1), Some(500.5), Some(1000)));
        assert_eq!((summary.p50_ns, summary.p90_ns, summary.p95_ns), (Some(500), Some(900), Some(950)));
        assert_eq!((summary.p99_ns, summary.p999_ns, summary.p9999_ns), (Some(990), Some(999), Some(1000)));
    }

    #[test]
    fn a_percentile_needs_one_sample_beyond_it() {
        assert!(!resolvable(9_999, 99.99) && resolvable(10_000, 99.99));
        assert!(!resolvable(999, 99.9) && resolvable(1_000, 99.9));
        assert!(!resolvable(0, 50.0) && resolvable(2, 50.0));
    }
}
