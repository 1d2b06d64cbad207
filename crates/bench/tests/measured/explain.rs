//! Slow calls and their recordings on the running kernel. If this process may not use the kernel's
//! trace, tests what a run keeps without it. Nothing here depends on how long anything takes.
#![allow(clippy::print_stderr)] // The tests print what they could not check.

use std::path::{Path, PathBuf};

use roundtrip_bench::ipc::latency;
use roundtrip_bench::worker::Spawner;
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::Profile;
use roundtrip_run::ipc::latency::{Amount, ExplainPlan, Explained, LatencyPlan, LatencyResult, Trigger};
use roundtrip_run::ipc::{DriverChoice, DriverPlan};
use roundtrip_tracefs::{Body, Recording, Tracefs};

/// A temporary folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-explain-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn recording(&self) -> PathBuf {
        self.0.join("recording")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan(folder: &Folder, deadline_ns: u64, trigger: Trigger) -> LatencyPlan {
    LatencyPlan {
        driver: DriverPlan { choice: DriverChoice::Emulated, profile: Profile::Ack, ..DriverPlan::default() },
        amount: Amount::Iterations(40),
        callers: vec![Scheduling::other(0), Scheduling::other(5)],
        deadline: roundtrip_latency::Deadline { ns: deadline_ns },
        keep_samples: true,
        explain: Some(ExplainPlan {
            trigger,
            limit: 3,
            kilobytes: 256,
            ..ExplainPlan::new(folder.recording())
        }),
        ..LatencyPlan::default()
    }
}

fn run(plan: &LatencyPlan) -> (LatencyResult, Explained) {
    let spawner = Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"));
    let result = latency::run(plan, &spawner, &mut |_| {}).unwrap();
    let explained = result.explained.clone().unwrap();
    for miss in &explained.misses {
        let caller = &result.series[miss.series].pairs[miss.pair].callers;
        let caller = caller.iter().find(|caller| caller.caller == miss.caller).unwrap();
        assert!(caller.samples.contains(&miss.sample), "a miss is one of the calls");
        assert!(miss.server.is_some_and(|server| server.tid != miss.client.tid));
        assert!(miss.client_counters.since_ns <= Some(miss.sample.start_ns));
        assert!(miss.client_counters.voluntary_switches.is_some() && miss.server_counters.is_some());
    }
    (result, explained)
}

/// Whether the kernel's trace can be used. Each test checks in any case what a run keeps without
/// it.
fn recorder() -> bool {
    match Tracefs::open() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("tested without a recorder: {error}");
            false
        }
    }
}

/// Checks that each kept call lies completely in its snapshot. In one call, the events of the
/// server may be missing: a virtual machine's kernel omits single switches, and a server that was
/// preempted before it slept needs no wakeup. Then only the server's counters show that it ran.
fn check_recording(directory: &Path, explained: &Explained) {
    let recording = Recording::open(directory).unwrap();
    let calls = explained.misses.iter().chain(&explained.others);
    let mut numbers: Vec<u32> = calls.filter_map(|miss| miss.snapshot).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(recording.snapshots().unwrap(), numbers, "one for each call and no other");
    let mut unseen = Vec::new();
    for miss in &explained.misses {
        let Some(number) = miss.snapshot else { continue };
        let trace = recording.read(number).unwrap();
        let stopped_ns = trace.stopped_ns.unwrap();
        assert!(stopped_ns >= miss.sample.end_ns);
        assert!(trace.events.iter().all(|event| event.time_ns <= stopped_ns), "no event follows");
        let within = |ns: u64| (miss.sample.start_ns..=miss.sample.end_ns).contains(&ns);
        // The client woke the server. Or the server was preempted after its previous reply and had
        // not slept yet, so there is only a switch to it. If a virtual machine's kernel omits the
        // switch, there is an event of the server itself, or none in a short stretch.
        let server = miss.server.map(|server| server.tid);
        let served = trace.events.iter().filter(|event| within(event.time_ns)).any(|event| {
            let named = match &event.body {
                Body::Waking { thread, .. } | Body::Switch { next: thread, .. } => Some(thread.tid),
                _ => None,
            };
            [named, Some(event.tid)].contains(&server)
        });
        if !served {
            let ran_ns = miss.server_counters.as_ref().and_then(|counters| counters.running_ns);
            assert!(ran_ns.is_some_and(|ns| ns > 0), "{miss:?}");
            unseen.push(miss);
        }
        let from_ns = trace.complete_from_ns.values().copied().max().unwrap();
        assert!(from_ns <= miss.sample.start_ns, "complete from {from_ns}");
        for thread in [Some(miss.client), miss.server].into_iter().flatten() {
            assert_eq!(trace.processes.get(&thread.tid), Some(&thread.pid));
        }
    }
    assert!(unseen.len() <= 1, "the server is woken, or seen at work: {unseen:?}");
}

#[test]
fn of_the_calls_that_miss_the_slowest_are_kept() {
    let folder = Folder::new("worst");
    let (result, explained) = run(&plan(&folder, 0, Trigger::Deadline));
    let samples = result.series[0].pairs.iter().flat_map(|pair| &pair.callers);
    let samples = samples.flat_map(|caller| &caller.samples).map(roundtrip_latency::Sample::latency_ns);
    let mut slowest: Vec<u64> = samples.collect();
    slowest.sort_unstable_by(|one, other| other.cmp(one));
    slowest.truncate(3);
    let mut kept: Vec<u64> = explained.misses.iter().map(|miss| miss.sample.latency_ns()).collect();
    kept.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(kept, slowest, "all 80 missed, in whatever order");
    if recorder() {
        // A call that is neither kept nor to be summed up leaves no snapshot.
        let calls = explained.misses.iter().chain(&explained.others);
        let numbers: Vec<u32> = calls.filter_map(|miss| miss.snapshot).collect();
        let stored = Recording::open(&folder.recording()).unwrap().snapshots().unwrap();
        assert!(stored.iter().all(|number| numbers.contains(number)), "{stored:?} {numbers:?}");
    }
}

#[test]
fn misses_are_kept_up_to_the_limit_and_the_rest_is_counted() {
    let folder = Folder::new("deadline");
    let (result, explained) = run(&plan(&folder, 0, Trigger::Deadline));
    assert_eq!((explained.misses.len(), explained.over_limit), (3, 77), "all 80 calls missed");
    assert!(explained.misses.is_sorted_by_key(|miss| miss.sample.start_ns));
    assert_eq!(explained.while_busy, 0, "one client misses one call at a time");
    assert_eq!(result.series[0].pairs[0].count(), 80);
    if recorder() {
        assert_eq!(folder.names(), ["recording"], "nothing half-made is left");
        assert!(explained.misses.iter().all(|miss| miss.snapshot.is_some()));
        check_recording(&folder.recording(), &explained);
        let events = explained.recorder.unwrap().events;
        assert!(events.iter().any(|event| event == "sched/sched_switch"));
    } else {
        assert!(explained.recorder.is_none() && explained.misses.iter().all(|miss| miss.snapshot.is_none()));
        let why = explained.not_recorded.unwrap();
        assert!(result.warnings.iter().any(|warning| warning.contains(&why)), "{why}");
        assert!(folder.names().is_empty());
    }
}

#[test]
fn a_run_without_misses_keeps_nothing() {
    let folder = Folder::new("none");
    let (_, explained) = run(&plan(&folder, u64::MAX, Trigger::Deadline));
    assert!(explained.misses.is_empty() && explained.over_limit == 0);
    assert!(folder.names().is_empty());
}

#[test]
fn the_slowest_are_those_with_the_longest_times() {
    let folder = Folder::new("slowest");
    let mut plan = plan(&folder, u64::MAX, Trigger::Slowest(4));
    plan.amount = Amount::Iterations(100);
    plan.pairs = 2;
    let (result, explained) = run(&plan);
    // Each pair's calls in their order, which a pair makes one after the other. The first tenth is
    // only compared with.
    let mut calls: Vec<(bool, u64)> = Vec::new();
    for pair in &result.series[0].pairs {
        let mut samples: Vec<_> = pair.callers.iter().flat_map(|caller| &caller.samples).collect();
        samples.sort_by_key(|sample| sample.start_ns);
        calls.extend(samples.iter().enumerate().map(|(at, sample)| (at < 10, sample.latency_ns())));
    }
    calls.sort_unstable_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    calls.truncate(4);
    let kept: Vec<u64> = explained.misses.iter().map(|miss| miss.sample.latency_ns()).collect();
    let missing: Vec<_> = calls.iter().filter(|(_, ns)| !kept.contains(ns)).collect();
    assert_eq!(explained.before_comparison, missing.len() as u64, "{calls:?} {kept:?}");
    assert!(missing.iter().all(|(early, _)| *early), "{calls:?} {kept:?}");
    // If none of them is recorded, one that is recorded is kept besides.
    let recorded = explained.misses.iter().filter(|miss| miss.snapshot.is_some()).count();
    assert!(kept.len() <= 4 || (kept.len(), recorded) == (5, 1), "{kept:?}, {recorded} recorded");
    if recorder() {
        check_recording(&folder.recording(), &explained);
    }
}

#[test]
fn a_later_recording_takes_the_place_of_an_earlier_one() {
    let folder = Folder::new("again");
    for _ in 0..2 {
        run(&plan(&folder, 0, Trigger::Deadline));
    }
    if recorder() {
        assert_eq!(folder.names(), ["recording"]);
    }
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let folder = Folder::new("refused");
    let refused = |plan: LatencyPlan| plan.check().unwrap_err().to_string();
    assert!(refused(plan(&folder, 0, Trigger::Slowest(0))).contains("slowest"));
    let halt_trace = Some(roundtrip_run::ipc::latency::HaltTrace::default());
    assert!(
        refused(LatencyPlan { halt_trace, ..plan(&folder, 0, Trigger::Deadline) }).contains("choose one")
    );
}
