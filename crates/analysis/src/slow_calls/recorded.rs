//! Slow calls in another tool's recording. Only the kernel's events are known, and no call is
//! marked as slow.

use std::collections::{BTreeMap, HashMap};

use latency::Histogram;
use layers::{RoundTrip, Side, Timeline};
use tracefs::{Body, Trace};
use transactions::{Call, Matcher, Observed, Unmatched};

use super::{Explained, Kept, SlowCall};

/// The maximum number of transactions that are tracked at the same time.
const UNDER_WAY: usize = 100_000;

/// The minimum number of calls of one method for a meaningful median.
const MANY: u64 = 10;

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
    /// Transactions without a reply.
    pub oneway: u64,
    /// Calls that ended with a driver error.
    pub failed: u64,
    /// Events that could not be matched to calls.
    pub unmatched: Unmatched,
}

/// Identifies calls of one method: client, server, node, code.
type Flow = (u32, u32, i32, u32);

/// Finds the calls in a recording. `comms` contains thread names that the trace may lack.
#[must_use]
pub fn recorded(trace: &Trace, comms: &BTreeMap<u32, String>, wanted: Wanted) -> Recorded {
    let mut matcher = Matcher::new(UNDER_WAY);
    let (mut calls, mut oneway, mut failed) = (Vec::new(), 0, 0);
    for event in &trace.events {
        matcher.add(event, &mut |observed| match observed {
            Observed::Call(call) => calls.push(call),
            Observed::Oneway(_) => oneway += 1,
            Observed::Failed(_) => failed += 1,
        });
    }
    let names = Names::of(trace, comms);
    let mut all = Histogram::new();
    let mut flows: HashMap<Flow, Histogram> = HashMap::new();
    for call in &calls {
        all.record(call.latency_ns());
        flows.entry(names.flow(call)).or_insert_with(Histogram::growing).record(call.latency_ns());
    }
    let Wanted { deadline_ns, slowest, limit } = wanted;
    let all_calls = calls.len() as u64;
    if !slowest {
        calls.retain(|call| call.latency_ns() > deadline_ns);
    }
    let over_limit = if slowest { 0 } else { (calls.len() as u64).saturating_sub(limit) };
    calls.sort_by_key(|call| (std::cmp::Reverse(call.latency_ns()), call.sent.start_ns));
    calls.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let usual_ns = |call: &Call| {
        let of = flows.get(&names.flow(call)).filter(|of| of.count() >= MANY)?;
        of.percentile_ns(50.0).filter(|&ns| ns <= deadline_ns)
    };
    let slow = calls.iter().map(|call| names.slow_call(call, deadline_ns, usual_ns(call)));
    let kept = Kept {
        calls: slow.collect(),
        all_calls,
        deadline_ns,
        usual_ns: all.percentile_ns(50.0),
        slowest,
        limit,
        over_limit,
        before_comparison: 0,
        not_recorded: String::new(),
    };
    Recorded { kept: kept.ranked(), oneway, failed, unmatched: matcher.unmatched() }
}

/// Explains the selected calls of a recording.
pub fn explain_recorded(kept: &Kept, trace: &Trace, wanted: impl Fn(&SlowCall) -> bool) -> Vec<Explained> {
    let timeline = Timeline::new(trace);
    let wanted = kept.calls.iter().filter(|call| wanted(call));
    let explained = wanted.map(|call| Explained {
        call: call.clone(),
        deadline_ns: kept.deadline_ns,
        explanation: layers::explain(&timeline, &call.trip),
        without_events: None,
        damage: None,
    });
    explained.collect()
}

/// The names and processes of threads that the recording shows.
pub(crate) struct Names<'a> {
    trace: &'a Trace,
    comms: &'a BTreeMap<u32, String>,
    said: HashMap<u32, tracefs::Name>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(trace: &'a Trace, comms: &'a BTreeMap<u32, String>) -> Self {
        let mut said = HashMap::new();
        for event in &trace.events {
            match event.body {
                Body::Switch { next, .. } => _ = said.insert(next.tid, next.comm),
                Body::Rename { tid, comm } => _ = said.insert(tid, comm),
                _ => {}
            }
        }
        Self { trace, comms, said }
    }

    /// A thread's process. If it is unknown, the thread itself, because most processes make calls
    /// from their main thread.
    pub(crate) fn process(&self, tid: u32) -> u32 {
        self.trace.processes.get(&tid).copied().unwrap_or(tid)
    }

    /// The name of a thread, or of a process by its main thread; empty if no event shows it.
    pub(crate) fn comm(&self, tid: u32) -> &str {
        let said = self.said.get(&tid).map(|&name| self.trace.names.text(name));
        self.comms.get(&tid).map(String::as_str).or(said).unwrap_or_default()
    }

    fn name(&self, pid: u32) -> String {
        let name = self.comm(pid);
        if name.is_empty() { format!("process {pid}") } else { format!("{name} ({pid})") }
    }

    fn flow(&self, call: &Call) -> Flow {
        (self.process(call.sent.client), call.sent.to_process, call.sent.node, call.sent.code)
    }

    fn slow_call(&self, call: &Call, deadline_ns: u64, usual_ns: Option<u64>) -> SlowCall {
        let (client, server) = (self.process(call.sent.client), call.sent.to_process);
        let side = |pid, tid| Side { pid, tid: Some(tid), ..Side::default() };
        let kind_name = format!("{} to {}", self.name(client), self.name(server));
        SlowCall {
            number: 0,
            kind: (client as usize, server as usize),
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
}
