//! Open loop: when the calls of a caller are due, in one schedule that runs through all turns of a
//! run. A caller that is late stays late in the next turn. Must not know what a call is.

use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The clock that calls are made by.
pub(crate) trait Clock {
    /// The time, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Sleeps until an instant. Returns false if the run is to stop.
    fn sleep_until(&self, instant_ns: u64) -> Result<bool>;
}

/// How often a caller calls. Callers are spread over the period, so that their calls do not
/// coincide by design.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_s: f64,
    /// The part of a period by which the first call is due later.
    pub(crate) offset: f64,
}

impl Rate {
    /// When a call is due, in nanoseconds since the schedule began.
    fn due_ns(self, call: u64) -> u64 {
        ((call as f64 + self.offset) * 1e9 / self.per_s) as u64
    }
}

/// One turn's part of a schedule.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Part {
    /// When it ends, in nanoseconds since the schedule began.
    pub(crate) until_ns: u64,
    /// The number of calls that are due until then, if that is what the plan says.
    pub(crate) calls: Option<u64>,
    /// Whether it is the last one. It ends only after all calls that are due in it. The calls that
    /// any other part leaves are made in the next one.
    pub(crate) is_last: bool,
}

/// How far a caller has come in its schedule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace {
    /// Calls that were made.
    calls: u64,
    /// How long the schedule has run, in nanoseconds. It stands still between turns.
    pub(crate) elapsed_ns: u64,
    /// How long it has stood still since it began, in nanoseconds.
    pub(crate) paused_ns: u64,
}

impl Pace {
    /// Makes the calls of one turn, which begins at `begin_ns`. `call` is told when its call is
    /// due, and returns for how long it stood still afterwards. That time makes no call late.
    pub(crate) fn run(
        &mut self,
        clock: &impl Clock,
        rate: Rate,
        part: Part,
        begin_ns: u64,
        mut call: impl FnMut(u64) -> Result<u64>,
    ) -> Result<()> {
        let mut origin_ns = begin_ns.saturating_sub(self.elapsed_ns);
        // A caller that is late must not begin before the others.
        let mut goes_on = clock.sleep_until(begin_ns)?;
        while goes_on {
            let due_ns = rate.due_ns(self.calls);
            let is_due = match part.calls {
                Some(calls) => self.calls < calls,
                // At least one call, however short the duration.
                None => due_ns < part.until_ns || (part.is_last && self.calls == 0),
            };
            let end_ns = origin_ns + part.until_ns;
            if !is_due {
                clock.sleep_until(end_ns)?;
                break;
            }
            if !part.is_last && clock.now_ns() >= end_ns {
                break;
            }
            goes_on = clock.sleep_until(origin_ns + due_ns)?;
            if goes_on {
                let paused_ns = call(origin_ns + due_ns)?;
                origin_ns += paused_ns;
                self.paused_ns += paused_ns;
                self.calls += 1;
            }
        }
        self.elapsed_ns = clock.now_ns().saturating_sub(origin_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use roundtrip_latency::Histogram;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A clock that moves only when someone sleeps or is served.
    struct Simulated(Cell<u64>);

    impl Clock for Simulated {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn sleep_until(&self, instant_ns: u64) -> Result<bool> {
            self.0.set(self.0.get().max(instant_ns));
            Ok(true)
        }
    }

    /// A run of ten turns of 800 ms, with 30 ms between two of them.
    fn run(rate: Rate, by_calls: bool, services_ns: &[u64], paused_ns: u64) -> (Histogram, Pace) {
        let (clock, mut pace) = (Simulated(Cell::new(10_000 * MS)), Pace::default());
        let (mut response, mut made) = (Histogram::new(), 0);
        for turn in 1..=10 {
            clock.0.set(clock.0.get() + 30 * MS);
            let until_ns = turn * 800 * MS;
            let calls = by_calls.then_some((until_ns as f64 / 1e9 * rate.per_s) as u64);
            let part = Part { until_ns, calls, is_last: turn == 10 };
            let begin_ns = clock.0.get() + MS;
            pace.run(&clock, rate, part, begin_ns, |intended_ns| {
                clock.0.set(clock.0.get() + services_ns[made]);
                made += 1;
                response.record(clock.0.get() - intended_ns);
                let paused_ns = if made.is_multiple_of(100) { paused_ns } else { 0 };
                clock.0.set(clock.0.get() + paused_ns);
                Ok(paused_ns)
            })
            .unwrap();
        }
        assert_eq!(made, (8.0 * rate.per_s) as usize, "every call that was due is made");
        (response, pace)
    }

    /// The response times of one queue that never stands still.
    fn queue(rate: Rate, services_ns: &[u64]) -> Histogram {
        let mut free_ns = 0;
        let calls = services_ns.iter().take((8.0 * rate.per_s) as usize).enumerate();
        calls
            .map(|(call, service_ns)| {
                let due_ns = rate.due_ns(call as u64);
                free_ns = due_ns.max(free_ns) + service_ns;
                free_ns - due_ns
            })
            .collect()
    }

    fn services(mean_ns: u64, stall: Option<(usize, u64)>) -> Vec<u64> {
        let mut rng = fastrand::Rng::with_seed(29);
        let mut all: Vec<u64> =
            (0..20_000).map(|_| (-(1.0 - rng.f64()).ln() * mean_ns as f64) as u64 + 1000).collect();
        if let Some((call, ns)) = stall {
            all[call] += ns;
        }
        all
    }

    #[test]
    fn response_times_are_those_of_one_queue_whatever_the_turns() {
        let rate = |per_s| Rate { per_s, offset: 0.5 };
        for (rate, services) in [
            (rate(2000.0), services(300_000, None)),
            (rate(2000.0), services(480_000, None)),
            // Overload: the backlog grows until the end.
            (rate(2000.0), services(1_040_000, None)),
            // A participant that is stopped for a second, in one turn and until the end of another.
            (rate(200.0), services(500_000, Some((500, 1000 * MS)))),
            (rate(200.0), services(500_000, Some((639, 1000 * MS)))),
        ] {
            let expected = queue(rate, &services);
            for (by_calls, paused_ns) in [(false, 0), (true, 0), (false, 40 * MS)] {
                let (found, _) = run(rate, by_calls, &services, paused_ns);
                for percent in [50.0, 90.0, 99.0, 99.9] {
                    let [found, expected] =
                        [&found, &expected].map(|times| times.percentile_ns(percent).unwrap_or_default());
                    let apart = found.abs_diff(expected) as f64 / expected as f64;
                    assert!(apart <= 0.02, "{rate:?} p{percent}: {found} for {expected}");
                }
            }
        }
    }

    #[test]
    fn the_time_of_a_schedule_is_what_was_asked_unless_there_is_a_backlog() {
        let rate = Rate { per_s: 2000.0, offset: 0.0 };
        let (_, pace) = run(rate, false, &services(100_000, None), 0);
        assert_eq!((pace.calls, pace.elapsed_ns), (16_000, 8000 * MS));
        let (_, pace) = run(rate, false, &[MS; 16_000], 0);
        assert_eq!((pace.calls, pace.elapsed_ns), (16_000, 16_000 * MS));
    }

    #[test]
    fn a_pause_is_no_part_of_the_schedule_and_is_counted() {
        let rate = Rate { per_s: 2000.0, offset: 0.0 };
        let (response, pace) = run(rate, false, &[MS / 10; 16_000], 50 * MS);
        assert_eq!((pace.elapsed_ns, pace.paused_ns), (8000 * MS, 160 * 50 * MS));
        assert_eq!(response.max_ns(), Some(MS / 10));
    }

    #[test]
    fn a_turn_may_have_no_call_but_a_run_has_one() {
        let (clock, mut pace) = (Simulated(Cell::new(MS)), Pace::default());
        let rate = Rate { per_s: 1.0, offset: 0.5 };
        let mut made = Vec::new();
        for (until_ns, is_last) in [(100 * MS, false), (200 * MS, true)] {
            let part = Part { until_ns, calls: None, is_last };
            let begin_ns = clock.now_ns();
            pace.run(&clock, rate, part, begin_ns, |intended_ns| {
                made.push((clock.now_ns(), intended_ns));
                Ok(0)
            })
            .unwrap();
        }
        assert_eq!(made, [(501 * MS, 501 * MS)]);
    }
}
