//! Slow calls in another tool's recording. Only the kernel's events are known, and no call is
//! marked as slow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use roundtrip_latency::Histogram;
use roundtrip_layers::reasons::Across;
use roundtrip_layers::{Basis, RoundTrip, Side};
use roundtrip_observed::calls::{Call, Matcher, Observed, Unmatched};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::Threads;

use super::{Explained, Kept, MANY, SlowCall, timed};

/// Which calls of a recording to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The deadline, in nanoseconds.
    pub deadline_ns: u64,
    /// Whether to explain the slowest calls even if they met the deadline.
    pub slowest: bool,
    /// The maximum number of calls to explain.
    pub limit: u64,
}

/// The calls in a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The calls to explain.
    pub kept: Kept,
    /// The other calls over the deadline.
    pub others: Vec<RoundTrip>,
    /// Transactions without a reply.
    pub oneway: u64,
    /// Calls that ended with a driver error.
    pub failed: u64,
    /// Events that could not be matched to calls.
    pub unmatched: Unmatched,
}

/// Identifies calls of one method: client, server, node, code.
type Flow = (usize, usize, i32, u32);

/// The kernel's largest number of a process is below this power of two (`PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;

/// Finds the calls in a recording.
#[must_use]
pub fn recorded(basis: &Basis<'_>, wanted: Wanted) -> Recorded {
    let (trace, threads) = (basis.trace(), basis.threads());
    let mut matcher = Matcher::new(roundtrip_observed::MAX_IN_FLIGHT);
    let mut found = Found::default();
    let (mut oneway, mut failed) = (0, 0);
    for event in trace.all() {
        matcher.add(&event, &mut |observed| match observed {
            Observed::Call(call) => found.add(call, flow(threads, &call), wanted),
            Observed::Oneway(_) => oneway += 1,
            Observed::Failed(_) => failed += 1,
        });
    }
    let Wanted { deadline_ns, slowest, limit } = wanted;
    let over_limit = if slowest { 0 } else { found.over_deadline.saturating_sub(limit) };
    let usual_ns = |call: &Call| {
        let of = found.flows.get(&flow(threads, call)).filter(|of| of.count() >= MANY)?;
        of.percentile_ns(50.0).filter(|&ns| ns <= deadline_ns)
    };
    let slow = found.slowest.values().map(|call| slow_call(threads, call, deadline_ns, usual_ns(call)));
    let kept = Kept {
        calls: slow.collect(),
        durations: found.flows.values().collect(),
        elapsed_ns: trace.length_ns(),
        deadline_ns,
        slowest,
        limit,
        over_limit,
        before_comparison: 0,
        not_recorded: String::new(),
        ..Kept::default()
    };
    let others = found.others.iter();
    let others = others.map(|call| slow_call(threads, call, deadline_ns, usual_ns(call)).trip).collect();
    Recorded { kept: kept.ranked(), others, oneway, failed, unmatched: matcher.unmatched() }
}

/// What is kept of the calls: how many, their durations by method, and the slowest of them.
#[derive(Default)]
struct Found {
    calls: u64,
    flows: HashMap<Flow, Histogram>,
    over_deadline: u64,
    /// The other calls over the deadline.
    others: Vec<Call>,
    /// The slowest calls that are wanted, by duration, start, and order of their ends.
    slowest: BTreeMap<(Reverse<u64>, u64, u64), Call>,
}

impl Found {
    fn add(&mut self, call: Call, flow: Flow, wanted: Wanted) {
        let latency_ns = call.latency_ns();
        self.calls += 1;
        self.flows.entry(flow).or_insert_with(Histogram::growing).record(latency_ns);
        let over = latency_ns > wanted.deadline_ns;
        self.over_deadline += u64::from(over);
        if over || wanted.slowest {
            let key = (Reverse(latency_ns), call.sent.start_ns, self.calls);
            self.slowest.insert(key, call);
            if self.slowest.len() as u64 > wanted.limit
                && let Some((_, call)) = self.slowest.pop_last()
                && !wanted.slowest
            {
                self.others.push(call);
            }
        }
    }
}

/// Explains the selected calls of a recording.
pub fn explain_recorded(
    kept: &Kept,
    basis: &Basis<'_>,
    wanted: impl Fn(&SlowCall) -> bool,
) -> Vec<Explained> {
    let wanted: Vec<&SlowCall> = kept.calls.iter().filter(|call| wanted(call)).collect();
    if wanted.is_empty() {
        // Saves a pass over a recording of writes.
        return Vec::new();
    }
    let stretches: Vec<_> = wanted.iter().map(|call| (call.trip.start_ns, call.trip.end_ns)).collect();
    let timeline = basis.within(&stretches);
    let explained = wanted.into_iter().map(|call| Explained {
        call: call.clone(),
        deadline_ns: kept.deadline_ns,
        explanation: roundtrip_layers::explain(&timeline, &call.trip),
        without_events: None,
        damage: None,
    });
    explained.collect()
}

/// A pass over a recording explains at least this many calls.
const AT_ONCE: usize = 256;

/// The most passes, so that time does not grow with the number of calls as well.
const MOST_PASSES: usize = 4;

/// How many of so many calls are explained in one pass.
fn at_once(calls: usize) -> usize {
    calls.div_ceil(MOST_PASSES).max(AT_ONCE)
}

/// What delayed calls, without their details.
#[must_use]
pub fn classify(basis: &Basis<'_>, trips: &[RoundTrip]) -> Across {
    let mut across = Across::default();
    let mut trips: Vec<&RoundTrip> = trips.iter().collect();
    trips.small_sort_by_key(|trip| trip.start_ns);
    for some in trips.chunks(at_once(trips.len())) {
        let stretches: Vec<_> = some.iter().map(|trip| (trip.start_ns, trip.end_ns)).collect();
        let timeline = basis.within(&stretches);
        for trip in some {
            across.add_timed(timed(trip), &roundtrip_layers::explain(&timeline, trip).reasons);
        }
    }
    across
}

/// A process and its program, as one number.
fn program(threads: &Threads<'_>, pid: u32, time_ns: u64) -> usize {
    pid as usize | threads.program_at(pid, time_ns) << PID_BITS
}

fn name(threads: &Threads<'_>, pid: u32, time_ns: u64) -> String {
    let name = threads.process_name_at(pid, time_ns);
    if name.is_empty() { format!("process {pid}") } else { format!("{name} ({pid})") }
}

fn flow(threads: &Threads<'_>, call: &Call) -> Flow {
    let client = program(threads, threads.process(call.sent.client), call.sent.start_ns);
    let server = program(threads, call.sent.to_process, call.received_ns);
    (client, server, call.sent.node, call.sent.code)
}

fn slow_call(threads: &Threads<'_>, call: &Call, deadline_ns: u64, usual_ns: Option<u64>) -> SlowCall {
    let (client, server) = (threads.process(call.sent.client), call.sent.to_process);
    let side = |pid, tid| Side { pid, tid: Some(tid), ..Side::default() };
    let of_client = name(threads, client, call.sent.start_ns);
    let kind_name = format!("{of_client} to {}", name(threads, server, call.received_ns));
    let (by, to, ..) = flow(threads, call);
    SlowCall {
        number: 0,
        kind: (by, to),
        what: format!("{kind_name}, node {}, code {}", call.sent.node, call.sent.code),
        kind_name,
        trip: RoundTrip {
            start_ns: call.sent.start_ns,
            received_ns: Some(call.received_ns),
            replied_ns: Some(call.replied_ns),
            end_ns: call.end_ns,
            client: side(client, call.sent.client),
            server: Some(side(server, call.server)),
            deadline_ns: Some(deadline_ns),
            usual_ns,
            // Unknown. With false, time in which a CPU did not run is attributed to the running
            // thread.
            virtualised: false,
        },
        snapshot: None,
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::{Body, Event, TaskState, ThreadRef, Trace};

    use super::*;

    /// Two calls to process 20, whose name changes in between.
    fn reused() -> Trace {
        let mut trace = Trace { recorded: vec!["sched/sched_switch".into()], ..Trace::default() };
        let mut events = Vec::new();
        for (call, name) in [(0, "server"), (1, "newcomer")] {
            let us = |us: u64| (call as u64 * 10_000 + us) * 1000;
            let next = ThreadRef { tid: 20, prio: 120, comm: trace.names.intern(name) };
            let prev = ThreadRef::default();
            let id = 10 * call + 1;
            let transaction = |debug_id, to_proc, reply| Body::BinderTransaction {
                debug_id,
                target_node: 5,
                to_proc,
                to_thread: 0,
                reply,
                code: 1,
                flags: 0,
            };
            for (at, tid, body) in [
                (1, 10, transaction(id, 20, false)),
                (5, 20, Body::Switch { prev, prev_state: TaskState(0), next }),
                (6, 20, Body::BinderReceived { debug_id: id }),
                (5_000, 20, transaction(id + 1, 10, true)),
                (5_005, 10, Body::BinderReceived { debug_id: id + 1 }),
            ] {
                events.push(Event { time_ns: us(at), cpu: 0, tid, body });
            }
        }
        Trace { events, ..trace }
    }

    #[test]
    fn a_number_that_two_programs_had_is_two_processes() {
        let wanted = Wanted { deadline_ns: 1_000_000, slowest: false, limit: 10 };
        // The name from outside of the events is that of the second one.
        let comms = [(20, "com.example.newcomer".to_owned())].into();
        let kept = recorded(&Basis::of(&Trace { comms, ..reused() }), wanted).kept;
        let named: Vec<&str> = kept.calls.iter().map(|call| call.kind_name.as_str()).collect();
        assert_eq!(named, ["process 10 to server (20)", "process 10 to newcomer (20)"]);
        assert_ne!(kept.calls[0].kind, kept.calls[1].kind);
    }

    #[test]
    fn the_number_of_passes_does_not_grow_with_the_number_of_calls() {
        for (calls, passes) in [(1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (10 * AT_ONCE, 4), (1_000_001, 4)] {
            assert_eq!(calls.div_ceil(at_once(calls)), passes, "{calls}");
        }
    }
}
