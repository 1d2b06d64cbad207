//! What is known about a round trip without kernel events: its legs according to the programs' own
//! timestamps, and the counters of the two threads. It blames no other thread, and says that it
//! cannot.

use crate::explanation::{
    Boundary, Cause, Explanation, Flag, Kind, Leg, Owner, Part, State, Thread, Unknown, What,
};
use crate::round_trip::{Counters, RoundTrip, Side};

/// If a counter explains this percentage of the time, it determines the cause.
const DECISIVE_PERCENT: u64 = 50;

/// Explains a round trip only from its timestamps and counters.
#[must_use]
pub fn explain_without_events(trip: &RoundTrip) -> Explanation {
    let (start_ns, end_ns) = (trip.start_ns, trip.end_ns.max(trip.start_ns));
    let stamped = trip.received_ns.is_some() && trip.replied_ns.is_some();
    let received_ns = trip.received_ns.unwrap_or(end_ns).clamp(start_ns, end_ns);
    let replied_ns = trip.replied_ns.unwrap_or(end_ns).clamp(received_ns, end_ns);
    let legs: &[(Leg, Owner, u64, u64)] = if stamped {
        &[
            (Leg::Request, Owner::Client, start_ns, received_ns),
            (Leg::Handling, Owner::Server, received_ns, replied_ns),
            (Leg::Reply, Owner::Client, replied_ns, end_ns),
        ]
    } else {
        &[(Leg::WholeCall, Owner::Client, start_ns, end_ns)]
    };
    let parts: Vec<Part> = legs
        .iter()
        .filter(|leg| leg.2 < leg.3)
        .map(|&(leg, owner, begin_ns, end_ns)| Part {
            begin_ns,
            end_ns,
            owner,
            thread: None,
            cpu: None,
            state: State::Leg { leg },
            because: Vec::new(),
        })
        .collect();
    let causes = causes(&parts, trip);
    let boundary = if stamped { Boundary::Stamp } else { Boundary::Unknown };
    Explanation {
        start_ns,
        request_ns: received_ns,
        request_by: boundary,
        reply_ns: replied_ns,
        reply_by: boundary,
        end_ns,
        client: named(&trip.client),
        server: trip.server.as_ref().map(named),
        parts,
        flags: vec![Flag::NoEvents],
        causes,
        usual_ns: trip.usual_ns,
        virtualised: trip.virtualised,
    }
}

fn named(side: &Side) -> Thread {
    Thread { tid: side.tid.unwrap_or(0), pid: Some(side.pid), comm: String::new(), prio: side.prio }
}

/// Counters determine a cause if they account for most of the time and exclude all others.
/// Otherwise only the longest leg is reported.
fn causes(parts: &[Part], trip: &RoundTrip) -> Vec<Cause> {
    let duration_ns = trip.duration_ns();
    let usual_ns = trip.usual_ns.unwrap_or(0);
    let cause = |kind, owner, excess_ns, what: Option<Unknown>| Cause {
        kind,
        excess_ns,
        owner,
        thread: None,
        what: what.map(What::Unknown),
        via: Vec::new(),
        cpu: None,
    };
    let mut causes = Vec::new();
    if trip.usual_ns.is_some() && duration_ns * 10 <= usual_ns * 15 {
        causes.push(cause(Kind::Ordinary, Owner::Client, 0, None));
    }
    let sides = [(Owner::Client, Some(&trip.client)), (Owner::Server, trip.server.as_ref())];
    for (owner, side) in sides {
        let Some(counters) = side.map(|side| &side.counters) else { continue };
        let decisive = |ns: &u64| ns * 100 >= duration_ns * DECISIVE_PERCENT && *ns <= duration_ns;
        let here = trip.is_counted_alone(counters);
        if let Some(ns) =
            counters.throttled_ns.filter(|ns| here && *ns * 100 >= duration_ns * DECISIVE_PERCENT)
        {
            causes.push(cause(Kind::Throttled, owner, ns.min(duration_ns), None));
        }
        if let Some(ns) = own_ns(counters, here).filter(decisive) {
            causes.push(cause(Kind::Work, owner, ns.saturating_sub(usual_ns), None));
        }
        if let Some(ns) = counters.run_delay_ns.filter(|_| here).filter(decisive) {
            causes.push(cause(Kind::CannotTell, owner, ns, Some(Unknown::WaitedForCpu(owner))));
        }
    }
    causes.retain(|cause| cause.excess_ns > 0 || cause.kind == Kind::Ordinary);
    causes.sort_by_key(|cause| (cause.kind != Kind::Ordinary, std::cmp::Reverse(cause.excess_ns)));
    if causes.is_empty()
        && let Some(longest) = parts.iter().max_by_key(|part| part.duration_ns())
        && let State::Leg { leg } = longest.state
    {
        let reason = Unknown::LongestLeg(leg);
        causes.push(cause(Kind::CannotTell, longest.owner, longest.duration_ns(), Some(reason)));
    }
    causes
}

/// CPU time of the thread itself during the round trip, in nanoseconds.
fn own_ns(counters: &Counters, here: bool) -> Option<u64> {
    counters.cpu_ns.or(counters.running_ns.filter(|_| here))
}
