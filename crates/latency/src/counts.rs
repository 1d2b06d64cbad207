//! Compares how often something rare happened in two numbers of calls, for example how many missed
//! their deadline. Measures nothing.
//!
//! Rare events come in clumps: one disturbance delays several calls. So [`CLUMP`] events count as
//! one independent event.

use crate::two_samples::Shift;

/// How much more the number of rare events varies than if each came by itself: its variance divided
/// by its mean. Clumps with a geometric distribution and a mean of 15.5 events have this one.
pub const CLUMP: f64 = 30.0;

/// The error probability of the interval.
const ERROR: f64 = 0.05;

/// The quantile of the normal distribution that goes with it.
const Z: f64 = 1.959_963_985;

/// From how many events on their number is taken as normally distributed.
const MANY: f64 = 1e6;

/// Events among calls, of one or more runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events {
    /// How often it happened.
    pub events: u64,
    /// Of how many calls.
    pub calls: u64,
}

/// Compares the shares of two sides. `allowed` is by how much the true shares may differ without a
/// difference between the sides: 2 means that one may be twice the other. The interval and the
/// probability allow for that.
///
/// Given the sum of both counts, the subject's count has a binomial distribution (J. Przyborowski
/// and H. Wilenski, 1940). The interval is that of C. J. Clopper and E. S. Pearson (1934), with
/// counts divided by [`CLUMP`]. `None` without calls, or if nothing happened on either side.
#[must_use]
pub fn shares(subject: Events, baseline: Events, allowed: f64) -> Option<Shift> {
    if subject.calls == 0 || baseline.calls == 0 || subject.events + baseline.events == 0 {
        return None;
    }
    let [s, b] = [subject, baseline].map(|side| side.events as f64 / CLUMP);
    let calls = subject.calls as f64 / baseline.calls as f64;
    // The probability that an event is one of the subject's, if events are `ratio` times as
    // frequent there.
    let of_subject = |ratio: f64| ratio * calls / (1.0 + ratio * calls);
    let ratio_of = |of_subject: f64| of_subject / (1.0 - of_subject) / calls;
    let at_least = |share: f64| if s > 0.0 { beta(s, b + 1.0, share) } else { 1.0 };
    let at_most = |share: f64| if b > 0.0 { 1.0 - beta(s + 1.0, b, share) } else { 1.0 };
    let p = 2.0 * at_least(of_subject(allowed)).min(at_most(of_subject(1.0 / allowed)));
    let low = if s > 0.0 { ratio_of(bisect(|share| at_least(share) < ERROR / 2.0)) } else { 0.0 };
    let high = if b > 0.0 { ratio_of(bisect(|share| at_most(share) > ERROR / 2.0)) } else { f64::INFINITY };
    // One half is added to a count, so that there is a ratio if one of them is 0.
    let ratio = (subject.events as f64 + 0.5) / (baseline.events as f64 + 0.5) / calls;
    Some(Shift { ratio, interval: Some((low / allowed, high * allowed)), p: p.min(1.0) })
}

/// The 95% interval of the number of events in as many calls again, if nothing changes: from what
/// number of events on the two would differ, by the same test as in [`shares`]. `events` may be an
/// estimate. `clump` is the variance of their number divided by its mean: 1 if each comes alone.
#[must_use]
pub fn again(events: f64, clump: f64) -> (f64, f64) {
    let known = events.max(0.0) / clump;
    if known >= MANY {
        // Where the difference is Z times its own standard deviation.
        let apart = |sign: f64| (Z * Z + sign * Z * (Z * Z + 8.0 * known).sqrt()) / 2.0;
        return whole((known + apart(-1.0)) * clump, (known + apart(1.0)) * clump);
    }
    let below = |others: f64| beta(known, others + 1.0, 0.5) < ERROR / 2.0;
    let above = |others: f64| others > 0.0 && 1.0 - beta(known + 1.0, others, 0.5) < ERROR / 2.0;
    // Far beyond the end of the interval.
    let most = 4.0 * known + 50.0;
    let low = if known > 0.0 && below(0.0) { bisect(|share| below(share * most)) * most } else { 0.0 };
    let high = bisect(|share| !above(share * most)) * most;
    whole(low * clump, high * clump)
}

/// The whole numbers at the ends of an interval. Inaccuracy must not exclude one.
fn whole(low: f64, high: f64) -> (f64, f64) {
    const NOTHING: f64 = 1e-6;
    ((low - NOTHING).ceil().max(0.0), (high + NOTHING).floor())
}

/// The share from 0 to 1 up to which `below` is true.
fn bisect(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low
}

/// The regularized incomplete beta function, by its continued fraction (M. Abramowitz and
/// I. A. Stegun, 26.5.8).
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast only below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_below_mean(b, a, 1.0 - x);
    }
    beta_below_mean(a, b, x)
}

fn beta_below_mean(a: f64, b: f64, x: f64) -> f64 {
    const MAX_TERMS: usize = 100_000;
    const TINY: f64 = 1e-300;
    let not_0 = |value: f64| if value.abs() < TINY { TINY } else { value };
    // The method of W. J. Lentz (1976).
    let mut c = 1.0;
    let mut d = 1.0 / not_0(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..MAX_TERMS {
        let m = term as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for step in [even, odd] {
            d = 1.0 / not_0(1.0 + step * d);
            c = not_0(1.0 + step / c);
            fraction *= d * c;
        }
        if (fraction / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    let ln = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    (ln.exp() * fraction / a).clamp(0.0, 1.0)
}

/// The logarithm of the gamma function of a positive value, by Stirling's series (M. Abramowitz and
/// I. A. Stegun, 6.1.41), which is exact enough from 15 on.
fn ln_gamma(value: f64) -> f64 {
    let (mut x, mut less) = (value, 0.0);
    while x < 15.0 {
        less += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / x;
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series - less
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(events: u64, calls: u64) -> Events {
        Events { events, calls }
    }

    #[test]
    fn the_beta_function_matches_binomial_sums() {
        // P(X >= 3) of 10 with 0.3 is 1 - 0.382783; P(X >= 1) is 1 - 0.7^10.
        assert!((beta(3.0, 8.0, 0.3) - 0.617_217_2).abs() < 1e-7);
        assert!((beta(1.0, 10.0, 0.3) - (1.0 - 0.7_f64.powi(10))).abs() < 1e-12);
        assert!((beta(50_000.0, 50_000.0, 0.5) - 0.5).abs() < 1e-9);
        // ln 0.5! and ln 99!.
        assert!((ln_gamma(1.5) + 0.120_782_237_635).abs() < 1e-11);
        assert!((ln_gamma(100.0) - 359.134_205_369_575).abs() < 1e-10);
    }

    #[test]
    fn two_misses_against_821_are_a_difference_and_few_misses_are_none() {
        let found = shares(of(821, 222_846), of(2, 851_153), 2.0).unwrap();
        assert!(found.p < 1e-4 && found.interval.unwrap().0 > 10.0, "{found:?}");
        let back = shares(of(2, 851_153), of(821, 222_846), 2.0).unwrap();
        assert!(back.p < 1e-4 && back.interval.unwrap().1 < 0.1, "{back:?}");
        // As many per call, and one clump on one side only.
        assert_eq!(shares(of(4000, 1_000_000), of(1000, 250_000), 2.0).unwrap().p, 1.0);
        assert!(shares(of(40, 100_000), of(0, 100_000), 2.0).unwrap().p > 0.05);
        assert_eq!(shares(of(0, 10), of(0, 1000), 2.0), None);
        assert_eq!(shares(of(0, 0), of(5, 1000), 2.0), None);
    }

    #[test]
    fn as_many_calls_again_have_about_as_many_events() {
        assert_eq!(again(0.0, 1.0), (0.0, 5.0), "0.5^5 is above 2.5%, 0.5^6 is not");
        assert_eq!(again(5.0, 1.0).0, 0.0);
        assert_eq!(again(6.0, 1.0).0, 1.0);
        let (low, high) = again(100.0, 1.0);
        assert!((70.0..78.0).contains(&low) && (126.0..134.0).contains(&high), "{low} {high}");
        let (clumped_low, clumped_high) = again(100.0, 10.0);
        assert!(clumped_low < 35.0 && clumped_high > 180.0, "{clumped_low} {clumped_high}");
        let (low, high) = again(1e6, 1.0);
        assert!((low - 997_230.0).abs() < 20.0 && (high - 1_002_775.0).abs() < 20.0, "{low} {high}");
        // Almost the same without the normal distribution.
        let (fewer_low, fewer_high) = again(999_999.0, 1.0);
        assert!((low - fewer_low).abs() < 5.0 && (high - fewer_high).abs() < 5.0, "{low} {high}");
        let (low, high) = again(1e18, 1.0);
        assert!(1e18 - low < 3e9 && high - 1e18 < 3e9 && low < 1e18 && high > 1e18, "{low} {high}");
    }

    proptest! {
        #[test]
        fn the_interval_and_the_probability_agree_from_both_sides(
            s in 0_u64..100_000, b in 0_u64..100_000, more in 0_u64..1_000_000, allowed in 1.0_f64..4.0,
        ) {
            prop_assume!(s + b > 0);
            let (subject, baseline) = (of(s, s + more + 1), of(b, b + 500_000));
            let found = shares(subject, baseline, allowed).unwrap();
            let back = shares(baseline, subject, allowed).unwrap();
            prop_assert!((found.p - back.p).abs() < 1e-6, "{found:?} {back:?}");
            let (low, high) = found.interval.unwrap();
            prop_assert!(low <= found.ratio && found.ratio <= high, "{found:?}");
            // Leaves out the values at which rounding decides.
            if (found.p - 0.05).abs() > 1e-6 {
                prop_assert_eq!(found.p < 0.05, low > 1.0 || high < 1.0, "{:?}", found);
            }
        }
    }

    /// Equal shares, in clumps of geometric sizes, and with shares that differ from run to run.
    #[test]
    fn equal_shares_seldom_differ_though_their_events_come_in_clumps() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut events = |mean: f64, drift: f64| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let mean_size = (CLUMP + 1.0) / 2.0;
            let mut left = mean / mean_size * (drift * normal).exp();
            let mut events = 0;
            loop {
                left += uniform().ln();
                if left < 0.0 {
                    return events;
                }
                events += 1;
                while uniform() > 1.0 / mean_size {
                    events += 1;
                }
            }
        };
        // Shares within the allowance of each other in 19 of 20 pairs of runs.
        let drift = 2.0_f64.ln() / (1.96 * 2.0_f64.sqrt());
        for mean in [3.0, 30.0, 300.0, 3000.0] {
            for (calls, drift) in [(1.0, 0.0), (0.2, 0.0), (1.0, drift), (0.2, drift)] {
                let mut alarms = 0;
                for _ in 0..400 {
                    let subject = of(events(mean * calls, drift), (1e6 * calls) as u64);
                    let found = shares(subject, of(events(mean, drift), 1_000_000), 2.0);
                    alarms += u32::from(found.is_some_and(|found| found.p <= ERROR));
                }
                // 5% of 400 are 20, with a standard deviation of 4.4.
                assert!(alarms <= 33, "{mean} events, {calls} times the calls, {drift}: {alarms} of 400");
            }
        }
    }
}
