//! Statistics over repetitions, as Google Benchmark computes them by default (`src/statistics.cc`).

use std::collections::BTreeMap;

use super::{Counter, Row, RowKind};

/// A statistic over repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The median.
    Median,
    /// The standard deviation of a sample: the divisor is the number of repetitions minus one.
    Stddev,
    /// The standard deviation as a share of the mean.
    Cv,
}

impl Statistic {
    const ALL: [Self; 4] = [Self::Mean, Self::Median, Self::Stddev, Self::Cv];

    /// The suffix of the benchmark's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Stddev => "stddev",
            Self::Cv => "cv",
        }
    }

    fn of(self, values: &[f64]) -> f64 {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        match self {
            Self::Mean => mean,
            Self::Median => {
                let mut sorted = values.to_vec();
                sorted.sort_by(f64::total_cmp);
                let upper = sorted.len() / 2;
                if sorted.len() % 2 == 1 { sorted[upper] } else { (sorted[upper - 1] + sorted[upper]) / 2.0 }
            }
            Self::Stddev => {
                (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
            }
            Self::Cv if mean == 0.0 => 0.0,
            Self::Cv => Self::Stddev.of(values) / mean,
        }
    }
}

/// The length of the longest suffix of an aggregate's name: `_median`.
pub(super) const LONGEST_ENDING: usize = "_median".len();

/// The aggregates of one benchmark's repetitions; empty if fewer than two have figures.
#[must_use]
pub fn aggregates(repetitions: &[Row]) -> Vec<Row> {
    let good: Vec<&Row> = repetitions.iter().filter(|row| row.error.is_none()).collect();
    let [first, _, ..] = good[..] else { return Vec::new() };
    let column = |get: &dyn Fn(&Row) -> f64| good.iter().map(|row| get(row)).collect::<Vec<f64>>();
    let (real, cpu) = (column(&|row| row.real_time_ns), column(&|row| row.cpu_time_ns));
    // A figure has no aggregate if one of the repetitions lacks it.
    let counters: Vec<(&String, &Counter, Vec<f64>)> = first
        .counters
        .iter()
        .filter(|(name, _)| good.iter().all(|row| row.counters.contains_key(*name)))
        .map(|(name, counter)| (name, counter, column(&|row| row.counters[name].value)))
        .collect();
    let same_label = good.iter().all(|row| row.label == first.label);
    let aggregate = |statistic: Statistic| Row {
        kind: RowKind::Aggregate(statistic),
        iterations: repetitions.len() as u64,
        real_time_ns: statistic.of(&real),
        cpu_time_ns: statistic.of(&cpu),
        counters: counters
            .iter()
            .map(|(name, counter, values)| {
                ((*name).clone(), Counter { value: statistic.of(values), ..**counter })
            })
            .collect::<BTreeMap<_, _>>(),
        label: if same_label { first.label.clone() } else { String::new() },
        ..first.clone()
    };
    Statistic::ALL.into_iter().map(aggregate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_a_sample() {
        let values = [2.0, 4.0, 4.0, 10.0];
        assert_eq!(Statistic::Mean.of(&values), 5.0);
        assert_eq!((Statistic::Median.of(&values), Statistic::Median.of(&[3.0, 1.0, 2.0])), (4.0, 2.0));
        assert!((Statistic::Stddev.of(&values) - 12.0_f64.sqrt()).abs() < 1e-12);
        assert!((Statistic::Cv.of(&values) - 12.0_f64.sqrt() / 5.0).abs() < 1e-12);
        assert_eq!(Statistic::Cv.of(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn repetitions_that_failed_do_not_count_and_one_alone_has_no_statistics() {
        let row = |ns: f64, error: Option<&str>| Row {
            real_time_ns: ns,
            error: error.map(str::to_owned),
            ..Row::default()
        };
        assert!(aggregates(&[row(1.0, None), row(0.0, Some("died"))]).is_empty());
        let of_three = aggregates(&[row(1.0, None), row(0.0, Some("died")), row(3.0, None)]);
        assert_eq!(of_three.iter().map(|row| row.real_time_ns).take(2).collect::<Vec<_>>(), [2.0, 2.0]);
        assert_eq!(of_three.len(), 4);
    }

    #[test]
    fn labels_that_differ_are_dropped() {
        let row = |label: &str| Row { label: label.to_owned(), ..Row::default() };
        assert_eq!(aggregates(&[row("a"), row("a")])[0].label, "a");
        assert_eq!(aggregates(&[row("a"), row("b")])[0].label, "");
    }
}
