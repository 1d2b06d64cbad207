//! Slow calls among the observed calls of other programs. Only the kernel's events are known about
//! them.

use roundtrip_latency::Deadline;
use roundtrip_layers::reasons::Across;
use roundtrip_layers::{Basis, RoundTrip, Side};
use roundtrip_run::ipc::observe::{Flow, ObserveResult, Process, SlowCall as Observed};
use roundtrip_tracefs::Trace;

use super::{Kept, MANY, SlowCall, classify};
use crate::causes;

/// The slow calls that a result has kept; `None` if the plan did not request any.
pub(super) fn kept(result: &ObserveResult, virtualised: bool) -> Option<Kept> {
    if result.plan.limit == 0 {
        return None;
    }
    let calls = result.slow_calls.iter().filter_map(|slow| {
        let flow = result.flows.get(slow.flow)?;
        let (kind_name, code) = match flow.stands_for {
            0 => {
                (format!("{} to {}", name(&flow.client), name(&flow.server)), format!(", code {}", flow.code))
            }
            _ => (roundtrip_run::OTHERS.to_owned(), String::new()),
        };
        Some(SlowCall {
            number: 0,
            kind: (slow.flow, 0),
            what: format!("{kind_name}, node {}{code}", slow.node),
            kind_name,
            trip: trip(flow, slow, result.plan.deadline, virtualised),
            snapshot: slow.snapshot,
        })
    });
    let kept = Kept {
        calls: calls.collect(),
        durations: result.flows.iter().map(|flow| &flow.latency).collect(),
        elapsed_ns: result.elapsed_ns,
        deadline_ns: result.plan.deadline.ns,
        slowest: false,
        limit: result.plan.limit.into(),
        over_limit: result.over_limit,
        others: Across::default(),
        all: result.causes.as_ref().filter(|_| result.over_limit > 0).map(causes::read),
        before_comparison: 0,
        not_recorded: result.not_recorded.clone().unwrap_or_else(|| "it was not recorded".into()),
    };
    Some(kept.ranked())
}

/// What delayed observed calls that missed the deadline, without their details.
#[derive(Debug)]
pub struct Missed {
    deadline: Deadline,
    virtualised: bool,
    across: Across,
}

impl Missed {
    /// Without calls.
    #[must_use]
    pub fn new(deadline: Deadline, virtualised: bool) -> Self {
        Self { deadline, virtualised, across: Across::default() }
    }

    /// Adds calls of these rows. The trace covers them and some time before.
    pub fn add(&mut self, trace: &Trace, flows: &[Flow], calls: &[Observed]) {
        let trips = calls.iter().filter_map(|slow| {
            // What is usual so far.
            Some(trip(flows.get(slow.flow)?, slow, self.deadline, self.virtualised))
        });
        self.across.merge(&classify(&Basis::of(trace), &trips.collect::<Vec<_>>()));
    }

    /// What delayed them.
    #[must_use]
    pub fn across(&self) -> &Across {
        &self.across
    }
}

fn trip(flow: &Flow, slow: &Observed, deadline: Deadline, virtualised: bool) -> RoundTrip {
    RoundTrip {
        start_ns: slow.start_ns,
        received_ns: Some(slow.received_ns),
        replied_ns: Some(slow.replied_ns),
        end_ns: slow.end_ns,
        client: side(&flow.client, slow.client),
        server: Some(side(&flow.server, slow.server)),
        deadline_ns: Some(deadline.ns),
        usual_ns: usual_ns(flow, deadline.ns),
        virtualised,
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use roundtrip_run::{RECORDING, Run};
    use roundtrip_tracefs::Recording;

    use super::*;
    use crate::slow_calls::{Explained, explain};

    #[test]
    fn calls_are_classified_without_their_details_as_they_are_with_them() {
        let directory = Path::new("../../fixtures/runs/x86_64-6.1-observed");
        let mut result = Run::read(directory).unwrap().results.observed_calls.unwrap();
        let before = kept(&result, true).unwrap();
        let mut wanted = Across::default();
        let explained = explain(&before, directory, |_| true, None).unwrap();
        let timed = |one: &Explained| crate::slow_calls::timed(&one.call.trip);
        explained.iter().for_each(|one| wanted.add_timed(timed(one), &one.explanation.reasons));
        let recording = Recording::open(&directory.join(RECORDING)).unwrap();
        let mut missed = Missed::new(result.plan.deadline, true);
        let mut snapshots: Vec<u32> = result.slow_calls.iter().filter_map(|slow| slow.snapshot).collect();
        snapshots.sort_unstable();
        snapshots.dedup();
        for number in snapshots {
            let calls = result.slow_calls.iter().filter(|slow| slow.snapshot == Some(number)).cloned();
            missed.add(&recording.read(number).unwrap(), &result.flows, &calls.collect::<Vec<_>>());
        }
        let rows = |of: &Across| {
            let mut rows: Vec<String> = of.rows().iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        assert_eq!(rows(missed.across()), rows(&wanted));
        assert!(missed.across().operations() > 10 && result.over_limit > 0);
        // The run says what delayed the others, too.
        let words = |reason: &roundtrip_layers::reasons::Reason| format!("{reason:?}");
        assert_eq!((before.all.clone(), before.classified()), (None, 0));
        missed.add(&Trace::default(), &result.flows, &result.slow_calls[..3]);
        result.causes = Some(causes::stored(missed.across(), &words));
        let kept = kept(&result, true).unwrap();
        assert_eq!(kept.classified(), 3);
        assert_eq!(kept.all.unwrap().operations(), missed.across().operations());
    }
}
