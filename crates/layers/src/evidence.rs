//! Evidence from counters about two things. A CPU quota appears in events only as a thread that is
//! runnable but not scheduled. And a thread may not get all of the CPU time that the events
//! attribute to it. Must not know which part is to blame.

use roundtrip_vocabulary::CallCounters;

use crate::explanation::{Owner, Part, State, Unknown};
use crate::round_trip::RoundTrip;
use crate::timeline::{Doing, Timeline};

/// A shorter wait for a CPU is not throttling: a throttled group waits for its next period (100 ms
/// by default, at least 1 ms; Documentation/scheduler/sched-bwc.rst).
const SHORTEST_THROTTLING_NS: u64 = 500_000;

/// Priorities from here on are ordinary ones. Quotas apply only to these.
pub(crate) const FIRST_ORDINARY_PRIO: i32 = 100;

/// The least missing CPU time that counts. Less may be an artefact, because the clocks are read at
/// slightly different instants.
const MISSING_NS: u64 = 200_000;

/// Marks the parts that a quota explains. A throttled thread is runnable but not scheduled, no
/// matter which other threads run. So its whole wait is one stretch, whatever parts it consists of.
pub(crate) fn mark_throttling(parts: &mut [Part], trip: &RoundTrip) {
    let mut from = 0;
    while from < parts.len() {
        let thread = parts[from].thread.as_ref().map(|thread| thread.tid);
        let waits = |part: &&Part| {
            waits_for_cpu(&part.state) && part.thread.as_ref().map(|thread| thread.tid) == thread
        };
        let length = parts[from..].iter().take_while(waits).count();
        if length == 0 {
            from += 1;
            continue;
        }
        let stretch = &mut parts[from..from + length];
        let side = match stretch[0].owner {
            Owner::Client => Some(&trip.client),
            Owner::Server => trip.server.as_ref(),
        };
        if let Some(side) = side {
            mark_stretch(stretch, &side.counters, trip);
        }
        from += length;
    }
}

fn waits_for_cpu(state: &State) -> bool {
    matches!(
        state,
        State::Behind { .. }
            | State::Preempted { .. }
            | State::RunnableOnIdle
            | State::IdleExit { .. }
            | State::Stolen { .. }
            | State::HandOver { .. }
    )
}

fn mark_stretch(stretch: &mut [Part], counters: &CallCounters, trip: &RoundTrip) {
    let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { return };
    let length_ns = last.end_ns - first.begin_ns;
    let prio = first.thread.as_ref().and_then(|thread| thread.prio);
    let ordinary = prio.is_none_or(|prio| prio >= FIRST_ORDINARY_PRIO);
    if !ordinary || length_ns < SHORTEST_THROTTLING_NS || !counters.was_throttled() {
        return;
    }
    let idle = stretch.iter().any(|part| part.state == State::RunnableOnIdle);
    // The counters cover only this round trip, and throttling lasted at least half of the wait. So
    // nothing else can have caused the wait.
    let counted_here =
        trip.is_counted_alone(counters) && counters.throttled_ns.is_some_and(|ns| ns >= length_ns / 2);
    let state = if idle || counted_here {
        State::Throttled
    } else {
        State::Unknown { reason: Unknown::BehindOrThrottled }
    };
    for part in stretch {
        part.state = state.clone();
    }
}

/// CPU time that the events attribute to a thread, but that neither its own clock nor the
/// scheduler's accounting shows, in nanoseconds.
pub(crate) fn missing_cpu_ns(
    timeline: &Timeline<'_>,
    trip: &RoundTrip,
    owner: Owner,
    tid: Option<u32>,
) -> Option<u64> {
    let tid = tid?;
    let counters = match owner {
        Owner::Client => Some(&trip.client.counters),
        Owner::Server => trip.server.as_ref().map(|server| &server.counters),
    };
    let by_clock = counters.and_then(|counters| counters.cpu_ns).and_then(|cpu_ns| {
        Some(running_ns(timeline, tid, trip.start_ns, trip.end_ns)?.saturating_sub(cpu_ns))
    });
    let by_accounts = timeline.thread(tid).and_then(|line| {
        let (during, cpu_ns) = line.accounted_within(trip.start_ns, trip.end_ns)?;
        Some(running_ns(timeline, tid, during.begin_ns, during.end_ns)?.saturating_sub(cpu_ns))
    });
    by_clock.max(by_accounts).filter(|&ns| ns >= MISSING_NS)
}

/// How long the thread ran according to the events, without interrupts; `None` if the events do not
/// cover the whole time.
fn running_ns(timeline: &Timeline<'_>, tid: u32, from_ns: u64, to_ns: u64) -> Option<u64> {
    let mut sum_ns = 0;
    for during in timeline.doing(tid, from_ns, to_ns) {
        match during.what {
            Doing::Unknown => return None,
            Doing::Running { cpu } => {
                let interrupts = timeline
                    .cpu(cpu)
                    .map_or(&[][..], |line| line.interrupts.within(during.begin_ns, during.end_ns));
                let stolen_ns: u64 = interrupts
                    .iter()
                    .map(|stretch| stretch.end_ns.min(during.end_ns) - stretch.begin_ns.max(during.begin_ns))
                    .sum();
                sum_ns += (during.end_ns - during.begin_ns).saturating_sub(stolen_ns);
            }
            _ => {}
        }
    }
    Some(sum_ns)
}
