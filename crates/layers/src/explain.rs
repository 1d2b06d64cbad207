//! Produces one explanation in steps: boundaries, parts, counters, causes.

use crate::blame::USUAL_NS;
use crate::boundaries::{self, Boundaries};
use crate::explanation::{Explanation, Flag, Owner, Part, Thread};
use crate::partition::{parts, thread_at};
use crate::pool::Queue;
use crate::reasons::Reasons;
use crate::round_trip::RoundTrip;
use crate::timeline::Timeline;
use crate::why::Legs;
use crate::without::explain_without_events;
use crate::{blame, evidence, frequency, moves, why};

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
    let (reasons, circumstances) = reasons(timeline, &trip, &bounds, &all, missing);
    let mut flags = blame::flags(&all, &trip);
    if missing.iter().any(|(_, ns)| ns.is_some()) && !flags.contains(&Flag::Gap) {
        flags.push(Flag::Gap);
    }
    flags.extend(circumstances);
    if timeline.lost_within(trip.start_ns, trip.end_ns) {
        flags.push(Flag::EventsLost);
    } else if timeline.incomplete_within(trip.start_ns, trip.end_ns) {
        flags.push(Flag::OutsideRecording);
    }
    let count = timeline.unrecorded_within(trip.start_ns, trip.end_ns);
    if count > 0 {
        flags.push(Flag::SwitchesUnrecorded { count });
    }
    let named = |tid: u32, prio: Option<i32>, pid: u32| {
        let thread = thread_at(timeline, tid, trip.start_ns);
        Thread { prio: prio.or(thread.prio), pid: thread.pid.or((pid > 0).then_some(pid)), ..thread }
    };
    let mut explanation = Explanation {
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
        reasons,
        causes: Vec::new(),
        usual_ns: trip.usual_ns,
        virtualised: trip.virtualised,
    };
    explanation.causes = blame::causes(&explanation.reasons, explanation.is_ordinary());
    explanation
}

/// By owner: CPU time, in nanoseconds, that the events attribute to the owner's thread but that the
/// thread did not get.
type Missing = [(Owner, Option<u64>); 2];

/// The main thread of a process of which nothing else is known.
fn nameless(pid: u32) -> Thread {
    Thread { tid: pid, pid: Some(pid), comm: String::new(), prio: None }
}

/// Why the call did not move, and what frequencies and moves between control groups have to do with
/// it.
fn reasons(
    timeline: &Timeline<'_>,
    trip: &RoundTrip,
    bounds: &Boundaries,
    parts: &[Part],
    missing: Missing,
) -> (Reasons, Vec<Flag>) {
    let Boundaries { request_ns, reply_ns, server, .. } = *bounds;
    let mut stretches = why::stretches(timeline, parts, Legs { request_ns, reply_ns });
    if let (Some(tid), Some(received_ns)) = (server, trip.received_ns) {
        let to_ns = received_ns.min(reply_ns);
        let queue = Queue { from_ns: request_ns, to_ns, received_ns, served: timeline.served(tid) };
        queue.mark(&mut stretches, |pid, tid, time_ns| {
            let thread = (tid > 0).then(|| thread_at(timeline, tid, time_ns));
            let known = Thread { pid: Some(pid), ..thread.clone().unwrap_or_else(|| nameless(pid)) };
            (why::process_of(timeline, &known, time_ns), thread)
        });
    }
    for (owner, missing_ns) in missing {
        why::take_missing(&mut stretches, owner, missing_ns.unwrap_or(0));
    }
    let mut flags: Vec<Flag> = frequency::slow_cpu(timeline, parts, &mut stretches).into_iter().collect();
    flags.extend(moves::moved(timeline, parts, &stretches));
    (Reasons::of(&stretches, trip.usual_ns.unwrap_or(USUAL_NS)), flags)
}
