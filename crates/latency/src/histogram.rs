//! Durations in log-linear buckets with a stated error, and exact minimum, maximum, count and sum beside them.
//! Knows no clock and no file; its stored form is plain JSON that any number of runs can be merged from.

use hdrhistogram::Histogram as Buckets;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;

const FORM_VERSION: u32 = 1;
const UNIT: &str = "ns";

/// A histogram of durations in nanoseconds.
///
/// Count, minimum, maximum and sum are exact. Percentiles and the standard deviation are read from buckets:
/// with three significant digits a bucket above 2048 ns is at most 1/1024 of its values wide, so they are
/// within [`Self::RELATIVE_ERROR`]; below, every nanosecond has its own bucket. A duration above
/// [`Self::HIGHEST_NS`] is counted in the top bucket and in [`Self::clamped`].
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    buckets: Buckets<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u64,
    clamped: u64,
}

/// The stored form. `counts` are pairs of a bucket's highest value in ns and its count, ascending.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    unit: String,
    significant_digits: u8,
    count: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    sum_ns: u64,
    clamped: u64,
    counts: Vec<(u64, u64)>,
}

impl Histogram {
    /// Decimal digits that a bucket resolves.
    pub const SIGNIFICANT_DIGITS: u8 = 3;
    /// Largest relative error of a percentile.
    pub const RELATIVE_ERROR: f64 = 0.001;
    /// Longest duration with a bucket of its own, in nanoseconds: 2⁴² − 1, a little over 73 minutes.
    pub const HIGHEST_NS: u64 = (1 << 42) - 1;

    /// An empty histogram. All its memory (about 256 KiB) is allocated here; recording allocates nothing.
    pub fn new() -> Self {
        let buckets = Buckets::new_with_bounds(1, Self::HIGHEST_NS, Self::SIGNIFICANT_DIGITS)
            .expect("constant bounds that the crate accepts");
        Self { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0, clamped: 0 }
    }

    /// Counts one duration in nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        self.buckets.saturating_record(value_ns.min(Self::HIGHEST_NS));
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
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// How many durations exceeded [`Self::HIGHEST_NS`]. Where this is not 0, percentiles that fall among them
    /// understate; the maximum stays exact.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The exact minimum in nanoseconds.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The exact maximum in nanoseconds.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The exact sum in nanoseconds; stays at `u64::MAX` (584 years) once it gets there.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The arithmetic mean in nanoseconds, from the exact sum.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The standard deviation of the counted durations (divided by their count) in nanoseconds, from the buckets.
    pub fn stdev_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.buckets.stdev())
    }

    /// The duration in nanoseconds that `percent` (0–100, clamped) of all counted durations do not exceed: the
    /// top of the bucket in which the ⌈percent × count / 100⌉-th lies, but never outside the exact minimum and maximum.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        // 99.9% of 1000 is 999.0000000000001 in binary: the rank forgives that much, and the quantile that is
        // asked for lies in the middle of its step, out of rounding's reach.
        let count = self.count() as f64;
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * count * (1.0 - 1e-12)).ceil().max(1.0);
        let value = self.buckets.value_at_quantile((rank - 0.5) / count.max(1.0));
        (!self.is_empty()).then(|| value.clamp(self.min_ns, self.max_ns))
    }

    /// The buckets in use, ascending: highest value in nanoseconds, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
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

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored {
            version: FORM_VERSION,
            unit: UNIT.to_owned(),
            significant_digits: Self::SIGNIFICANT_DIGITS,
            count: self.count(),
            min_ns: self.min_ns(),
            max_ns: self.max_ns(),
            sum_ns: self.sum_ns,
            clamped: self.clamped,
            counts: self.buckets().collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Stored::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Stored> for Histogram {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        same_form("version", stored.version, FORM_VERSION)?;
        same_form("unit", stored.unit.as_str(), UNIT)?;
        same_form("significant_digits", stored.significant_digits, Self::SIGNIFICANT_DIGITS)?;
        let mut histogram = Self::new();
        let mut count: u64 = 0;
        for (value, times) in stored.counts {
            if value > Self::HIGHEST_NS {
                return Err(Error::HistogramContent("a bucket lies above the highest value"));
            }
            count = count.checked_add(times).ok_or(Error::HistogramContent("the counts overflow 64 bits"))?;
            histogram.buckets.saturating_record_n(value, times);
        }
        if count != stored.count || stored.clamped > count {
            return Err(Error::HistogramContent("the counts do not add up to the total"));
        }
        match (stored.min_ns, stored.max_ns) {
            (None, None) if count == 0 => {}
            (Some(min), Some(max)) if count > 0 && min <= max => {
                (histogram.min_ns, histogram.max_ns) = (min, max);
            }
            _ => return Err(Error::HistogramContent("minimum and maximum do not fit the counts")),
        }
        histogram.sum_ns = stored.sum_ns;
        histogram.clamped = stored.clamped;
        Ok(histogram)
    }
}

fn same_form<T: PartialEq + ToString>(field: &'static str, found: T, expected: T) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::HistogramForm { field, found: found.to_string(), expected: expected.to_string() })
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
    fn the_stored_form_is_sparse_and_versioned() {
        let histogram: Histogram = [7, 7, 100_000].into_iter().collect();
        let json = serde_json::to_string(&histogram).expect("a histogram serialises");
        assert_eq!(
            json,
            r#"{"version":1,"unit":"ns","significant_digits":3,"count":3,"min_ns":7,"max_ns":100000,"#
                .to_owned()
                + r#""sum_ns":100014,"clamped":0,"counts":[[7,2],[100031,1]]}"#
        );
    }

    #[test]
    fn a_stored_form_that_contradicts_itself_is_refused() {
        let good = serde_json::to_string(&[5_u64, 9].into_iter().collect::<Histogram>()).expect("serialises");
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"ns\"", "\"us\""),
            ("\"count\":2", "\"count\":3"),
            ("\"min_ns\":5", "\"min_ns\":10"),
            ("\"min_ns\":5", "\"min_ns\":null"),
            ("[9,1]", "[9223372036854775807,1]"),
            ("[9,1]", "[9,18446744073709551615]"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            assert!(serde_json::from_str::<Histogram>(&bad).is_err(), "{bad}");
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
