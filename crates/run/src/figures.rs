//! The figures of a run, and the groups of calls that they describe. Each figure is computed in one
//! place. Must not know any test, nor how figures are compared or shown.

use std::borrow::Cow;

use roundtrip_latency::{Comparison, Deadline, Histogram, Interval};

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A count.
    Count,
    /// Percent.
    Percent,
    /// A rate per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// One value divided by another.
    Ratio,
}

/// Which of two values is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

/// The 95% confidence interval of a figure, estimated from a single run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower end, in the figure's unit.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Interval> for Bounds {
    fn from(Interval { low, high, .. }: Interval) -> Self {
        Self { low, high }
    }
}

/// Labels: pairs of key and value.
pub type Labels = Vec<(&'static str, String)>;

/// One figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name, in lower case: `p99`, `request.p50`, `missed`.
    pub name: String,
    /// Its labels, from the test to the caller.
    pub of: Labels,
    /// Its value; `None` for a percentile that its samples cannot distinguish from the maximum.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// Which value is better.
    pub better: Better,
    /// The number of calls or rounds that it is based on.
    pub samples: u64,
    /// Its interval, if the calls or rounds were independent; `None` if there are too few.
    pub bounds: Option<Bounds>,
    /// Its interval, if slow calls come in clumps ([`roundtrip_latency::counts::CLUMP`]): wider for
    /// percentiles from p99 on, else the same.
    pub in_clumps: Option<Bounds>,
}

impl Figure {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.of.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    }

    /// Whether two figures of different runs describe the same thing.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.name == other.name && self.of == other.of
    }
}

/// How long calls may take, and how many took longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Its name: "deadline".
    pub name: &'static str,
    /// In nanoseconds.
    pub ns: u64,
    /// The number of calls that took longer.
    pub beyond: u64,
}

/// The durations of a group's calls, or of a part of each call.
#[derive(Debug, Clone)]
pub struct Times<'a> {
    /// The start of its figures' names: empty for whole calls, `request.` for a leg.
    pub prefix: &'static str,
    /// The durations.
    pub histogram: Cow<'a, Histogram>,
    /// Their limit, if they have one.
    pub limit: Option<Limit>,
}

/// Calls that were made under the same conditions.
#[derive(Debug, Clone, Default)]
pub struct Group<'a> {
    /// What distinguishes it from the other groups of its test.
    pub labels: Labels,
    /// Its durations.
    pub times: Vec<Times<'a>>,
    pub(crate) numbers: Vec<Number>,
}

/// A figure without its unit, which the test's description has.
#[derive(Debug, Clone)]
pub(crate) struct Number {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) samples: u64,
    pub(crate) bounds: Option<Bounds>,
}

impl<'a> Group<'a> {
    /// A group without durations.
    #[must_use]
    pub fn new(labels: impl Into<Labels>) -> Self {
        Self { labels: labels.into(), times: Vec::new(), numbers: Vec::new() }
    }

    /// Adds durations without a limit, unless there are none.
    pub fn times(&mut self, prefix: &'static str, histogram: Cow<'a, Histogram>) {
        if !histogram.is_empty() {
            self.times.push(Times { prefix, histogram, limit: None });
        }
    }

    /// Adds durations of which so many missed their deadline.
    pub fn against(
        &mut self,
        deadline: Deadline,
        missed: u64,
        prefix: &'static str,
        histogram: Cow<'a, Histogram>,
    ) {
        let calls = histogram.count();
        self.add(format!("{prefix}missed"), missed as f64, calls, None);
        if calls > 0 {
            let share = 100.0 * missed as f64 / calls as f64;
            self.add(format!("{prefix}missed.share"), share, calls, Some(share_bounds(missed, calls)));
        }
        self.times.push(Times {
            prefix,
            histogram,
            limit: Some(Limit { name: "deadline", ns: deadline.ns, beyond: missed }),
        });
    }

    /// Adds a figure that the test's description lists.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        samples: u64,
        bounds: Option<Bounds>,
    ) {
        self.numbers.push(Number { name: name.into(), value: value.into(), samples, bounds });
    }

    /// Adds the median of the rounds' values.
    pub fn rounds(&mut self, name: &str, values: impl Iterator<Item = f64>) {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let Some(median) = roundtrip_latency::quantile(&values, 0.5) else { return };
        let bounds = roundtrip_latency::median_interval(&values).map(Bounds::from);
        self.add(name, median, values.len() as u64, bounds);
    }

    /// Adds a ratio, if it is known.
    pub fn ratio(&mut self, name: &str, ratio: Option<Comparison>) {
        if let Some(ratio) = ratio {
            self.add(name, ratio.median, ratio.rounds as u64, ratio.interval.map(Bounds::from));
        }
    }

    /// The durations of whole calls: from when they were due, if they had a rate.
    #[must_use]
    pub fn calls(&self) -> Option<&Times<'a>> {
        let of = |prefix| self.times.iter().find(|times| times.prefix == prefix);
        of("response.").or_else(|| of(""))
    }

    /// Its name: the values of its labels.
    #[must_use]
    pub fn name(&self) -> String {
        let values: Vec<&str> = self.labels.iter().map(|(_, value)| value.as_str()).collect();
        values.join(", ")
    }
}

/// The 95% confidence interval of a share, in percent (Wilson, 1927). It also works for shares of
/// 0% and 100%.
fn share_bounds(part: u64, whole: u64) -> Bounds {
    let z = roundtrip_latency::Z_95;
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let at = |value: f64| (100.0 * value / (1.0 + z * z / n)).clamp(0.0, 100.0);
    Bounds { low: at(middle - half), high: at(middle + half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_none_or_all_has_an_interval_too() {
        let none = share_bounds(0, 100);
        assert!(none.low == 0.0 && (3.69..3.71).contains(&none.high), "{none:?}");
        let all = share_bounds(100, 100);
        assert!((96.29..96.31).contains(&all.low) && all.high == 100.0, "{all:?}");
        // The textbook example, 15 of 148.
        let some = share_bounds(15, 148);
        assert!((6.23..6.25).contains(&some.low) && (16.04..16.06).contains(&some.high), "{some:?}");
    }
}
