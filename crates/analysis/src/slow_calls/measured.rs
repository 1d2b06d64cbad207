//! The slow calls of a latency test. For each call, more is known than the kernel's events: both
//! programs' timestamps and counters.

use latency::{Histogram, Placement, Policy, Sample};
use layers::{Counters, RoundTrip, Side};
use run::Scheduling;
use run::ipc::latency::{CallCounters, CallsOf, LatencyResult, Miss, ThreadId, Trigger};
use tracefs::Recording;

use super::{Kept, SlowCall};
use crate::error::Result;

/// The slow calls that a result has kept; `None` if the plan did not request any.
pub(super) fn kept(result: &LatencyResult, virtualised: bool) -> Option<Kept> {
    let explained = result.explained.as_ref()?;
    let plan = result.plan.explain.as_ref();
    let callers = || result.series.iter().flat_map(|series| &series.pairs).flat_map(|pair| &pair.callers);
    let mut all = Histogram::new();
    callers().for_each(|caller| all.merge(&caller.latency));
    let calls = explained.misses.iter().map(|miss| {
        let kind_name = pair_name(result, miss.series, miss.pair);
        SlowCall {
            number: 0,
            kind: (miss.series, miss.pair),
            what: format!("{kind_name}, {} caller", miss.caller),
            kind_name,
            trip: round_trip(result, miss, virtualised),
            snapshot: miss.snapshot,
        }
    });
    let not_recorded = explained.not_recorded.clone();
    let kept = Kept {
        calls: calls.collect(),
        all_calls: result.series.iter().flat_map(|series| &series.pairs).map(|pair| pair.count()).sum(),
        deadline_ns: result.plan.deadline.ns,
        usual_ns: all.percentile_ns(50.0),
        slowest: plan.is_some_and(|plan| plan.trigger != Trigger::Deadline),
        limit: plan.map_or(explained.misses.len() as u64, |plan| plan.limit.into()),
        over_limit: explained.over_limit,
        before_comparison: explained.before_comparison,
        not_recorded: not_recorded
            .unwrap_or_else(|| "Roundtrip was still storing another call's recording".into()),
    };
    Some(kept.ranked())
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
    let server_counters = miss.server_counters.as_ref().map(counters).unwrap_or_default();
    RoundTrip {
        start_ns: sample.start_ns,
        received_ns: stamp(sample.received_ns),
        replied_ns: stamp(sample.replied_ns),
        end_ns: sample.end_ns,
        client: side(miss.client, priority(&sample.caller), counters(&miss.client_counters)),
        server: miss.server.map(|server| side(server, priority(&sample.server), server_counters)),
        deadline_ns: Some(result.plan.deadline.ns),
        usual_ns: caller.and_then(|caller| caller.latency.percentile_ns(50.0)),
        virtualised,
    }
}

fn side(thread: ThreadId, prio: Option<i32>, counters: Counters) -> Side {
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

fn counters(counted: &CallCounters) -> Counters {
    Counters {
        cpu_ns: counted.cpu_ns,
        since_ns: Some(counted.since_ns),
        running_ns: counted.running_ns,
        run_delay_ns: counted.run_delay_ns,
        voluntary_switches: counted.voluntary_switches,
        involuntary_switches: counted.involuntary_switches,
        major_faults: counted.major_faults,
        throttled: counted.throttled,
        throttled_ns: counted.throttled_ns,
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
