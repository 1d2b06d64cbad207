//! What is known about a round trip without kernel events: its legs according to the programs' own
//! timestamps, and the counters of the two threads. It blames no other thread, and says that it
//! cannot.

use roundtrip_vocabulary::CallCounters;

use crate::explanation::{Boundary, Explanation, Flag, Leg, Owner, Part, State, Thread, Unknown};
use crate::reasons::{Class, Limit, Place, Process, Reason, Reasons, Stretch, Why};
use crate::round_trip::{RoundTrip, Side};
use crate::{blame, why};

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
    let reasons = Reasons::of(&stretches(&parts, trip), trip.usual_ns.unwrap_or(0));
    let boundary = if stamped { Boundary::Stamp } else { Boundary::Unknown };
    let mut explanation = Explanation {
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
        reasons,
        causes: Vec::new(),
        usual_ns: trip.usual_ns,
        virtualised: trip.virtualised,
    };
    explanation.causes = blame::causes(&explanation.reasons, explanation.is_ordinary());
    explanation
}

fn named(side: &Side) -> Thread {
    Thread { tid: side.tid.unwrap_or(0), pid: Some(side.pid), comm: String::new(), prio: side.prio }
}

/// Why it did not move, as far as counters tell: a thread's own CPU time, its waits for a CPU, and
/// throttling. The rest is unknown, leg by leg. When each was is not known; the sums are.
fn stretches(parts: &[Part], trip: &RoundTrip) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = parts.iter().map(unknown).collect();
    let sides = [(Owner::Client, Some(&trip.client)), (Owner::Server, trip.server.as_ref())];
    for (owner, side) in sides {
        let Some(side) = side else { continue };
        let counters = &side.counters;
        let here = trip.is_counted_alone(counters);
        let known = [
            (counters.throttled_ns.filter(|_| here), THROTTLED),
            (own_ns(counters, here), Reason::OwnWork),
            (counters.run_delay_ns.filter(|_| here), Reason::Cpu),
        ];
        for (ns, reason) in known {
            take(&mut out, owner, ns.unwrap_or(0), &reason, side);
        }
    }
    out
}

const THROTTLED: Reason = Reason::Throttled { limit: Limit::CpuQuota, cgroup: None };

fn unknown(part: &Part) -> Stretch {
    let State::Leg { leg } = part.state else { unreachable!("there are only legs") };
    let reason = Reason::Unknown { why: Unknown::NoEventsFor(leg) };
    let why = Why { place: Some(Place::Leg(leg)), ..Why::of(reason, why::role(part.owner)) };
    Stretch { begin_ns: part.begin_ns, end_ns: part.end_ns, why }
}

/// Gives unknown time to what a counter shows: first that of the owner's own legs.
fn take(stretches: &mut Vec<Stretch>, owner: Owner, ns: u64, reason: &Reason, side: &Side) {
    let mut left_ns = ns;
    for own in [true, false] {
        let mut index = 0;
        while left_ns > 0 && index < stretches.len() {
            let one = &mut stretches[index];
            let takes =
                matches!(one.why.reason, Reason::Unknown { .. }) && (one.why.role == why::role(owner)) == own;
            if takes {
                let taken_ns = left_ns.min(one.duration_ns());
                let begin_ns = one.begin_ns;
                one.begin_ns += taken_ns;
                let thread = Some(named(side)).filter(|_| *reason == Reason::OwnWork);
                let process = thread.as_ref().map(|thread| Process {
                    pid: side.pid,
                    name: String::new(),
                    class: Class::of(thread.prio),
                });
                let role = why::role(owner);
                let why = Why { reason: reason.clone(), process, thread, role, ..one.why.clone() };
                stretches.insert(index, Stretch { begin_ns, end_ns: begin_ns + taken_ns, why });
                left_ns -= taken_ns;
                index += 1;
            }
            index += 1;
        }
    }
}

/// CPU time of the thread itself during the round trip, in nanoseconds.
fn own_ns(counters: &CallCounters, here: bool) -> Option<u64> {
    counters.cpu_ns.or(counters.running_ns.filter(|_| here))
}
