//! Slow calls among the observed calls of other programs. Only the kernel's events are known about
//! them.

use roundtrip_layers::reasons::Across;
use roundtrip_layers::{RoundTrip, Side};
use roundtrip_run::ipc::observe::{Flow, ObserveResult, Process};

use super::{Kept, MANY, SlowCall};

/// The slow calls that a result has kept; `None` if the plan did not request any.
pub(super) fn kept(result: &ObserveResult, virtualised: bool) -> Option<Kept> {
    if result.plan.limit == 0 {
        return None;
    }
    let calls = result.slow_calls.iter().filter_map(|slow| {
        let flow = result.flows.get(slow.flow)?;
        let kind_name = format!("{} to {}", name(&flow.client), name(&flow.server));
        let trip = RoundTrip {
            start_ns: slow.start_ns,
            received_ns: Some(slow.received_ns),
            replied_ns: Some(slow.replied_ns),
            end_ns: slow.end_ns,
            client: side(&flow.client, slow.client),
            server: Some(side(&flow.server, slow.server)),
            deadline_ns: Some(result.plan.deadline.ns),
            usual_ns: usual_ns(flow, result.plan.deadline.ns),
            virtualised,
        };
        Some(SlowCall {
            number: 0,
            kind: (slow.flow, 0),
            what: format!("{kind_name}, node {}, code {}", slow.node, flow.code),
            kind_name,
            trip,
            snapshot: slow.snapshot,
        })
    });
    let kept = Kept {
        calls: calls.collect(),
        all_calls: result.calls(),
        deadline_ns: result.plan.deadline.ns,
        slowest: false,
        limit: result.plan.limit.into(),
        over_limit: result.over_limit,
        others: Across::default(),
        before_comparison: 0,
        not_recorded: result.not_recorded.clone().unwrap_or_else(|| "it was not recorded".into()),
    };
    Some(kept.ranked())
}

/// The median duration, if there are enough calls. `None` also if the median itself misses the
/// deadline: then a call of usual duration must be explained, too.
fn usual_ns(flow: &Flow, deadline_ns: u64) -> Option<u64> {
    let usual_ns = flow.latency.percentile_ns(50.0).filter(|_| flow.latency.count() >= MANY);
    usual_ns.filter(|&ns| ns <= deadline_ns)
}

fn side(process: &Process, tid: u32) -> Side {
    Side { pid: process.pid, tid: Some(tid), ..Side::default() }
}

fn name(process: &Process) -> String {
    match process.name.as_str() {
        "" => format!("process {}", process.pid),
        name => format!("{name} ({})", process.pid),
    }
}
