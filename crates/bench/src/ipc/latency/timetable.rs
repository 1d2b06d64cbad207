//! The parent's side of a rate: each turn's part of the schedule, and whether the run kept to it.
//! Must not know how calls are made.

use roundtrip_run::ipc::latency::{Amount, CallerResult, PairResult, Response, Series};

use crate::clock::now_ns;
use crate::schedule::Part;

/// A schedule that stood still for longer between two turns was held up from outside, because
/// starting a turn takes a few milliseconds.
const LONG_NS: u64 = 500_000_000;

/// Shorter gaps count if they make up more than this part of the schedule's time, and the schedule
/// ran at least for [`ENOUGH_NS`].
const MAX_GAPS_PERCENT: u64 = 20;

/// A shorter schedule has turns that take little longer than their start.
const ENOUGH_NS: u64 = 2_000_000_000;

/// The schedule of all callers of a run.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    until_ns: u64,
    calls: u64,
    /// When the last turn ended.
    ended_ns: Option<u64>,
    /// How long the schedule ran.
    ran_ns: u64,
    /// How long it stood still between two turns.
    gaps_ns: u64,
    /// The same in the gaps that were longer than [`LONG_NS`].
    long_gaps_ns: u64,
}

impl Timetable {
    /// The part of the next turn of each series.
    pub(super) fn next(&mut self, rate_per_s: f64, amount: Amount, is_last: bool) -> Part {
        let calls = match amount {
            Amount::Iterations(iterations) => {
                self.calls += iterations;
                self.until_ns = (self.calls as f64 * 1e9 / rate_per_s) as u64;
                Some(self.calls)
            }
            Amount::DurationNs(duration_ns) => {
                self.until_ns = self.until_ns.saturating_add(duration_ns);
                None
            }
        };
        Part { until_ns: self.until_ns, calls, is_last }
    }

    /// To be called when a turn ends, with its results: measures how long the schedule stood still
    /// before it.
    pub(super) fn ended(&mut self, pairs: &[PairResult]) {
        let now_ns = now_ns();
        let responses = pairs.iter().flat_map(|pair| &pair.callers).filter_map(|one| one.response.as_ref());
        let ran_ns = responses.map(|one| one.elapsed_ns + one.paused_ns).max().unwrap_or_default();
        if let Some(ended_ns) = self.ended_ns.replace(now_ns) {
            self.gap(now_ns.saturating_sub(ended_ns).saturating_sub(ran_ns), ran_ns);
        }
    }

    /// Adds a gap, and the turn after it.
    fn gap(&mut self, gap_ns: u64, ran_ns: u64) {
        self.ran_ns += ran_ns;
        self.gaps_ns += gap_ns;
        if gap_ns > LONG_NS {
            self.long_gaps_ns += gap_ns;
        }
    }

    /// How long the schedule stood still, if that matters, in nanoseconds; else 0.
    fn stood_still_ns(&self) -> u64 {
        let many = self.ran_ns >= ENOUGH_NS && self.gaps_ns > self.ran_ns / 100 * MAX_GAPS_PERCENT;
        if many { self.gaps_ns } else { self.long_gaps_ns }
    }

    /// What a reader must know about the rate of these series.
    pub(super) fn warnings(&self, rate_per_s: f64, series: &[Series]) -> Vec<String> {
        let mut warnings = Vec::new();
        for one in series {
            for caller in one.all().iter().flat_map(|all| &all.callers) {
                let response = caller.response.as_ref();
                if let Some(warning) =
                    response.and_then(|response| too_slow(one, caller, response, rate_per_s))
                {
                    warnings.push(warning);
                }
            }
        }
        let stood_still_ns = self.stood_still_ns();
        if stood_still_ns > 0 {
            warnings.push(format!(
                "the schedule stood still for {:.1} s between turns: calls that would have been due then were \
                 not made, and are in no figure",
                stood_still_ns as f64 / 1e9
            ));
        }
        warnings
    }
}

fn too_slow(series: &Series, caller: &CallerResult, response: &Response, rate_per_s: f64) -> Option<String> {
    let reached_per_s = response.too_slow(rate_per_s)?;
    Some(format!(
        "the rate was not reached: {} made {reached_per_s:.1} of {rate_per_s} calls a second over {}",
        caller.caller, series.stack
    ))
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Deadline;
    use roundtrip_run::Scheduling;
    use roundtrip_run::ipc::Stack;
    use roundtrip_run::ipc::latency::{Inheritance, Verdict};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_parts_of_a_schedule_follow_each_other() {
        let mut timetable = Timetable::default();
        timetable.next(100.0, Amount::Iterations(10), false);
        let part = timetable.next(100.0, Amount::Iterations(15), true);
        assert_eq!((part.until_ns, part.calls, part.is_last), (SECOND / 4, Some(25), true));
        let mut timetable = Timetable::default();
        timetable.next(100.0, Amount::DurationNs(SECOND), false);
        let part = timetable.next(100.0, Amount::DurationNs(SECOND), false);
        assert_eq!((part.until_ns, part.calls, part.is_last), (2 * SECOND, None, false));
    }

    fn series(calls: u64, elapsed_ns: u64) -> Series {
        let mut caller = CallerResult::new(Scheduling::other(0), Deadline { ns: SECOND }, true, 0);
        let time = (0..calls).collect();
        caller.response = Some(Response { time, missed: 0, elapsed_ns, paused_ns: 0 });
        let pairs = vec![PairResult { callers: vec![caller], server: None }];
        Series { stack: Stack::Binder, inheritance: Inheritance::Stack, pairs, verdict: Verdict::Pass }
    }

    #[test]
    fn a_rate_that_was_not_reached_is_a_warning() {
        let warnings = |calls, elapsed_ns| Timetable::default().warnings(100.0, &[series(calls, elapsed_ns)]);
        assert_eq!(warnings(100, SECOND), [""; 0]);
        // The last call may end late.
        assert_eq!(warnings(25, SECOND / 4 + SECOND / 50), [""; 0]);
        assert_eq!(warnings(990, 10 * SECOND), [""; 0]);
        let found = warnings(500, 10 * SECOND);
        assert_eq!(found, ["the rate was not reached: other made 50.0 of 100 calls a second over binder"]);
    }

    #[test]
    fn a_long_gap_between_turns_or_many_short_ones_are_a_warning() {
        let mut timetable = Timetable::default();
        timetable.gap(LONG_NS, 10 * SECOND);
        assert_eq!(timetable.warnings(100.0, &[]), [""; 0]);
        timetable.gap(2 * SECOND, 10 * SECOND);
        let [warning] = &timetable.warnings(100.0, &[])[..] else { panic!("one warning") };
        assert!(warning.contains("stood still for 2.0 s"), "{warning}");
        let short = |turn_ns| {
            let mut timetable = Timetable::default();
            (0..10).for_each(|_| timetable.gap(SECOND / 10, turn_ns));
            timetable.warnings(100.0, &[])
        };
        assert!(short(SECOND).is_empty() && short(SECOND / 20).is_empty());
        assert!(short(SECOND / 4)[0].contains("stood still for 1.0 s"), "{:?}", short(SECOND / 4));
    }
}
