//! Compares two sets of repetitions by ranks. Assumes independent repetitions, but no distribution.
//! Measures nothing.

use crate::Z_95;
use crate::comparison::quantile;

/// The error probability of every interval in this file.
const ERROR: f64 = 0.05;

/// Above this number of repetitions per side, a normal distribution approximates that of the ranks.
const COUNTED: usize = 60;

/// The ratio of a subject to a baseline, from repetitions of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The estimate of J. L. Hodges and E. L. Lehmann (1963): the median of the ratios of all pairs
    /// of a subject's and a baseline's repetition.
    pub ratio: f64,
    /// The 95% confidence interval; `None` if there are too few repetitions.
    pub interval: Option<(f64, f64)>,
    /// The probability, 0–1, of at least this difference by chance.
    pub p: f64,
}

/// Compares independent repetitions by the test of H. B. Mann and D. R. Whitney (1947), with its
/// interval. `None` without repetitions, or if a value is not above 0.
#[must_use]
pub fn independent(subject: &[f64], baseline: &[f64]) -> Option<Shift> {
    let ratios = ascending(subject.iter().flat_map(|s| baseline.iter().map(move |b| s / b)))?;
    let (m, n) = (subject.len(), baseline.len());
    // The number of pairs in which the subject is larger. A tie counts as one half.
    let larger = ratios.iter().filter(|&&ratio| ratio > 1.0).count() as f64;
    let ties = ratios.iter().filter(|&&ratio| ratio == 1.0).count() as f64;
    let u = larger + ties / 2.0;
    let pairs = (m * n) as f64;
    let tail = u.min(pairs - u);
    let (p, outside) = if m.max(n) <= COUNTED {
        let counts = rank_sums(m, n);
        (two_sided(&counts, tail), outermost(&counts))
    } else {
        let (mean, sd) = (pairs / 2.0, (pairs * (m + n + 1) as f64 / 12.0).sqrt());
        normal(mean, sd, tail)
    };
    shift(&ratios, p, outside)
}

/// Compares paired repetitions by the signed-rank test of F. Wilcoxon (1945), with its interval.
/// `None` without repetitions, if the lengths differ, or if a value is not above 0.
#[must_use]
pub fn paired(subject: &[f64], baseline: &[f64]) -> Option<Shift> {
    if subject.len() != baseline.len() {
        return None;
    }
    let logs: Vec<f64> = ascending(subject.iter().zip(baseline).map(|(s, b)| s / b))?;
    let logs: Vec<f64> = logs.iter().map(|ratio| ratio.ln()).collect();
    let n = logs.len();
    // Walsh averages. The number of those above 0 is the sum of the positive ranks.
    let averages =
        logs.iter().enumerate().flat_map(|(at, one)| logs[at..].iter().map(move |two| (one + two) / 2.0));
    let averages: Vec<f64> = averages.collect();
    let larger = averages.iter().filter(|&&average| average > 0.0).count() as f64;
    let ties = averages.iter().filter(|&&average| average == 0.0).count() as f64;
    let w = larger + ties / 2.0;
    let most = averages.len() as f64;
    let tail = w.min(most - w);
    let (p, outside) = if n <= COUNTED {
        let counts = signed_ranks(n);
        (two_sided(&counts, tail), outermost(&counts))
    } else {
        let (mean, sd) = (most / 2.0, ((n * (n + 1) * (2 * n + 1)) as f64 / 24.0).sqrt());
        normal(mean, sd, tail)
    };
    let ratios = ascending(averages.into_iter().map(f64::exp))?;
    shift(&ratios, p, outside)
}

fn shift(ratios: &[f64], p: f64, outside: Option<usize>) -> Option<Shift> {
    let ratio = quantile(ratios, 0.5)?;
    let interval =
        outside.and_then(|k| Some((*ratios.get(k)?, *ratios.get(ratios.len().checked_sub(k + 1)?)?)));
    Some(Shift { ratio, interval: interval.filter(|(low, high)| low <= high), p })
}

/// Sorts the values. `None` if there are none, or if a value cannot be a ratio of durations.
fn ascending(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0)).then_some(values)
}

/// The distribution of the rank statistic for `m` and `n` values. Element i is the probability that
/// the value of the first set is larger in exactly i of all pairs.
fn rank_sums(m: usize, n: usize) -> Vec<f64> {
    // By induction over the largest value. If it belongs to the first set, it is larger in all of
    // its pairs. Otherwise it is larger in none.
    let mut table = vec![vec![1.0]; n + 1];
    for first in 1..=m {
        let mut row: Vec<Vec<f64>> = vec![vec![1.0]];
        for second in 1..=n {
            let mut ways = vec![0.0; first * second + 1];
            // The largest of first + second values belongs to the first set with this probability.
            let (of_first, of_second) = (first as f64, second as f64);
            for (at, share) in table[second].iter().enumerate() {
                ways[at + second] += share * of_first / (of_first + of_second);
            }
            for (at, share) in row[second - 1].iter().enumerate() {
                ways[at] += share * of_second / (of_first + of_second);
            }
            row.push(ways);
        }
        table = row;
    }
    table.pop().unwrap_or_default()
}

/// The distribution of the signed-rank statistic for the ranks 1 to `n`. Element i is the
/// probability that the positive ranks have the sum i.
fn signed_ranks(n: usize) -> Vec<f64> {
    let mut ways = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; ways.len() + rank];
        for (sum, share) in ways.iter().enumerate() {
            next[sum] += share / 2.0;
            next[sum + rank] += share / 2.0;
        }
        ways = next;
    }
    ways
}

/// The probability of a statistic at least as extreme as `tail`, on either side. A half, from a
/// tie, is rounded up, which makes the probability larger.
fn two_sided(shares: &[f64], tail: f64) -> f64 {
    let below: f64 = shares.iter().take(tail.ceil() as usize + 1).sum();
    (2.0 * below).min(1.0)
}

/// How many of the ordered ratios the interval leaves out on each side. `None` if even an interval
/// of all ratios exceeds the error probability.
fn outermost(shares: &[f64]) -> Option<usize> {
    let mut below = 0.0;
    let mut outside = None;
    for (at, share) in shares.iter().enumerate() {
        below += share;
        if 2.0 * below > ERROR {
            break;
        }
        outside = Some(at);
    }
    outside
}

fn normal(mean: f64, sd: f64, tail: f64) -> (f64, Option<usize>) {
    let outside = (mean - Z_95 * sd - 1.0).max(0.0) as usize;
    (2.0 * below_normal((tail + 0.5 - mean) / sd).min(0.5), Some(outside))
}

/// The value below which a standard normal variable lies with this probability, between 0 and 1.
#[must_use]
pub fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below_normal(middle) < probability { low = middle } else { high = middle }
    }
    low
}

/// The normal distribution's probability below `z` (M. Abramowitz and I. A. Stegun, 7.1.26; error
/// below 2e-7).
fn below_normal(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let above = polynomial * (-x * x).exp() / 2.0;
    if z < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_distributions_match_the_textbook() {
        // Mann and Whitney's table: P(U <= 1) for 4 and 4 is 0.029, for 3 and 3 P(U = 0) is 0.05.
        let four = rank_sums(4, 4);
        assert!((four.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((four[0] - 1.0 / 70.0).abs() < 1e-12 && (four[0] + four[1] - 2.0 / 70.0).abs() < 1e-12);
        assert!((rank_sums(3, 3)[0] - 0.05).abs() < 1e-12);
        // Wilcoxon's: P(W <= 2) for 6 is 3/64.
        let six: f64 = signed_ranks(6)[..3].iter().sum();
        assert!((six - 3.0 / 64.0).abs() < 1e-12);
        assert!(
            (below_normal(-1.959_964) - 0.025).abs() < 1e-6 && (below_normal(1.0) - 0.841_345).abs() < 1e-6
        );
        assert!((normal_quantile(0.975) - Z_95).abs() < 1e-4 && normal_quantile(0.5).abs() < 1e-4);
    }

    #[test]
    fn as_few_as_four_repetitions_have_an_interval_and_three_do_not() {
        let base = [100.0, 101.0, 102.0, 103.0];
        let more = base.map(|value| value * 1.1);
        let found = independent(&more, &base).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((found.ratio - 1.1).abs() < 0.01 && low > 1.0 && high < 1.2, "{found:?}");
        assert!((found.p - 2.0 / 70.0).abs() < 1e-12, "{found:?}");
        assert_eq!(independent(&more[..3], &base[..3]).unwrap().interval, None);
        assert_eq!(paired(&more, &base).unwrap().interval, None);
        let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let doubled = paired(&six.map(|value| value * 2.0), &six).unwrap();
        let (low, high) = doubled.interval.unwrap();
        assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9 && doubled.p < 0.05, "{doubled:?}");
    }

    #[test]
    fn missing_and_invalid_repetitions_give_no_comparison() {
        assert_eq!(independent(&[], &[1.0]), None);
        assert_eq!(independent(&[1.0, 0.0], &[1.0]), None);
        assert_eq!(paired(&[1.0], &[1.0, 2.0]), None);
        let same = independent(&[5.0; 6], &[5.0; 6]).unwrap();
        assert_eq!((same.ratio, same.interval, same.p), (1.0, Some((1.0, 1.0)), 1.0));
    }

    struct Dice(u64);
    impl Dice {
        fn uniform(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Approximately normal, with standard deviation 1.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        fn values(&mut self, count: usize, mean: f64, spread: f64) -> Vec<f64> {
            (0..count).map(|_| mean * (spread * self.normal()).exp()).collect()
        }
    }

    #[test]
    fn without_a_difference_at_most_5_of_100_comparisons_see_one() {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for count in [4, 8, 20, 70] {
            let (mut by_p, mut by_interval, mut by_pairs) = (0, 0, 0);
            for _ in 0..400 {
                let (a, b) = (dice.values(count, 100.0, 0.1), dice.values(count, 100.0, 0.1));
                let found = independent(&a, &b).unwrap();
                let (low, high) = found.interval.unwrap();
                by_p += u32::from(found.p <= 0.05);
                by_interval += u32::from(!(low..=high).contains(&1.0));
                by_pairs += u32::from(paired(&a, &b).unwrap().p <= 0.05);
            }
            // 5% of 400 are 20, with a standard deviation of 4.4.
            assert!(
                by_p <= 33 && by_interval <= 33 && by_pairs <= 33,
                "{count}: {by_p} {by_interval} {by_pairs}"
            );
        }
    }

    #[test]
    fn ten_repetitions_with_a_spread_of_3_percent_show_a_difference_of_5_percent() {
        let mut dice = Dice(7);
        let mut seen = 0;
        for _ in 0..200 {
            let (new, base) = (dice.values(10, 105.0, 0.03), dice.values(10, 100.0, 0.03));
            seen += u32::from(independent(&new, &base).unwrap().interval.unwrap().0 > 1.0);
        }
        assert!(seen >= 170, "{seen} of 200");
    }
}
