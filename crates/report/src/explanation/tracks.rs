//! Calls, and explanations of the slow ones, as tracks of slices for a trace viewer. Pure: calls
//! and explanations in, tracks out. Must not know the format of the trace.

use std::collections::BTreeMap;

use roundtrip_latency::Sample;
use roundtrip_layers::{Explanation, Part, RoundTrip, Thread};

use crate::explanation::sentence::answer;
use crate::explanation::words::{self, owner};
use crate::explanation::{flag_text, state_text};
use crate::perfetto::{Annotation, Parent, Slice, Track};
use roundtrip_analysis::slow_calls::{Calls, Explained};

/// The tracks. Each pair has a track with all its calls and their legs (from `calls`, and the slow
/// ones), and below it a track that explains the slow ones. Each thread that made or served slow
/// calls has a track with them. Arrows connect the two sides of each.
#[must_use]
pub fn tracks(explained: &[Explained], calls: &[Calls]) -> Vec<Track> {
    let mut pairs: BTreeMap<(usize, usize), Pair<'_>> = BTreeMap::new();
    for one in explained {
        let pair = pairs.entry(one.call.kind).or_default();
        pair.name = &one.call.kind_name;
        pair.slow.push(one);
    }
    for one in calls {
        let pair = pairs.entry((one.series, one.pair)).or_default();
        pair.name = &one.pair_name;
        pair.calls.push(one);
    }
    let mut tracks = Vec::new();
    for pair in pairs.values() {
        let mut whole: Vec<Slice> = pair.slow.iter().flat_map(|call| with_legs(call)).collect();
        for of in &pair.calls {
            // A slow call is already in the track, with its explanation.
            let shown = |sample: &&Sample| pair.slow.iter().any(|slow| is_of(sample, &slow.call.trip));
            let others = of.samples.iter().filter(|sample| !shown(sample));
            others.for_each(|sample| plain(sample, of, &mut whole));
        }
        tracks.push(Track { name: pair.name.to_owned(), parent: Parent::Top, slices: whole });
        if pair.slow.is_empty() {
            continue;
        }
        let under = Parent::Track(tracks.len() - 1);
        let mut why = Vec::new();
        for part in pair.slow.iter().flat_map(|call| &call.explanation.parts) {
            explaining(part, 0, &mut why);
        }
        tracks.push(Track { name: "explanation".into(), parent: under, slices: why });
    }
    let mut threads: BTreeMap<(u32, u32), (Parent, Vec<Slice>)> = BTreeMap::new();
    for call in explained {
        for (thread, slice) in beside_threads(call) {
            let Some(parent) = parent(thread) else { continue };
            let key = (thread.pid.unwrap_or(0), thread.tid);
            threads.entry(key).or_insert_with(|| (parent, Vec::new())).1.push(slice);
        }
    }
    let beside = |(parent, slices)| Track { name: "slow calls".into(), parent, slices };
    tracks.extend(threads.into_values().map(beside));
    tracks
}

/// The parent track of a thread; `None` if not even its process is known.
fn parent(thread: &Thread) -> Option<Parent> {
    let pid = thread.pid?;
    Some(if thread.tid > 0 { Parent::Thread { pid, tid: thread.tid } } else { Parent::Process(pid) })
}

fn name(call: &Explained) -> String {
    format!("slow call {}", call.call.number)
}

/// The calls of one pair.
#[derive(Default)]
struct Pair<'a> {
    name: &'a str,
    slow: Vec<&'a Explained>,
    calls: Vec<&'a Calls>,
}

/// A call that was not slow, with its legs.
fn plain(sample: &Sample, of: &Calls, slices: &mut Vec<Slice>) {
    let Sample { start_ns, end_ns, .. } = *sample;
    let caller = vec![Annotation::text("caller", &of.caller)];
    let name = "round trip".to_owned();
    slices.push(Slice { name, begin_ns: start_ns, end_ns, annotations: caller, ..Slice::default() });
    slices.extend(legs(&trip(sample)));
}

/// Whether a sample belongs to this call.
fn is_of(sample: &Sample, trip: &RoundTrip) -> bool {
    (sample.start_ns, sample.end_ns) == (trip.start_ns, trip.end_ns)
}

/// The timestamps of a call that was not slow.
fn trip(sample: &Sample) -> RoundTrip {
    let stamp = |ns: u64| (ns > 0).then_some(ns);
    RoundTrip {
        start_ns: sample.start_ns,
        received_ns: stamp(sample.received_ns),
        replied_ns: stamp(sample.replied_ns),
        end_ns: sample.end_ns,
        ..RoundTrip::default()
    }
}

/// When the handler started and ended, if both are known and in order.
fn handling(trip: &RoundTrip) -> Option<(u64, u64)> {
    let (received_ns, replied_ns) = (trip.received_ns?, trip.replied_ns?);
    let instants = [trip.start_ns, received_ns, replied_ns, trip.end_ns];
    instants.is_sorted().then_some((received_ns, replied_ns))
}

/// The legs according to the programs' timestamps, if both are known and in order.
fn legs(trip: &RoundTrip) -> Vec<Slice> {
    let RoundTrip { start_ns, end_ns, .. } = *trip;
    let Some((received_ns, replied_ns)) = handling(trip) else { return Vec::new() };
    let leg =
        |name: &str, begin_ns, end_ns| Slice { name: name.into(), begin_ns, end_ns, ..Slice::default() };
    vec![
        leg("request", start_ns, received_ns),
        leg("handling", received_ns, replied_ns),
        leg("reply", replied_ns, end_ns),
    ]
}

/// A slow call with its answer, and its legs.
fn with_legs(call: &Explained) -> Vec<Slice> {
    let Explanation { start_ns, end_ns, .. } = call.explanation;
    let mut facts = vec![
        Annotation::text("call", &call.call.what),
        Annotation::text("answer", answer(&call.explanation)),
        Annotation::uint("deadline_ns", call.deadline_ns),
    ];
    facts.extend(call.call.trip.usual_ns.map(|usual_ns| Annotation::uint("usual_ns", usual_ns)));
    facts.extend(call.explanation.flags.iter().map(|flag| Annotation::text("note", flag_text(flag))));
    let whole =
        Slice { name: name(call), begin_ns: start_ns, end_ns, annotations: facts, ..Slice::default() };
    let mut slices = vec![whole];
    slices.extend(legs(&call.call.trip));
    slices
}

/// A part, with what the awaited threads did.
fn explaining(part: &Part, depth: usize, slices: &mut Vec<Slice>) {
    let state = state_text(&part.state);
    let name = match &part.thread {
        Some(thread) if depth > 0 => format!("{}: {state}", words::thread(thread)),
        _ => format!("{}: {state}", owner(part.owner)),
    };
    let mut facts = Vec::new();
    facts.extend(part.cpu.map(|cpu| Annotation::uint("cpu", cpu)));
    if let Some(thread) = &part.thread {
        facts.push(Annotation::text("thread", words::thread(thread)));
        facts.extend(thread.prio.map(|prio| Annotation::int("kernel_priority", prio)));
    }
    let Part { begin_ns, end_ns, .. } = *part;
    slices.push(Slice { name, begin_ns, end_ns, annotations: facts, ..Slice::default() });
    for inside in &part.because {
        explaining(inside, depth + 1, slices);
    }
}

/// The call for its client's thread and its handling for the server's thread, connected by an
/// arrow.
fn beside_threads(call: &Explained) -> Vec<(&Thread, Slice)> {
    let Explanation { start_ns, end_ns, client, server, .. } = &call.explanation;
    let slice = |begin_ns, end_ns| Slice { name: name(call), begin_ns, end_ns, ..Slice::default() };
    let mut beside = vec![(client, slice(*start_ns, *end_ns))];
    if let (Some(server), Some((received_ns, replied_ns))) = (server, handling(&call.call.trip)) {
        beside.push((server, slice(received_ns, replied_ns)));
        for (_, slice) in &mut beside {
            slice.flows.push(call.call.number as u64);
        }
    }
    beside
}

#[cfg(test)]
pub(crate) mod tests {
    use roundtrip_analysis::slow_calls::SlowCall;
    use roundtrip_layers::{Side, Timeline};
    use roundtrip_tracefs::Trace;

    use super::*;

    /// A call of thread 101 of process 100, served by thread 201 of process 200.
    pub(crate) fn call(received_ns: u64, replied_ns: u64) -> Sample {
        Sample { start_ns: 1_000, received_ns, replied_ns, end_ns: 1_700, ..Sample::default() }
    }

    /// That call, explained from these events.
    pub(crate) fn explained(call: &Sample, trace: &Trace) -> Explained {
        let side = |pid, tid| Side { pid, tid: Some(tid), prio: Some(0), ..Side::default() };
        let trip = RoundTrip { client: side(100, 101), server: Some(side(200, 201)), ..trip(call) };
        let explanation = roundtrip_layers::explain(&Timeline::new(trace), &trip);
        let call = SlowCall {
            number: 3,
            kind: (0, 0),
            kind_name: "hwbinder, pair P0".into(),
            what: "hwbinder, pair P0, fifo:99 caller".into(),
            trip,
            snapshot: Some(1),
        };
        Explained { call, deadline_ns: 500, explanation, without_events: None, damage: None }
    }

    #[test]
    fn legs_and_parts_add_up_to_the_call() {
        let call = call(1_300, 1_500);
        let tracks = tracks(&[explained(&call, &Trace::default())], &[]);
        let lengths = |track: &Track, from| -> u64 {
            track.slices[from..].iter().map(|slice| slice.end_ns - slice.begin_ns).sum()
        };
        assert_eq!((lengths(&tracks[0], 1), lengths(&tracks[1], 0)), (700, 700));
        assert_eq!(tracks[1].parent, Parent::Track(0));
        assert_eq!(tracks[2].parent, Parent::Thread { pid: 100, tid: 101 });
        assert_eq!(tracks[3].parent, Parent::Thread { pid: 200, tid: 201 });
        assert_eq!(tracks[2].slices[0].flows, tracks[3].slices[0].flows);
    }

    /// All recorded calls of its pair, including itself.
    pub(crate) fn calls(call: &Sample) -> Calls {
        let later = |sample: &Sample| Sample {
            start_ns: sample.end_ns,
            received_ns: sample.end_ns + 20,
            replied_ns: sample.end_ns + 50,
            end_ns: sample.end_ns + 100,
            ..*sample
        };
        Calls {
            series: 0,
            pair: 0,
            pair_name: "hwbinder, pair P0".into(),
            caller: "fifo:99".into(),
            samples: vec![*call, later(call)],
            complete: true,
        }
    }

    #[test]
    fn every_call_is_there_once() {
        let call = call(1_300, 1_500);
        let slow = [explained(&call, &Trace::default())];
        let of = calls(&call);
        let tracks = tracks(&slow, std::slice::from_ref(&of));
        let names: Vec<&str> = tracks[0].slices.iter().map(|slice| slice.name.as_str()).collect();
        let legs = ["request", "handling", "reply"];
        let expected = [&["slow call 3"][..], &legs, &["round trip"], &legs].concat();
        assert_eq!(names, expected);
        let other = Calls { pair: 1, pair_name: "hwbinder, pair P1".into(), ..of };
        let tracks = super::tracks(&slow, &[other]);
        let names: Vec<&str> = tracks.iter().map(|track| track.name.as_str()).collect();
        assert_eq!(
            names,
            ["hwbinder, pair P0", "explanation", "hwbinder, pair P1", "slow calls", "slow calls"],
            "a pair without slow calls has nothing to explain"
        );
    }

    #[test]
    fn stamps_that_are_missing_or_out_of_order_make_no_legs() {
        for (received_ns, replied_ns) in [(0, 0), (1_500, 1_300), (1_300, 1_800)] {
            let call = call(received_ns, replied_ns);
            let tracks = tracks(&[explained(&call, &Trace::default())], &[]);
            assert_eq!(tracks[0].slices.len(), 1, "{received_ns} {replied_ns}");
            assert_eq!(tracks.len(), 3, "nothing beside the server");
        }
    }
}
