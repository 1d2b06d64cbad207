//! What recording costs the recorded application.

use std::collections::BTreeMap;

use roundtrip_bench::storage::Strace;
use roundtrip_run::Scheduling;
use roundtrip_run::storage::{Call, WriteEvents};
use roundtrip_skips::{Need, Quiet, skip};
use roundtrip_tracefs::{Trace, Tracefs};

use super::{CALM, is_root, ratios, rounds};
use crate::support::storage::folder;
use crate::support::writes::{Recorder, Writing, median};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Probe {
    Bare,
    BareAgain,
    Least,
    Usual,
    Diagnosis,
    Strace,
}

impl Probe {
    fn events(self) -> Option<WriteEvents> {
        match self {
            Self::Bare | Self::BareAgain | Self::Strace => None,
            Self::Least => Some(WriteEvents::Least),
            Self::Usual => Some(WriteEvents::Usual),
            Self::Diagnosis => Some(WriteEvents::Diagnosis),
        }
    }
}

/// The number of enabled events in other traces, which slow down all kinds of block equally.
fn other_traces() -> usize {
    let root = Tracefs::open().unwrap().root().to_owned();
    let instances = std::fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    let traces = instances.map(|entry| entry.path()).chain([root]);
    let events = traces.map(|trace| std::fs::read_to_string(trace.join("set_event")).unwrap_or_default());
    events.map(|events| events.lines().count()).sum()
}

/// The number of recorded events during the median call, on any CPU.
fn events_a_call(trace: &Trace, calls: &[Call]) -> f64 {
    let within = |call: &Call| {
        let (first, after) = (
            trace.events.partition_point(|event| event.time_ns < call.start_ns),
            trace.events.partition_point(|event| event.time_ns <= call.end_ns),
        );
        (after - first) as f64
    };
    median(calls.iter().map(within).collect())
}

/// Prints the cost of each set of events beside its limit. Returns the sets that certainly cost
/// more.
fn over_the_limits(
    times: &BTreeMap<Probe, Vec<f64>>,
    recorded: &BTreeMap<Probe, Vec<f64>>,
    bare: &[f64],
) -> Vec<String> {
    let bare_ns = median(bare.to_vec());
    let mut broken = Vec::new();
    for (kind, most) in [(Probe::Least, 1.08), (Probe::Usual, 1.12), (Probe::Diagnosis, 1.12)] {
        let [low, ratio, high] = ratios(&times[&kind], bare);
        let events = median(recorded[&kind].clone());
        let holds = match () {
            () if high <= most => "holds",
            () if low > most => "DOES NOT HOLD",
            () => "is not certain",
        };
        println!(
            "{kind:?}: {ratio:.3} ({low:.3} to {high:.3}), at most {most}: {holds}; {events} events a write, {:.0} ns each",
            (ratio - 1.0) * bare_ns / events
        );
        if low > most {
            broken.push(format!("{kind:?} costs {ratio:.3}"));
        }
    }
    broken
}

#[test]
#[ignore = "needs a calm machine: cargo xtask storage"]
fn recording_costs_at_most_8_percent_and_12_for_diagnosis() {
    const EVENTS: [Probe; 5] = [Probe::Bare, Probe::BareAgain, Probe::Least, Probe::Usual, Probe::Diagnosis];
    /// The number of rounds. With it, two identical kinds of block agree within a few percent even
    /// on a shared machine.
    const ROUNDS: usize = 150;
    if !is_root() {
        return;
    }
    let (others, quiet) = (other_traces(), Quiet::watch());
    let folder = folder("cost");
    let mut writing = Writing::start(&folder.join("file"), Some(Scheduling::fifo(50)), None);
    let (pid, tid) = (writing.writer.opened.pid, writing.tid());
    let mut recorded: BTreeMap<Probe, Vec<f64>> = BTreeMap::new();
    let mut block = |kind: Probe| {
        let recorder = kind.events().map(|events| Recorder::start(&[tid], events));
        let strace = (kind == Probe::Strace).then(|| Strace::attach(pid).unwrap());
        let calls = writing.write(60);
        drop(strace);
        if let Some(recorder) = recorder {
            recorded.entry(kind).or_default().push(events_a_call(&recorder.stop(), &calls));
        }
        median(calls.iter().map(|call| call.latency_ns() as f64).collect())
    };
    let times = rounds(&EVENTS, ROUNDS, &mut block);
    let with_strace = Strace::check().is_ok().then(|| rounds(&[Probe::Bare, Probe::Strace], 15, &mut block));
    let _ = std::fs::remove_dir_all(&folder);
    let bare = &times[&Probe::Bare];
    let bare_ns = median(bare.clone());
    println!("16 KiB, O_DSYNC, real-time writer: {:.1} us a write unwatched", bare_ns / 1000.0);
    let [low, again, high] = ratios(&times[&Probe::BareAgain], bare);
    println!("unwatched / unwatched: {again:.3} ({low:.3} to {high:.3})");
    let broken = over_the_limits(&times, &recorded, bare);
    match with_strace {
        Some(times) => {
            let [low, ratio, high] = ratios(&times[&Probe::Strace], &times[&Probe::Bare]);
            println!("Strace: {ratio:.3} ({low:.3} to {high:.3})");
        }
        None => println!("Strace: not here"),
    }
    if others > 0 {
        skip(Need::Quiet, format!("other traces have {others} events on, which cost time in every block"));
    } else if let Some(why) = quiet.disturbance() {
        skip(Need::Quiet, why);
    } else if low < 1.0 - CALM || high > 1.0 + CALM {
        skip(Need::Quiet, format!("two kinds of block that are the same differ: {low:.3} to {high:.3}"));
    } else {
        assert!(broken.is_empty(), "{broken:?}");
    }
}
