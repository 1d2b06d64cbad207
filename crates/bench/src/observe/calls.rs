//! Observes other programs' binder calls as they happen. The caller supplies the code that finds
//! what delayed the slow ones.

use std::ops::ControlFlow;

use roundtrip_latency::Timeline;
use roundtrip_observed::calls::{Call, Matcher, Observed};
use roundtrip_run::Causes;
use roundtrip_run::ipc::observe::{Flow, ObservePlan, ObserveResult, SlowCall, Unseen};
use roundtrip_tracefs::Trace;

use super::flows::{Ends, Flows};
use super::slow::Slow;
use super::together::Together;
use super::watch::{self, Watch, Watched};
use crate::clock::now_ns;
use crate::error::{Error, NotHere, Result};
use crate::progress::Progress;
use crate::recorder::selection;
use crate::worker::Interrupts;

/// The result of reading the buffers once.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// How long the observer has run, in nanoseconds.
    pub elapsed_ns: u64,
    /// The new place of each row, by its place in the last round; empty if they are the same.
    pub moved: &'a [usize],
    /// The rows of the table so far. The first one is the sum of all without a row of their own.
    pub flows: &'a [Flow],
    /// The transactions that have ended since the last round, each with the place of its row.
    pub ended: &'a [(usize, Observed)],
    /// Events that the kernel had to drop so far.
    pub lost_events: u64,
}

/// The most slow calls that are classified together. More are only counted, so that the observer
/// keeps up with programs whose every call is slow.
const MAX_TOGETHER: usize = 500;

/// Finds what delayed calls.
pub trait Classify {
    /// Adds calls that missed the deadline. The trace covers them and some time before.
    fn classify(&mut self, trace: &Trace, flows: &[Flow], calls: &[SlowCall]);

    /// What delayed all of them.
    fn causes(&mut self) -> Causes;
}

/// Observes until the plan's time is up, its command has ended, or a signal arrives. `each` is
/// called several times a second and may end it earlier.
///
/// # Errors
/// [`Error::NotHere`] without binder's events; [`Error::Trace`] where this process may not record;
/// [`Error::System`] when the command cannot be started.
pub fn run(
    plan: &ObservePlan,
    classify: &mut dyn Classify,
    report: &mut dyn FnMut(Progress<'_>),
    each: &mut dyn FnMut(&Round<'_>) -> ControlFlow<()>,
) -> Result<ObserveResult> {
    let interrupts = Interrupts::watch()?;
    let (mut watch, recording) = Watch::open(&plan.directory, plan.kilobytes, |tracefs| {
        selection::transactions(
            plan.limit > 0,
            |event| tracefs.has_event(event),
            |event, field| tracefs.has_field(event, field),
        )
    })
    .map_err(without_binder)?;
    let begin_ns = now_ns();
    let mut observer = Observer {
        plan,
        each,
        begin_ns,
        has_enough: false,
        matcher: Matcher::new(roundtrip_observed::MAX_IN_FLIGHT),
        flows: Flows::default(),
        moved: Vec::new(),
        timeline: Timeline::new(begin_ns),
        slow: Slow::new(plan.limit, recording),
        classify,
        unclassified: Together::new(),
    };
    let watched = Watched { subject: &plan.subject, duration_ns: plan.duration_ns, what: "observing calls" };
    let elapsed_ns = watch.run(interrupts, &watched, &mut observer, report)?;
    observer.classify(&watch)?;
    Ok(observer.finish(elapsed_ns, &watch))
}

/// A kernel without binder's events usually has no driver either.
fn without_binder(error: Error) -> Error {
    match error {
        Error::Trace(roundtrip_tracefs::Error::MissingEvent { event }) if event.starts_with("binder/") => {
            NotHere::BinderEvents.into()
        }
        other => other,
    }
}

struct Observer<'a> {
    plan: &'a ObservePlan,
    each: &'a mut dyn FnMut(&Round<'_>) -> ControlFlow<()>,
    begin_ns: u64,
    has_enough: bool,
    matcher: Matcher,
    flows: Flows,
    /// The new places of the rows since the last round; empty if they are the same.
    moved: Vec<usize>,
    timeline: Timeline,
    slow: Slow<SlowCall>,
    classify: &'a mut dyn Classify,
    /// Calls that missed the deadline and are not classified yet.
    unclassified: Together<SlowCall>,
}

impl watch::Observer for Observer<'_> {
    fn round(&mut self, watch: &mut Watch, trace: &Trace) -> Result<()> {
        let mut ended = Vec::new();
        for event in &trace.events {
            self.matcher.add(event, &mut |observed| ended.push(observed));
        }
        let counted =
            ended.into_iter().filter_map(|observed| Some((self.count(&observed, watch)?, observed)));
        let ended: Vec<_> = counted.collect();
        let is_full = self.flows.is_full();
        if self.unclassified.is_due(watch.taken_bytes) || is_full {
            self.classify(watch)?;
        }
        self.slow.keep(|from_ns| watch.snapshot(from_ns));
        let round = Round {
            elapsed_ns: now_ns().saturating_sub(self.begin_ns),
            moved: &self.moved,
            flows: self.flows.rows(),
            ended: &ended,
            lost_events: watch.lost_events,
        };
        self.has_enough |= (self.each)(&round).is_break();
        self.moved.clear();
        if is_full {
            self.moved = self.flows.shrink();
            self.slow.moved(&self.moved);
        }
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.has_enough
    }
}

impl Observer<'_> {
    /// Counts a transaction that has ended, if the plan observes it. Returns the place of its row.
    fn count(&mut self, observed: &Observed, watch: &mut Watch) -> Option<usize> {
        let to_process = observed.sent().map_or(0, |sent| sent.to_process);
        let client = watch.process_of(observed.client());
        let server = watch.processes.of_process(to_process);
        let subject = &self.plan.subject;
        if ![client.pid, server.pid].into_iter().any(|pid| watch.processes.is_observed(subject, pid)) {
            return None;
        }
        let pool = observed.server().and_then(|thread| watch.processes.pool_of(thread));
        let ends = Ends { client, server, pool };
        match observed {
            Observed::Call(call) => {
                let flow = self.flows.call(ends, call, self.plan.deadline);
                let missed = self.plan.deadline.missed(call.latency_ns());
                self.timeline.record(call.sent.start_ns, call.latency_ns(), missed);
                if missed {
                    let slow = slow_call(flow, call);
                    if self.plan.limit > 0 && self.unclassified.len() < MAX_TOGETHER {
                        self.unclassified.add(slow.start_ns, slow.clone());
                    }
                    self.slow.add(slow);
                }
                Some(flow)
            }
            Observed::Oneway(oneway) => Some(self.flows.oneway(ends, oneway)),
            Observed::Failed(failed) => Some(self.flows.failed(ends, failed)),
        }
    }

    /// Classifies the calls that missed the deadline since the last time.
    fn classify(&mut self, watch: &Watch) -> Result<()> {
        let Some((from_ns, calls)) = self.unclassified.take() else { return Ok(()) };
        self.classify.classify(&watch.window(from_ns, true)?, self.flows.rows(), &calls);
        Ok(())
    }

    fn finish(self, elapsed_ns: u64, watch: &Watch) -> ObserveResult {
        let Observer { plan, matcher, flows, timeline, mut slow, classify, .. } = self;
        let unmatched = matcher.unmatched();
        let unseen = Unseen {
            lost_events: watch.lost_events,
            begun_before: unmatched.received + unmatched.replies,
            not_ended: unmatched.ended,
            forgotten: unmatched.forgotten,
        };
        let (flows, places) = flows.finish();
        slow.moved(&places);
        let (slow_calls, over_limit, not_recorded) = slow.finish(&watch.folder);
        ObserveResult {
            plan: plan.clone(),
            elapsed_ns,
            flows,
            timeline,
            slow_calls,
            over_limit,
            causes: (plan.limit > 0).then(|| classify.causes()),
            unseen,
            recorder: watch.recorder.info(),
            not_recorded: watch.changed.clone().or(not_recorded),
        }
    }
}

fn slow_call(flow: usize, call: &Call) -> SlowCall {
    SlowCall {
        flow,
        id: call.sent.id,
        node: call.sent.node,
        client: call.sent.client,
        server: call.server,
        start_ns: call.sent.start_ns,
        received_ns: call.received_ns,
        replied_ns: call.replied_ns,
        end_ns: call.end_ns,
        behind_pool_ns: call.behind_pool_ns,
        parent: call.sent.parent,
        snapshot: None,
    }
}
