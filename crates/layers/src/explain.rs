//! Produces one explanation in steps: boundaries, parts, counters, causes.

use crate::boundaries;
use crate::explanation::{Explanation, Flag, Owner, Thread};
use crate::partition::{parts, thread_at};
use crate::round_trip::RoundTrip;
use crate::timeline::Timeline;
use crate::without::explain_without_events;
use crate::{blame, evidence};

/// Explains one round trip. The parts are always contiguous and add up to the exact duration of the
/// round trip; unknown time is a separate part.
#[must_use]
pub fn explain(timeline: &Timeline<'_>, trip: &RoundTrip) -> Explanation {
    // If a clock went backwards, there is nothing to explain, and no part may have a negative
    // duration.
    let trip = RoundTrip { end_ns: trip.end_ns.max(trip.start_ns), ..trip.clone() };
    if !timeline.knows.switches {
        // Everything else depends on which thread had a CPU.
        return explain_without_events(&trip);
    }
    let bounds = boundaries::find(timeline, &trip);
    let client = trip.client.tid;
    let mut all = parts(timeline, Owner::Client, client, trip.start_ns, bounds.request_ns);
    all.extend(parts(timeline, Owner::Server, bounds.server, bounds.request_ns, bounds.reply_ns));
    all.extend(parts(timeline, Owner::Client, client, bounds.reply_ns, trip.end_ns));
    evidence::mark_throttling(&mut all, &trip);
    let missing = [
        (Owner::Client, evidence::missing_cpu_ns(timeline, &trip, Owner::Client, client)),
        (Owner::Server, evidence::missing_cpu_ns(timeline, &trip, Owner::Server, bounds.server)),
    ];
    let causes = blame::causes(&all, &trip, missing);
    let mut flags = blame::flags(&all, &trip);
    if missing.iter().any(|(_, ns)| ns.is_some()) && !flags.contains(&Flag::Gap) {
        flags.push(Flag::Gap);
    }
    if timeline.lost_within(trip.start_ns, trip.end_ns) {
        flags.push(Flag::EventsLost);
    }
    let count = timeline.unrecorded_within(trip.start_ns, trip.end_ns);
    if count > 0 {
        flags.push(Flag::SwitchesUnrecorded { count });
    }
    let named = |tid: u32, prio: Option<i32>, pid: u32| {
        let thread = thread_at(timeline, tid, trip.start_ns);
        Thread { prio: prio.or(thread.prio), pid: thread.pid.or((pid > 0).then_some(pid)), ..thread }
    };
    Explanation {
        start_ns: trip.start_ns,
        request_ns: bounds.request_ns,
        request_by: bounds.request_by,
        reply_ns: bounds.reply_ns,
        reply_by: bounds.reply_by,
        end_ns: trip.end_ns,
        client: named(client.unwrap_or(0), trip.client.prio, trip.client.pid),
        server: bounds.server.map(|tid| {
            let side = trip.server.as_ref();
            named(tid, side.and_then(|side| side.prio), side.map_or(0, |side| side.pid))
        }),
        parts: all,
        flags,
        causes,
        usual_ns: trip.usual_ns,
        virtualised: trip.virtualised,
    }
}
