//! From what a run has kept of its slow calls to their explanations: reads the recording, and turns what was measured into what is to
//! be explained. Neither side knows the other; must not know how explanations are shown.

use std::path::Path;

use latency::{Placement, Policy, Sample};
use layers::{Counters, Explanation, RoundTrip, Side, Timeline};
use run::Scheduling;
use run::ipc::latency::{CallCounters, CallsOf, LatencyResult, Miss, ThreadId};
use run::{RECORDING, Run};
use tracefs::{Recording, Trace};

use crate::damage::refuse_damage;
use crate::error::{Error, Result};

/// A slow call with its explanation.
pub struct Explained<'a> {
    /// Counted from 1, the slowest first.
    pub number: usize,
    /// The call as the run has kept it.
    pub miss: &'a Miss,
    /// Whose call it was: "hwbinder, pair P0".
    pub pair: String,
    /// What the call was: "hwbinder, pair P0, fifo:99 caller".
    pub what: String,
    /// What it was allowed, in nanoseconds.
    pub deadline_ns: u64,
    /// The median of the calls of its kind.
    pub usual_ns: Option<u64>,
    /// What it spent its time on.
    pub explanation: Explanation,
    /// Why there are no kernel events for it.
    pub without_events: Option<String>,
    /// What of its recording is damaged, at the first call of each snapshot.
    pub damage: Option<Error>,
}

/// The slow calls that a run has kept, the slowest first, with their numbers: counted from 1.
pub fn ranked(result: &LatencyResult) -> Vec<(usize, &Miss)> {
    let mut misses: Vec<&Miss> = result.explained.iter().flat_map(|kept| &kept.misses).collect();
    // Of the same length, the earlier first: as they are stored.
    misses.sort_by_key(|miss| std::cmp::Reverse(miss.sample.latency_ns()));
    (1..).zip(misses).collect()
}

/// Explains those slow calls of a run that are wanted, by number (as [`ranked`] counts) and call; the slowest comes first.
/// `directory` has the run's recording, in which names are changed by `rename`.
///
/// # Errors
/// When the recording is there and cannot be read.
pub fn explain<'a>(
    run: &Run,
    result: &'a LatencyResult,
    directory: &Path,
    wanted: impl Fn(usize, &Miss) -> bool,
    rename: Option<&dyn Fn(&str) -> String>,
) -> Result<Vec<Explained<'a>>> {
    let Some(explained) = &result.explained else { return Ok(Vec::new()) };
    let recording = directory.join(RECORDING);
    let recording = recording.exists().then(|| Recording::open(&recording)).transpose()?;
    let virtualised = run.environment.cpus.virtualised == Some(true);
    // Calls that were made at the same time share a snapshot.
    let mut last: Option<(u32, Trace)> = None;
    let mut damage = None;
    let mut out = Vec::new();
    for (number, miss) in ranked(result) {
        if !wanted(number, miss) {
            continue;
        }
        let trip = round_trip(result, miss, virtualised);
        let without_events = match (miss.snapshot, &recording) {
            (Some(snapshot), Some(recording)) => {
                if last.as_ref().is_none_or(|(read, _)| *read != snapshot) {
                    let mut trace = recording.read(snapshot)?;
                    damage = refuse_damage(recording, snapshot, &trace).err();
                    if let Some(rename) = rename {
                        trace.names.change(|name| Some(rename(name)));
                    }
                    last = Some((snapshot, trace));
                }
                None
            }
            (Some(_), None) => Some(format!("its recording is not in {}", directory.display())),
            (None, _) => {
                let reason = explained.not_recorded.clone();
                Some(reason.unwrap_or_else(|| "another call's recording was just being taken".into()))
            }
        };
        let explanation = match &last {
            Some((_, trace)) if without_events.is_none() => layers::explain(&Timeline::new(trace), &trip),
            _ => layers::explain_without_events(&trip),
        };
        let pair = pair_name(result, miss.series, miss.pair);
        out.push(Explained {
            number,
            miss,
            what: format!("{pair}, {} caller", miss.caller),
            pair,
            deadline_ns: result.plan.deadline.ns,
            usual_ns: trip.usual_ns,
            explanation,
            without_events,
            damage: damage.take(),
        });
    }
    Ok(out)
}

/// The calls of one caller that lie in a snapshot, slow or not.
pub struct Calls {
    /// In which series, counted from 0.
    pub series: usize,
    /// Of which pair, counted from 0.
    pub pair: usize,
    /// Whose they are: "hwbinder, pair P0".
    pub pair_name: String,
    /// "fifo:99".
    pub caller: String,
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// Whether these are all.
    pub complete: bool,
}

/// All calls that lie in a snapshot; `None` for a run in which only the slow ones were kept.
///
/// # Errors
/// When they are there and cannot be read.
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

/// Under which name a pair is shown: "hwbinder, pair P0"; a stack that is measured under both inheritance settings is told
/// with its setting.
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

/// A scheduling as `task_struct.prio` has it (`include/linux/sched/prio.h`).
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
