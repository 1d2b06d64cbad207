//! The slow calls of a latency test. For each call, more is known than the kernel's events: both
//! programs' timestamps and counters.

use std::path::Path;

use roundtrip_latency::{Placement, Policy, Sample};
use roundtrip_layers::reasons::Across;
use roundtrip_layers::{CallCounters, RoundTrip, Side, Timeline};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::{CallsOf, LatencyResult, Miss, ThreadId, Trigger};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::Recording;

use super::{Kept, SlowCall, timed};
use crate::causes::{self, Words};
use crate::error::Result;

/// The slow calls that a result has kept; `None` if the plan did not request any.
pub(super) fn kept(result: &LatencyResult, virtualised: bool) -> Option<Kept> {
    let explained = result.explained.as_ref()?;
    let plan = result.plan.explain.as_ref();
    let calls = explained.misses.iter().map(|miss| slow_call(result, miss, virtualised));
    let not_recorded = explained.not_recorded.clone();
    let pairs = result.series.iter().flat_map(|series| &series.pairs);
    let callers = pairs.flat_map(|pair| &pair.callers);
    let kept = Kept {
        calls: calls.collect(),
        durations: callers.map(|caller| &caller.latency).collect(),
        elapsed_ns: 0,
        deadline_ns: result.plan.deadline.ns,
        slowest: plan.is_some_and(|plan| plan.trigger != Trigger::Deadline),
        limit: plan.map_or(explained.misses.len() as u64, |plan| plan.limit.into()),
        over_limit: explained.over_limit,
        others: explained.causes_of_others.as_ref().map_or_else(Across::default, causes::read),
        all: None,
        before_comparison: explained.before_comparison,
        not_recorded: not_recorded
            .unwrap_or_else(|| "Roundtrip was still storing another call's recording".into()),
    };
    Some(kept.ranked())
}

fn slow_call(result: &LatencyResult, miss: &Miss, virtualised: bool) -> SlowCall {
    let kind_name = pair_name(result, miss.series, miss.pair);
    SlowCall {
        number: 0,
        kind: (miss.series, miss.pair),
        what: format!("{kind_name}, {} caller", miss.caller),
        kind_name,
        trip: round_trip(result, miss, virtualised),
        snapshot: miss.snapshot,
    }
}

/// Adds up what delayed the slow calls beyond the limit, from their recordings in this folder, and
/// keeps only the sums. Returns the snapshots that are of no further use.
///
/// # Errors
/// If the recording cannot be read. Then these calls are only counted.
pub fn sum_up_others(
    result: &mut LatencyResult,
    virtualised: bool,
    recording: &Path,
    words: &Words,
) -> Result<Vec<u32>> {
    let Some(explained) = &mut result.explained else { return Ok(Vec::new()) };
    let others = std::mem::take(&mut explained.others);
    let kept: Vec<Option<u32>> = explained.misses.iter().map(|miss| miss.snapshot).collect();
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let mut unused: Vec<u32> = others.iter().filter_map(|miss| miss.snapshot).collect();
    unused.sort_unstable();
    unused.dedup();
    unused.retain(|&number| !kept.contains(&Some(number)));
    let calls: Vec<SlowCall> = others.iter().map(|miss| slow_call(result, miss, virtualised)).collect();
    let across = explained_others(calls, recording)?;
    if let Some(explained) = &mut result.explained {
        explained.causes_of_others = Some(causes::stored(&across, words));
    }
    Ok(unused)
}

fn explained_others(mut calls: Vec<SlowCall>, recording: &Path) -> Result<Across> {
    let recording = recording.exists().then(|| Recording::open(recording)).transpose()?;
    let mut across = Across::default();
    calls.small_sort_by_key(|call| (call.snapshot, call.trip.start_ns));
    for some in calls.chunk_by(|one, other| one.snapshot == other.snapshot) {
        let snapshot = recording.as_ref().zip(some[0].snapshot);
        let trace = snapshot.map(|(recording, number)| recording.read(number)).transpose()?;
        let timeline = trace.as_ref().map(Timeline::new);
        for call in some {
            let explanation = match &timeline {
                Some(timeline) => roundtrip_layers::explain(timeline, &call.trip),
                None => roundtrip_layers::explain_without_events(&call.trip),
            };
            across.add_timed(timed(&call.trip), &explanation.reasons);
        }
    }
    Ok(across)
}

/// The calls of one caller within a snapshot's window, slow or not.
pub struct Calls {
    /// The series, counted from 0.
    pub series: usize,
    /// The pair, counted from 0.
    pub pair: usize,
    /// The pair's name: "hwbinder, pair P0".
    pub pair_name: String,
    /// How the caller is scheduled: "fifo:99".
    pub caller: String,
    /// The calls in chronological order.
    pub samples: Vec<Sample>,
    /// Whether these are all calls of the caller in the window.
    pub complete: bool,
}

/// All calls within a snapshot's window; `None` for a run that kept only slow calls.
///
/// # Errors
/// If the calls exist but cannot be read.
pub fn recorded_calls(
    result: &LatencyResult,
    recording: &Recording,
    snapshot: u32,
) -> Result<Option<Vec<Calls>>> {
    let Some(explained) = &result.explained else { return Ok(None) };
    let calls = crate::recorded_calls::recorded_calls(explained, recording, snapshot)?;
    let named = |(of, samples): CallsOf| Calls {
        series: of.series,
        pair: of.pair,
        pair_name: pair_name(result, of.series, of.pair),
        caller: of.caller.to_string(),
        samples,
        complete: of.complete,
    };
    Ok(calls.map(|calls| calls.into_iter().map(named).collect()))
}

/// A pair's name: "hwbinder, pair P0". If a stack is measured with both inheritance settings, the
/// name includes the setting.
fn pair_name(result: &LatencyResult, series: usize, pair: usize) -> String {
    let Some(of) = result.series.get(series) else { return format!("pair P{pair}") };
    let twice = result.series.iter().filter(|other| other.stack == of.stack).count() > 1;
    let setting = if twice { format!(", inheritance {}", of.inheritance.name()) } else { String::new() };
    format!("{}{setting}, pair P{pair}", of.stack)
}

fn round_trip(result: &LatencyResult, miss: &Miss, virtualised: bool) -> RoundTrip {
    let sample = &miss.sample;
    let stamp = |ns: u64| (ns > 0).then_some(ns);
    let pair = result.series.get(miss.series).and_then(|series| series.pairs.get(miss.pair));
    let callers = pair.map_or(&[][..], |pair| &pair.callers);
    let caller = callers.iter().find(|caller| caller.caller == miss.caller);
    let priority = |placement: &Placement| {
        let Placement { policy, priority, nice, .. } = *placement;
        kernel_priority(Scheduling { policy, priority, nice })
    };
    let server_counters = miss.server_counters.unwrap_or_default();
    RoundTrip {
        start_ns: sample.start_ns,
        received_ns: stamp(sample.received_ns),
        replied_ns: stamp(sample.replied_ns),
        end_ns: sample.end_ns,
        client: side(miss.client, priority(&sample.caller), miss.client_counters),
        server: miss.server.map(|server| side(server, priority(&sample.server), server_counters)),
        deadline_ns: Some(result.plan.deadline.ns),
        usual_ns: caller.and_then(|caller| caller.latency.percentile_ns(50.0)),
        virtualised,
    }
}

fn side(thread: ThreadId, prio: Option<i32>, counters: CallCounters) -> Side {
    Side { pid: thread.pid, tid: (thread.tid > 0).then_some(thread.tid), prio, counters }
}

/// Converts a scheduling to the value of `task_struct.prio` (`include/linux/sched/prio.h`).
fn kernel_priority(scheduling: Scheduling) -> Option<i32> {
    match scheduling.policy {
        Policy::Fifo | Policy::RoundRobin => Some(99 - i32::from(scheduling.priority)),
        Policy::Other | Policy::Batch | Policy::Idle => Some(120 + i32::from(scheduling.nice)),
        Policy::Deadline => Some(-1),
        Policy::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_the_kernels() {
        assert_eq!(kernel_priority(Scheduling::fifo(99)), Some(0));
        assert_eq!(kernel_priority(Scheduling::other(-20)), Some(100));
        assert_eq!(kernel_priority(Scheduling::other(19)), Some(139));
    }
}
