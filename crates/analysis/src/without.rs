//! What fixing a cause would bring: of as many operations again, how many would miss their
//! deadline, and what their p99.9 and the worst would be. Must not know how causes are found or
//! shown.
//!
//! Each slow operation would have taken what it lost to the cause less, and all others as long as
//! they did. So nothing is known about operations that met the deadline, nor about a cause that
//! only shows once another is gone.

use std::collections::BTreeMap;

use roundtrip_latency::{Histogram, counts, resolvable};
use roundtrip_layers::reasons::{Across, ReasonKind, Row, Subject, Timed};
use serde::Serialize;

/// The most causes for which this is said.
const MOST: usize = 5;

/// The percentile that is predicted.
pub const PERCENT: f64 = 99.9;

/// From how many of the longest operations the maximum is extrapolated. The largest result counts.
const LONGEST: [f64; 4] = [5.0, 10.0, 20.0, 50.0];

/// By how much durations of the same thing differ from one run to the next, at most: by this share.
const RUNS_DIFFER: f64 = 0.12;

/// The largest share of the operations' time that counts as lost to one cause.
const MOST_FREED: f64 = 0.9;

/// The probability that the maximum exceeds the extrapolated one.
const BEYOND: f64 = 0.025;

/// All operations, slow or not.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Their durations.
    pub durations: &'a Histogram,
    /// The deadline in nanoseconds, and how many of them missed it; `None` if the causes are those
    /// of the slowest ones, whether they missed it or not.
    pub missed: Option<(u64, u64)>,
    /// How long the measurement took, in nanoseconds; 0 if that is not known.
    pub elapsed_ns: u64,
}

/// A prediction with its 95% interval: a number of operations, or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// The prediction.
    pub estimate: u64,
    /// The lower end of the interval.
    pub low: u64,
    /// The upper end of the interval.
    pub high: u64,
}

/// What would be left without a cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// The kind of the cause.
    pub kind: ReasonKind,
    /// Who or what it is.
    pub subject: Subject,
    /// How many of as many operations would miss the deadline; `None` if that is not known.
    pub missed: Option<Expected>,
    /// [`PERCENT`] of them would not take longer, in nanoseconds; `None` if there are too few.
    pub tail_ns: Option<Expected>,
    /// How long the worst one would take, in nanoseconds.
    pub worst_ns: Expected,
}

/// Predicts what would be left without each of the main causes, sorted by the time lost to them.
/// Empty if the sums have no durations.
#[must_use]
pub fn without(across: &Across, whole: Whole<'_>) -> Vec<Left> {
    let can_go =
        |row: &&Row| row.operations > 0 && row.kind != ReasonKind::Unknown && !row.without.took.is_empty();
    across.rows().into_iter().filter(can_go).take(MOST).map(|row| left(row, across, whole)).collect()
}

fn left(row: &Row, across: &Across, whole: Whole<'_>) -> Left {
    let (timed, saved) = (across.timed(), &row.without.saved);
    let clump = timed.missed.clumps(saved, whole.elapsed_ns);
    let [likely, at_most] = Distribution::without(row, timed, whole);
    Left {
        kind: row.kind,
        subject: row.subject.clone(),
        missed: whole.missed.map(|(_, all)| {
            // Those whose cause is not known are like the others, and for the upper end, they stay.
            let (all, saved) = (all as f64, saved.sum() as f64);
            let times = all / timed.known.count().max(1) as f64;
            let likely = (all - saved * times).max(0.0);
            let at_most = (all - saved).max(0.0) / (1.0 - freed(row, times, whole));
            let (low, high) = (counts::again(likely, clump).0, counts::again(at_most, clump).1);
            Expected { estimate: likely.round() as u64, low: low as u64, high: high as u64 }
        }),
        tail_ns: likely.tail(&at_most, clump),
        worst_ns: likely.worst(&at_most, clump),
    }
}

/// Which share of the operations' time the cause took, if each that is known stands for so many. In
/// this time there may be more operations, and other causes delay more of them.
fn freed(row: &Row, times: f64, whole: Whole<'_>) -> f64 {
    let lost_ns = row.without.took.sum_ns().saturating_sub(row.without.would_take.sum_ns());
    let time_ns = whole.durations.sum_ns().max(whole.elapsed_ns).max(1);
    (lost_ns as f64 * times / time_ns as f64).min(MOST_FREED)
}

/// Durations without a cause, the longest first: the highest value of a bucket in nanoseconds, and
/// the number of durations, which is an estimate.
struct Distribution {
    longest: Vec<(u64, f64)>,
    count: u64,
}

impl Distribution {
    /// The likely durations, and those for upper ends. Slow operations whose cause is not known are
    /// like the others; for upper ends, those stay that took longer than all whose cause is known.
    fn without(row: &Row, timed: &Timed, whole: Whole<'_>) -> [Self; 2] {
        let mut likely: BTreeMap<u64, f64> = BTreeMap::new();
        add(&mut likely, whole.durations, 1.0);
        let slow = match whole.missed {
            Some((deadline_ns, missed)) => {
                // The bucket with the deadline may have some that missed it.
                likely.retain(|ns, _| *ns <= deadline_ns);
                missed as f64
            }
            None => {
                add(&mut likely, &timed.known, -1.0);
                add(&mut likely, &timed.unknown, -1.0);
                timed.known.count() as f64 + timed.unknown.count() as f64
            }
        };
        let times = slow / timed.known.count().max(1) as f64;
        add(&mut likely, &timed.known, times);
        add(&mut likely, &row.without.took, -times);
        add(&mut likely, &row.without.would_take, times);
        let longest_known_ns = timed.known.buckets().last().map_or(0, |(ns, _)| ns);
        let mut at_most = likely.clone();
        for (ns, count) in whole.durations.buckets().filter(|(ns, _)| *ns > longest_known_ns) {
            let of = at_most.entry(ns).or_default();
            *of = of.max(count as f64);
        }
        [likely, at_most].map(|buckets| Self {
            // Less than half of a duration is none.
            longest: buckets.into_iter().rev().filter(|(_, count)| *count >= 0.5).collect(),
            count: whole.durations.count(),
        })
    }

    /// The duration of the `rank`-th longest, counted from 1, in nanoseconds. The shortest if there
    /// are not so many.
    fn ranked(&self, rank: f64) -> u64 {
        let mut sum = 0.0;
        let longest = self.longest.iter().find(|(_, count)| {
            sum += count;
            sum >= rank - 1e-6
        });
        longest.or(self.longest.last()).map_or(0, |(ns, _)| *ns)
    }

    /// The longest one of as many operations again. `at_most` is the distribution of the upper end.
    fn worst(&self, at_most: &Self, clump: f64) -> Expected {
        let estimate = self.ranked(1.0);
        let low = self.ranked(least(|events| counts::again(events, clump).0 > 0.0));
        let high = at_most.most();
        durations(estimate, low, high)
    }

    /// What seldom one of as many operations again exceeds, in nanoseconds.
    fn most(&self) -> u64 {
        LONGEST.iter().map(|&number| self.beyond(number)).max().unwrap_or(0)
    }

    /// What seldom one of as many operations again exceeds, if the longest ones exceed a duration
    /// by an exponentially distributed time, as most tails do.
    fn beyond(&self, number: f64) -> u64 {
        let from_ns = self.ranked(number + 1.0);
        let (mut sum_ns, mut count) = (0.0, 0.0);
        for (ns, of) in self.longest.iter().take_while(|(ns, _)| *ns > from_ns) {
            sum_ns += (ns - from_ns) as f64 * of;
            count += of;
        }
        if count < 1.0 {
            return self.ranked(1.0);
        }
        from_ns.saturating_add((sum_ns / count * (count / BEYOND).ln()) as u64).max(self.ranked(1.0))
    }

    /// The percentile of as many operations again.
    fn tail(&self, at_most: &Self, clump: f64) -> Option<Expected> {
        if !resolvable(self.count, PERCENT) {
            return None;
        }
        // So many may take longer than the percentile.
        let longer = (self.count as f64 * (100.0 - PERCENT) / 100.0 * (1.0 + 1e-12)).floor();
        let estimate = self.ranked(longer + 1.0);
        let low = self.ranked(least(|events| counts::again(events, clump).0 > longer));
        let fewer = least(|events| counts::again(events, clump).1 > longer);
        // Even none in this run may be too many in the next.
        let high = if fewer > 0.0 { at_most.ranked(fewer) } else { at_most.most() };
        Some(durations(estimate, low, high))
    }
}

/// Adds a multiple of a histogram's counts to those in the buckets.
fn add(buckets: &mut BTreeMap<u64, f64>, part: &Histogram, times: f64) {
    for (ns, count) in part.buckets() {
        *buckets.entry(ns).or_default() += count as f64 * times;
    }
}

/// A prediction of a duration from the ends of its interval, if both runs were equally fast.
fn durations(estimate: u64, low: u64, high: u64) -> Expected {
    let low = low.min(estimate) as f64 / (1.0 + RUNS_DIFFER);
    Expected { estimate, low: low as u64, high: (high.max(estimate) as f64 * (1.0 + RUNS_DIFFER)) as u64 }
}

/// The least whole number for which this holds. It holds for all larger ones.
fn least(holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let (mut not, mut does) = (0.0, 1.0);
    while !holds(does) {
        (not, does) = (does, does * 2.0);
    }
    while does - not > 1.0 {
        let middle = ((not + does) / 2.0_f64).floor();
        if holds(middle) { does = middle } else { not = middle }
    }
    does
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::reasons::Class;
    use roundtrip_layers::reasons::{Operation, Process, Reason, Reasons, Role, Stretch, Why};

    use super::*;

    const DEADLINE_NS: u64 = 2_000_000;

    /// Calls of 100 us, every 20th behind `hog` for 5 ms, and every 50th asleep for 3 ms.
    fn measured(calls: u64, with_hog: bool, recorded: impl Fn(u64) -> bool) -> (Across, Histogram, u64) {
        let (mut across, mut durations, mut missed) = (Across::default(), Histogram::growing(), 0);
        for call in 0..calls {
            let hog_ns = if with_hog && call % 20 == 7 { 5_000_000 } else { 0 };
            let sleep_ns = if call % 50 == 19 { 3_000_000 + call * 10 } else { 0 };
            let duration_ns = 100_000 + hog_ns + sleep_ns;
            durations.record(duration_ns);
            if duration_ns <= DEADLINE_NS {
                continue;
            }
            missed += 1;
            if !recorded(call) {
                continue;
            }
            let hog = Process { pid: 7, name: "hog".into(), class: Class::Ordinary(0) };
            let hog = Why { process: Some(hog), ..Why::of(Reason::Cpu, Role::Server) };
            let sleep = Why::of(Reason::Sleep { call: None }, Role::Server);
            let stretches = [
                Stretch { begin_ns: 0, end_ns: hog_ns, why: hog },
                Stretch { begin_ns: hog_ns, end_ns: hog_ns + sleep_ns, why: sleep },
            ];
            let start_ns = call * 10_000_000;
            let of = Operation { start_ns, duration_ns, deadline_ns: Some(DEADLINE_NS) };
            across.add_timed(of, &Reasons::of(&stretches, 0));
        }
        (across, durations, missed)
    }

    fn hogs(calls: u64, recorded: impl Fn(u64) -> bool) -> Left {
        let (across, durations, missed) = measured(calls, true, recorded);
        let whole = Whole {
            durations: &durations,
            missed: Some((DEADLINE_NS, missed)),
            elapsed_ns: calls * 10_000_000,
        };
        let found = without(&across, whole);
        let is_hog = |left: &Left| matches!(&left.subject, Subject::Process { name, .. } if name == "hog");
        found.into_iter().find(is_hog).unwrap()
    }

    fn holds(of: Expected, value: u64) -> bool {
        of.low <= value && value <= of.high && of.low <= of.estimate && of.estimate <= of.high
    }

    #[test]
    fn the_calls_without_a_cause_lie_within_the_intervals() {
        let left = hogs(10_000, |_| true);
        let (_, durations, missed) = measured(10_000, false, |_| true);
        let (found, tail_ns) = (left.missed.unwrap(), left.tail_ns.unwrap());
        assert_eq!((found.estimate, missed), (200, 200), "{left:?}");
        assert!(holds(found, missed) && found.high < 2 * found.low, "{left:?}");
        let next_ns = durations.percentile_ns(PERCENT).unwrap();
        assert!(tail_ns.estimate.abs_diff(next_ns) <= next_ns / 1000 && holds(tail_ns, next_ns), "{left:?}");
        assert!(holds(left.worst_ns, durations.max_ns().unwrap()), "{left:?}");
        assert!(left.worst_ns.high < 2 * left.worst_ns.low, "{left:?}");
    }

    #[test]
    fn a_cause_that_took_much_time_leaves_room_for_more_calls_that_others_delay() {
        let (across, durations, missed) = measured(10_000, true, |_| true);
        let high = |elapsed_ns| {
            let whole = Whole { durations: &durations, missed: Some((DEADLINE_NS, missed)), elapsed_ns };
            without(&across, whole)[0].missed.unwrap().high
        };
        // The hog took 2.5 s. 200 calls are left, and in half the time again, twice as many.
        let (long, short) = (high(250_000_000_000), high(5_000_000_000));
        assert!((230..300).contains(&long), "{long}");
        assert!((430..560).contains(&short), "{short}");
    }

    #[test]
    fn calls_that_were_not_recorded_are_taken_to_be_like_the_others_but_may_not_be() {
        let left = hogs(10_000, |call| call % 3 == 0);
        let missed = left.missed.unwrap();
        assert!((180..=220).contains(&missed.estimate), "{left:?}");
        // 500 of 700 lost time to the hog, and only a third of them is known.
        assert!(holds(missed, 200) && missed.high > 500, "{left:?}");
    }

    #[test]
    fn few_calls_have_no_tail_and_none_left_may_be_some_again() {
        let left = hogs(19, |_| true);
        assert_eq!((left.missed, left.tail_ns), (Some(Expected { estimate: 0, low: 0, high: 5 }), None));
        let (across, durations, _) = measured(19, true, |_| true);
        let whole = Whole { durations: &durations, missed: None, elapsed_ns: 0 };
        assert_eq!(without(&across, whole)[0].missed, None);
        let mut untimed = Across::default();
        untimed.add(&Reasons::of(&[], 0));
        assert_eq!(without(&untimed, whole), []);
    }
}
