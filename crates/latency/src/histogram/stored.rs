//! The stored form of a histogram: plain JSON that can be merged with that of other runs. Rejects
//! inconsistent data.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Histogram, PERCENTS, Percentile};
use crate::Error;

const FORM_VERSION: u32 = 1;
const UNIT: &str = "ns";

/// The stored form. `counts` are pairs of a bucket's highest value in nanoseconds and its count,
/// ascending. The fields after `counts` are for other programs: they are derived from the counts,
/// and are ignored when this form is read.
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
    #[serde(default)]
    mean_ns: Option<f64>,
    #[serde(default)]
    mean_low_ns: Option<f64>,
    #[serde(default)]
    mean_high_ns: Option<f64>,
    #[serde(default)]
    percentiles: Vec<Percentile>,
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
            mean_ns: self.mean_ns(),
            mean_low_ns: self.mean_interval_ns().map(|(low, _)| low),
            mean_high_ns: self.mean_interval_ns().map(|(_, high)| high),
            percentiles: PERCENTS.iter().filter_map(|&percent| self.percentile(percent)).collect(),
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
        let mut histogram = Self::growing();
        let mut count: u64 = 0;
        for (value, times) in stored.counts {
            if value > Self::HIGHEST_NS {
                return Err(Error::HistogramContent("a bucket lies above the highest value"));
            }
            count = count.checked_add(times).ok_or(Error::HistogramContent("the counts overflow 64 bits"))?;
            histogram.record_n(value, times);
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
    use super::*;

    #[test]
    fn the_stored_form_is_sparse_and_versioned() {
        let histogram: Histogram = [7, 7, 100_000].into_iter().collect();
        let json = serde_json::to_string(&histogram).expect("a histogram serialises");
        assert_eq!(
            json,
            r#"{"version":1,"unit":"ns","significant_digits":3,"count":3,"min_ns":7,"max_ns":100000,"#
                .to_owned()
                + r#""sum_ns":100014,"clamped":0,"counts":[[7,2],[100031,1]],"mean_ns":33338.0,"#
                + r#""mean_low_ns":0.0,"mean_high_ns":98665.560084,"percentiles":["#
                + r#"{"percent":50.0,"ns":7,"low_ns":null,"high_ns":null}]}"#
        );
    }

    #[test]
    fn a_stored_form_without_the_derived_figures_is_read() {
        let without = r#"{"version":1,"unit":"ns","significant_digits":3,"count":1,"min_ns":5,"max_ns":5,"sum_ns":5,"clamped":0,"counts":[[5,1]]}"#;
        assert_eq!(serde_json::from_str::<Histogram>(without).expect("opens"), [5].into_iter().collect());
    }

    #[test]
    fn an_inconsistent_stored_form_is_rejected() {
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
}
