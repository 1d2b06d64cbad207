//! Compares two interleaved series of rounds. A machine's speed drifts from minute to minute, so
//! the ratio is computed for each round, and its spread is reported too. Measures nothing.

use serde::{Deserialize, Serialize};

use crate::Error;

/// The ratio of a subject to a baseline over interleaved rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Rounds in each series.
    pub rounds: usize,
    /// Median of the subject's rounds in nanoseconds.
    pub subject_ns: f64,
    /// Median of the baseline's rounds in nanoseconds.
    pub baseline_ns: f64,
    /// `subject_ns / baseline_ns`.
    pub ratio: f64,
    /// First quartile of the per-round ratios.
    pub q1: f64,
    /// Median of the per-round ratios.
    pub median: f64,
    /// Third quartile of the per-round ratios.
    pub q3: f64,
    /// The confidence interval of the median of the per-round ratios. `None` for fewer than 6
    /// rounds, which are too few for 95%.
    pub interval: Option<Interval>,
}

/// A confidence interval of a median, from order statistics. It assumes independent rounds, but no
/// distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The probability, 0–1, that the interval contains the median; at least 0.95.
    pub coverage: f64,
}

impl Comparison {
    /// Compares two series of the same length. Each value is a round's duration in nanoseconds, for
    /// example its median.
    ///
    /// # Errors
    /// [`Error::Rounds`] if the lengths differ, [`Error::NoRounds`] if they are 0,
    /// [`Error::NotPositive`] if a duration is not positive and finite.
    pub fn of_rounds(subject_ns: &[f64], baseline_ns: &[f64]) -> Result<Self, Error> {
        if subject_ns.len() != baseline_ns.len() {
            return Err(Error::Rounds { subject: subject_ns.len(), baseline: baseline_ns.len() });
        }
        for (round, &value_ns) in subject_ns.iter().enumerate().chain(baseline_ns.iter().enumerate()) {
            if !value_ns.is_finite() || value_ns <= 0.0 {
                return Err(Error::NotPositive { round, value_ns });
            }
        }
        let ratios = sorted(subject_ns.iter().zip(baseline_ns).map(|(s, b)| s / b));
        let median_of =
            |values: &[f64]| quantile(&sorted(values.iter().copied()), 0.5).ok_or(Error::NoRounds);
        let (subject_ns, baseline_ns) = (median_of(subject_ns)?, median_of(baseline_ns)?);
        let at = |q| quantile(&ratios, q).ok_or(Error::NoRounds);
        Ok(Self {
            rounds: ratios.len(),
            subject_ns,
            baseline_ns,
            ratio: subject_ns / baseline_ns,
            q1: at(0.25)?,
            median: at(0.5)?,
            q3: at(0.75)?,
            interval: median_interval(&ratios),
        })
    }
}

/// The `q` (0–1) quantile of ascending values, interpolated linearly; `None` without values.
#[must_use]
pub fn quantile(ascending: &[f64], q: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(ascending[below] + (ascending[above] - ascending[below]) * (at - below as f64))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The narrowest symmetric pair of order statistics whose interval contains the median with at
/// least 95% probability. The values are ascending. `None` for fewer than six values. The number of
/// values below the median has a binomial (n, ½) distribution. So leaving out the k outer values on
/// each side has the error probability 2 P(X < k + 1).
#[must_use]
pub fn median_interval(ascending: &[f64]) -> Option<Interval> {
    const OUTSIDE: f64 = 0.05;
    let n = ascending.len();
    // Uses logarithms, because ½ⁿ underflows from n = 1075 on.
    let mut ln_term = n as f64 * 0.5_f64.ln();
    let mut below = 0.0;
    let mut best = None;
    for k in 0..n / 2 {
        below += ln_term.exp();
        if 2.0 * below > OUTSIDE {
            break;
        }
        best = Some(Interval { low: ascending[k], high: ascending[n - 1 - k], coverage: 1.0 - 2.0 * below });
        ln_term += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_of_both_series_does_not_change_the_ratio() {
        let baseline: Vec<f64> = (0..20).map(|round| 2000.0 + 100.0 * f64::from(round)).collect();
        let subject: Vec<f64> = baseline.iter().map(|ns| ns * 1.5).collect();
        let comparison = Comparison::of_rounds(&subject, &baseline).expect("two good series");
        for value in [comparison.ratio, comparison.q1, comparison.median, comparison.q3] {
            assert!((value - 1.5).abs() < 1e-12, "{comparison:?}");
        }
    }

    #[test]
    fn the_interval_matches_the_textbook() {
        // n = 10 leaves out one value on each side: 1 − 2 (1 + 10)/1024 = 0.978515625.
        let ratios: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = median_interval(&ratios).expect("10 rounds are enough");
        assert_eq!((interval.low, interval.high), (2.0, 9.0));
        assert!((interval.coverage - 0.978_515_625).abs() < 1e-12);
    }

    #[test]
    fn an_interval_needs_six_rounds() {
        assert_eq!(median_interval(&[1.0; 5]), None);
        assert!(median_interval(&[1.0; 6]).is_some_and(|i| i.coverage > 0.95));
    }

    #[test]
    fn many_rounds_narrow_the_interval_without_underflow() {
        let ratios: Vec<f64> = (0..5000).map(f64::from).collect();
        let interval = median_interval(&ratios).expect("enough rounds");
        assert!(interval.low > 2400.0 && interval.high < 2600.0 && interval.coverage < 0.96, "{interval:?}");
    }

    #[test]
    fn series_that_cannot_be_compared_are_refused() {
        assert_eq!(Comparison::of_rounds(&[], &[]), Err(Error::NoRounds));
        assert_eq!(Comparison::of_rounds(&[1.0], &[]), Err(Error::Rounds { subject: 1, baseline: 0 }));
        assert_eq!(
            Comparison::of_rounds(&[1.0, 1.0], &[1.0, 0.0]),
            Err(Error::NotPositive { round: 1, value_ns: 0.0 })
        );
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
