//! A latency test that a user watches: the figures of each interval, and whether they changed at a
//! mark. Receives the measurements of each turn. Must not know how they were made or are shown.

use std::collections::VecDeque;

use roundtrip_latency::Histogram;
use roundtrip_run::ipc::latency::Series;

use crate::compare::{self, Compared, Measured, Options, Side};
use crate::figures::{Better, Figure, Unit};

/// The maximum number of intervals that are kept. With one per second, this is nearly three hours.
const MOST_INTERVALS: usize = 10_000;

/// The maximum number of intervals of each half in a comparison.
const MOST_COMPARED: usize = 300;

/// How much the intervals before and after a mark may differ without any change on the machine: 0.1
/// means 10%. Both halves are from the same processes, so they differ less than two runs. This
/// value was tested with a session without changes, on a machine that was compiling, cut into 90
/// overlapping pieces. With this value, 3 pieces showed a difference in any of three figures;
/// without it, 6 did.
pub const NOISE: f64 = 0.1;

/// A caller's figures for one interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that took longer than the deadline.
    pub missed: u64,
    /// The median, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// The maximum, in nanoseconds.
    pub max_ns: u64,
}

/// The intervals of one caller over one stack.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its labels: test, stack, inheritance, caller.
    pub of: Vec<(&'static str, String)>,
    /// Its intervals in order; `None` for one without calls.
    pub points: VecDeque<Option<Point>>,
    /// The calls of the last interval with calls.
    pub last: Histogram,
    /// The number of these calls that missed the deadline.
    pub last_missed: u64,
    current: Histogram,
    missed: u64,
}

/// The whole session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// One line for each caller over each stack.
    pub lines: Vec<Line>,
    /// The number of intervals, including those no longer kept.
    pub intervals: usize,
    /// The number of completed intervals at each mark.
    pub marks: Vec<usize>,
}

impl Session {
    /// Adds the calls of a turn to the current interval.
    pub fn add(&mut self, series: &Series) {
        let Some(all) = series.all() else { return };
        for caller in &all.callers {
            let of = vec![
                ("test", "latency".to_owned()),
                ("stack", series.stack.to_string()),
                ("inheritance", series.inheritance.name().to_owned()),
                ("caller", caller.caller.to_string()),
            ];
            let line = self.line(of);
            // With a rate, a call's time starts when the call should have begun, so it includes the
            // wait for a slow previous call.
            line.current.merge(caller.times());
            line.missed += caller.missed();
        }
    }

    fn line(&mut self, of: Vec<(&'static str, String)>) -> &mut Line {
        let at = self.lines.iter().position(|line| line.of == of).unwrap_or_else(|| {
            let points = std::iter::repeat_n(None, self.intervals.min(MOST_INTERVALS)).collect();
            let (last, current) = (Histogram::new(), Histogram::new());
            self.lines.push(Line { of, points, last, last_missed: 0, current, missed: 0 });
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Ends the current interval.
    pub fn end_interval(&mut self) {
        self.intervals += 1;
        for line in &mut self.lines {
            let (calls, missed) = (std::mem::take(&mut line.current), std::mem::take(&mut line.missed));
            line.points.push_back(calls.max_ns().map(|max_ns| Point {
                calls: calls.count(),
                missed,
                p50_ns: calls.percentile_ns(50.0),
                p99_ns: calls.percentile_ns(99.0),
                max_ns,
            }));
            if line.points.len() > MOST_INTERVALS {
                line.points.pop_front();
            }
            if !calls.is_empty() {
                (line.last, line.last_missed) = (calls, missed);
            }
        }
    }

    /// Sets a mark, which separates earlier from later intervals. The current interval belongs to
    /// neither and is dropped.
    pub fn mark(&mut self) {
        for line in &mut self.lines {
            (line.current, line.missed) = (Histogram::new(), 0);
        }
        if self.marks.last() != Some(&self.intervals) {
            self.marks.push(self.intervals);
        }
    }

    /// Compares the intervals after the last mark with those between that mark and the one before
    /// it; empty without a mark. Each interval counts as a run, and the two halves count as runs
    /// made at different times. Misses are left out if the median interval of both halves has none.
    #[must_use]
    pub fn compare(&self) -> Vec<Compared> {
        let Some((&mark, earlier)) = self.marks.split_last() else { return Vec::new() };
        let begin = earlier.last().copied().unwrap_or(0);
        let before = self.side(begin, mark);
        let after = self.side(mark, self.intervals);
        if before.runs.is_empty() || after.runs.is_empty() {
            return Vec::new();
        }
        let mut compared = compare::compare(&before, &after, &Options { noise: NOISE, ..Options::default() });
        compared.retain(|one| one.name != "missed" || one.base + one.new > 0.0);
        compared
    }

    /// The numbers of intervals before and after the last mark; `None` without a mark.
    #[must_use]
    pub fn halves(&self) -> Option<[usize; 2]> {
        let (&mark, earlier) = self.marks.split_last()?;
        Some([mark - earlier.last().copied().unwrap_or(0), self.intervals - mark])
    }

    /// The last intervals in a range.
    fn side(&self, begin: usize, end: usize) -> Side {
        let begin = begin.max(end.saturating_sub(MOST_COMPARED));
        let run = |interval: usize| {
            let figures: Option<Vec<[Figure; 3]>> =
                self.lines.iter().map(|line| self.figures(line, interval)).collect();
            let figures = figures?.into_iter().flatten().collect();
            Some(Measured { path: Default::default(), date: None, figures, run: None })
        };
        Side { runs: (begin..end).filter_map(run).collect() }
    }

    fn figures(&self, line: &Line, interval: usize) -> Option<[Figure; 3]> {
        let dropped = self.intervals - line.points.len();
        let point = (*line.points.get(interval.checked_sub(dropped)?)?)?;
        let figure = |name: &str, value: Option<u64>, unit| Figure {
            name: name.to_owned(),
            of: line.of.clone(),
            value: value.map(|value| value as f64),
            unit,
            better: Better::Lower,
            samples: point.calls,
            bounds: None,
            in_clumps: None,
        };
        Some([
            figure("p50", point.p50_ns, Unit::Nanoseconds),
            figure("p99", point.p99_ns, Unit::Nanoseconds),
            figure("missed", Some(point.missed), Unit::Count),
        ])
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Deadline;
    use roundtrip_run::Scheduling;
    use roundtrip_run::ipc::Stack;
    use roundtrip_run::ipc::latency::{CallerResult, Inheritance, PairResult, Verdict};

    use super::*;
    use crate::compare::Verdict as Found;

    fn turn(stack: Stack, times_ns: impl IntoIterator<Item = u64>) -> Series {
        let deadline = Deadline { ns: 1_000_000 };
        let mut caller = CallerResult::new(Scheduling::other(0), deadline, false, 0);
        for ns in times_ns {
            caller.latency.record(ns);
            caller.deadline.count += 1;
            caller.deadline.missed += u64::from(deadline.missed(ns));
        }
        let pairs = vec![PairResult { callers: vec![caller], server: None }];
        Series { stack, inheritance: Inheritance::Stack, pairs, verdict: Verdict::Pass }
    }

    /// Adds an interval of two turns whose calls take about `ns` nanoseconds.
    fn interval(session: &mut Session, ns: u64, seed: u64) {
        for part in 0..2 {
            session.add(&turn(Stack::Binder, (0..100).map(|n| ns + (n * 7 + seed * 13 + part) % 50)));
        }
        session.end_interval();
    }

    #[test]
    fn an_interval_has_the_calls_of_all_its_turns_and_no_others() {
        let mut session = Session::default();
        session.add(&turn(Stack::Binder, [1000, 2000]));
        session.add(&turn(Stack::Hwbinder, [5000]));
        session.add(&turn(Stack::Binder, [3000, 2_000_000]));
        session.end_interval();
        session.add(&turn(Stack::Binder, [7000]));
        session.end_interval();
        let [binder, hwbinder] = &session.lines[..] else { panic!("{:?}", session.lines) };
        let first = binder.points[0].unwrap();
        assert_eq!((first.calls, first.missed), (4, 1));
        assert!((2_000_000..2_010_000).contains(&first.max_ns), "{first:?}");
        assert_eq!((binder.points[1].unwrap().calls, binder.last.count()), (1, 1));
        assert_eq!((hwbinder.points[1], hwbinder.last.count()), (None, 1));
    }

    #[test]
    fn only_a_real_change_at_the_mark_is_found() {
        let mut session = Session::default();
        (0..8).for_each(|seed| interval(&mut session, 10_000, seed));
        assert!(session.compare().is_empty());
        session.add(&turn(Stack::Binder, [900_000_000]));
        session.mark();
        (0..8).for_each(|seed| interval(&mut session, 20_000, seed));
        let found = session.compare();
        let of = |name: &str| found.iter().find(|compared| compared.name == name).expect(name);
        assert_eq!((of("p50").verdict, of("p99").verdict), (Found::Worse, Found::Worse), "{found:?}");
        assert_eq!(of("p50").runs, [8, 8]);
        let missed = session.lines[0].points.iter().flatten().map(|point| point.missed).sum::<u64>();
        assert_eq!(missed, 0, "the call at the mark is not counted");
        session.mark();
        (0..8).for_each(|seed| interval(&mut session, 20_010, seed));
        let found = session.compare();
        assert!(found.iter().all(|compared| compared.verdict == Found::CannotTell), "{found:?}");
    }

    #[test]
    fn few_intervals_give_no_verdict() {
        let mut session = Session::default();
        interval(&mut session, 10_000, 1);
        session.mark();
        assert!(session.compare().is_empty(), "there is no interval after the mark");
        interval(&mut session, 50_000, 1);
        let found = session.compare();
        assert!(!found.is_empty());
        assert!(found.iter().all(|compared| compared.verdict == Found::CannotTell), "{found:?}");
    }

    #[test]
    fn dropped_intervals_do_not_change_what_a_mark_separates() {
        let mut session = Session::default();
        (0..MOST_INTERVALS as u64 + 20).for_each(|at| {
            session.add(&turn(Stack::Binder, [1000 + at; 2]));
            session.end_interval();
        });
        let line = &session.lines[0];
        assert_eq!(line.points.len(), MOST_INTERVALS);
        assert!(session.figures(line, 19).is_none());
        let oldest = session.figures(line, 20).unwrap();
        let oldest_ns = line.points[0].unwrap().p50_ns.map(|ns| ns as f64);
        assert_eq!((oldest[0].value, oldest[1].value), (oldest_ns, None));
        assert!(oldest_ns.is_some());
    }
}
