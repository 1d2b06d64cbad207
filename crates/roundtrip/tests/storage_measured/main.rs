//! Measurements that need a calm machine: the cost of recording, a comparison with fio, and causes
//! that move time by microseconds. `cargo xtask storage` runs these. Each prints and judges its
//! figures. Blocks of what is compared alternate, and two kinds of block are identical, which shows
//! if the machine is not calm enough.
#![allow(clippy::print_stdout)] // Figures are what these are for.

#[path = "support/storage.rs"]
mod support;
#[path = "support/writes.rs"]
mod writes_support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::sched;
use bench::storage::Strace;
use layers::storage::{Layer, Write, Writes};
use run::Scheduling;
use run::storage::WriteEvents;
use run::storage::{Call, StoragePath};
use skips::{Need, skip};
use support::{Finally, Journalled, folder, read};
use tracefs::{Body, Trace, Tracefs};
use writes_support::{Recorder, Writing, devices, median, path_of, writes};

/// How much two identical kinds of block may differ for the result to be judged.
const CALM: f64 = 0.03;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(Need::Root, "this needs root");
    }
    root
}

/// The median over rounds, and its 95% interval (order statistics of the binomial distribution, by
/// the normal approximation).
fn with_interval(mut ratios: Vec<f64>) -> [f64; 3] {
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len() as f64;
    let away = 0.98 * n.sqrt();
    let low = (n / 2.0 - away).floor().max(0.0) as usize;
    let high = ((n / 2.0 + away).ceil() as usize).min(ratios.len() - 1);
    [ratios[low], ratios[ratios.len() / 2], ratios[high]]
}

/// Runs each kind of block once per round, in rotating order. Returns the results of each, by
/// round.
fn rounds<K: Copy + Ord>(
    kinds: &[K],
    count: usize,
    mut block: impl FnMut(K) -> f64,
) -> BTreeMap<K, Vec<f64>> {
    let mut out: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    let mut state = 0x9e37_79b9_u64;
    for _ in 0..count {
        let mut order = kinds.to_vec();
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        for kind in order {
            out.entry(kind).or_default().push(block(kind));
        }
    }
    out
}

fn ratios(of: &[f64], to: &[f64]) -> [f64; 3] {
    with_interval(of.iter().zip(to).map(|(of, to)| of / to).collect())
}

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

#[test]
#[ignore = "needs a calm machine: cargo xtask storage"]
fn recording_costs_at_most_8_percent_and_12_for_diagnosis() {
    const EVENTS: [Probe; 5] = [Probe::Bare, Probe::BareAgain, Probe::Least, Probe::Usual, Probe::Diagnosis];
    /// With this many, two identical kinds of block agree within a few percent even on a shared
    /// machine.
    const ROUNDS: usize = 150;
    if !is_root() {
        return;
    }
    let others = other_traces();
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
    let mut broken = Vec::new();
    for (kind, most) in [(Probe::Least, 1.08), (Probe::Usual, 1.12), (Probe::Diagnosis, 1.12)] {
        let [low, ratio, high] = ratios(&times[&kind], bare);
        let events = median(recorded[&kind].clone());
        let holds = match () {
            () if high <= most => "holds",
            () if low > most => "DOES NOT HOLD",
            () => "cannot be told",
        };
        println!(
            "{kind:?}: {ratio:.3} ({low:.3} to {high:.3}), at most {most}: {holds}; {events} events a write, {:.0} ns each",
            (ratio - 1.0) * bare_ns / events
        );
        if low > most {
            broken.push(format!("{kind:?} costs {ratio:.3}"));
        }
    }
    match with_strace {
        Some(times) => {
            let [low, ratio, high] = ratios(&times[&Probe::Strace], &times[&Probe::Bare]);
            println!("Strace: {ratio:.3} ({low:.3} to {high:.3})");
        }
        None => println!("Strace: not here"),
    }
    if others > 0 {
        println!("NOT JUDGED: other traces have {others} events on, which cost time in every block");
    } else if low < 1.0 - CALM || high > 1.0 + CALM {
        println!("NOT JUDGED: two kinds of block that are the same differ; this machine is not calm enough");
    } else {
        assert!(broken.is_empty(), "{broken:?}");
    }
}

/// Runs fio with this many writes of 16 KiB.
fn fio(file: &Path, calls: usize) -> Output {
    Command::new("fio")
        .args([
            "--name=roundtrip",
            "--ioengine=sync",
            "--rw=write",
            "--bs=16k",
            "--sync=dsync",
            "--overwrite=1",
        ])
        .args(["--size=8M", "--output-format=json", &format!("--number_ios={calls}")])
        .arg(format!("--filename={}", file.display()))
        .output()
        .unwrap()
}

/// The writes of the last fio thread that wrote. An earlier one has laid out the file.
fn last_writes(trace: &Trace) -> Vec<Write> {
    let mut by_thread: BTreeMap<u32, Vec<Write>> = BTreeMap::new();
    let mut open: BTreeMap<u32, u64> = BTreeMap::new();
    for event in &trace.events {
        match event.body {
            Body::SysEnter { .. } => {
                open.insert(event.tid, event.time_ns);
            }
            Body::SysExit { result, .. } if result == 16 << 10 => {
                if let Some(start_ns) = open.remove(&event.tid) {
                    let write = Write { start_ns, end_ns: event.time_ns, tid: event.tid };
                    by_thread.entry(event.tid).or_default().push(write);
                }
            }
            _ => {}
        }
    }
    by_thread.into_values().max_by_key(|calls| calls.last().map(|call| call.end_ns)).unwrap()
}

#[test]
#[ignore = "needs a calm machine: cargo xtask storage"]
fn fio_sees_the_same_writes_take_as_long() {
    const CALLS: usize = 500;
    if !is_root() {
        return;
    }
    if Command::new("fio").arg("--version").output().is_err() {
        return skip(Need::Program("fio"), "no fio here; it is in Debian's package fio");
    }
    let Some(file_system) = Journalled::mount_as_root("fio") else { return };
    let file = file_system.mount.join("file");
    let tracefs = Tracefs::open().unwrap();
    let mut selection =
        bench::selection::writes(&[], WriteEvents::Usual, |event| tracefs.has_event(event)).unwrap();
    // Whichever of its processes writes.
    selection.filters.iter_mut().for_each(|filter| filter.1 = "COMM ~ \"fio*\"".into());
    let recorder = Recorder::of(tracefs, &selection);
    let output = fio(&file, CALLS);
    let trace = recorder.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = &told["jobs"][0]["write"];
    assert_eq!(written["total_ios"], CALLS);
    let theirs_ns = written["clat_ns"]["mean"].as_f64().unwrap();
    let calls = last_writes(&trace);
    let calls = &calls[calls.len() - CALLS..];
    let ours_ns = calls.iter().map(|call| call.end_ns - call.start_ns).sum::<u64>() as f64 / CALLS as f64;
    let path = path_of(&file);
    let recorded = Writes::new(&trace, devices(&path));
    let whole_ns = ours_ns * CALLS as f64;
    let (mut unexplained_ns, mut for_switches_ns) = (0, 0);
    let mut many = 0;
    for &call in calls {
        let layers = recorded.layers(call);
        // What a virtual machine's kernel did not record cannot be explained.
        let of_call_ns = layers.total_ns(Layer::Unexplained) - layers.unexplained_for_switches_ns;
        for_switches_ns += layers.unexplained_for_switches_ns;
        unexplained_ns += of_call_ns;
        many += usize::from(of_call_ns * 100 > call.end_ns - call.start_ns);
    }
    let unexplained = unexplained_ns as f64 / whole_ns;
    println!(
        "fio: {:.1} us a write, system calls as recorded: {:.1} us, ratio {:.4}; {:.4}% unexplained, {many} of {CALLS} \
         calls have more than 1%; {:.4}% more for switches that the kernel left out",
        theirs_ns / 1000.0,
        ours_ns / 1000.0,
        theirs_ns / ours_ns,
        unexplained * 100.0,
        for_switches_ns as f64 / whole_ns * 100.0
    );
    assert!((theirs_ns / ours_ns - 1.0).abs() <= 0.02, "fio {theirs_ns} ns, ours {ours_ns} ns");
    assert!(unexplained <= 0.001 && many * 100 <= CALLS, "{unexplained}, {many} calls");
}

/// The disk that holds the build directory, if it has an interrupt.
fn disk(path: &StoragePath) -> Option<(String, u32)> {
    let leaf = path.leaves().into_iter().next()?;
    let cpus = leaf.interrupts.first()?.cpus.clone()?;
    Some((leaf.name.clone(), cpus.split([',', '-']).next()?.parse().ok()?))
}

/// The mean time of a write in a layer, in nanoseconds. Disturbances of only some writes would not
/// change a median.
fn layer_ns(writing: &mut Writing, path: &StoragePath, layer: Layer) -> f64 {
    let tid = writing.tid();
    let recorder = Recorder::start(&[tid], WriteEvents::Usual);
    let calls = writing.write(60);
    let trace = recorder.stop();
    let recorded = Writes::new(&trace, devices(path));
    let writes = writes(&calls, tid);
    let total_ns: u64 = writes.iter().map(|&write| recorded.layers(write).total_ns(layer)).sum();
    total_ns as f64 / writes.len() as f64
}

#[test]
#[ignore = "needs a calm machine: cargo xtask storage"]
fn completion_on_the_submitters_cpu_makes_waking_shorter() {
    if !is_root() {
        return;
    }
    let folder = folder("affinity");
    let path = path_of(&folder);
    let other = disk(&path).and_then(|(name, cpu)| {
        let cpus = sched::allowed_cpus(0).ok()?;
        Some((name, cpu, cpus.into_iter().find(|&one| one != cpu)?))
    });
    let Some((name, cpu, other)) = other else {
        return skip(Need::Machine, "no disk with an interrupt that comes to another CPU than a writer's");
    };
    let setting = format!("/sys/block/{name}/queue/rq_affinity");
    let before = read(&setting);
    let _finally = Finally::run(&format!("echo {before} > {setting}"));
    let mut writing = Writing::start(&folder.join("file"), Some(Scheduling::fifo(50)), Some(vec![other]));
    let times = rounds(&[1, 2, 3], 40, |kind| {
        // 3 is the same as 1.
        std::fs::write(&setting, if kind == 2 { "2" } else { "1" }).unwrap();
        layer_ns(&mut writing, &path, Layer::Wake)
    });
    println!(
        "wake, interrupt on CPU {cpu}, writer on {other}: rq_affinity 1 {:.2} us, 2 {:.2} us",
        median(times[&1].clone()) / 1000.0,
        median(times[&2].clone()) / 1000.0
    );
    judge(&times, 2, |ratio| ratio < 1.0, "wake falls");
    let _ = std::fs::remove_dir_all(&folder);
}

/// Prints how a kind compares with kind 1, and kind 1 with itself. Judges the result if the machine
/// is calm.
fn judge(times: &BTreeMap<i32, Vec<f64>>, kind: i32, holds: impl Fn(f64) -> bool, what: &str) {
    let [low, again, high] = ratios(&times[&3], &times[&1]);
    let [from, ratio, to] = ratios(&times[&kind], &times[&1]);
    println!(
        "{what}: ratio {ratio:.3} ({from:.3} to {to:.3}), of the same to itself {again:.3} ({low:.3} to {high:.3})"
    );
    if from <= high && low <= to {
        println!("NOT JUDGED: the difference is within what the machine does by itself");
        return;
    }
    assert!(holds(ratio), "{what}: {ratio}");
}

/// Real-time threads on one CPU that sleep for microseconds at a time, as long as this lives.
struct TimerStorm {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl TimerStorm {
    fn start(cpu: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..4).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                sched::set_allowed_cpus(0, &[cpu]).unwrap();
                // So that the kernel does not coalesce timers.
                sched::set_scheduling(0, Scheduling::fifo(10)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(20));
                }
            })
        });
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for TimerStorm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
#[ignore = "needs a calm machine: cargo xtask storage"]
fn a_timer_storm_on_the_interrupts_cpu_makes_irq_longer() {
    if !is_root() {
        return;
    }
    let folder = folder("storm");
    let path = path_of(&folder);
    let other = disk(&path)
        .and_then(|(_, cpu)| Some((cpu, sched::allowed_cpus(0).ok()?.into_iter().find(|&one| one != cpu)?)));
    let Some((cpu, other)) = other else {
        return skip(Need::Machine, "no disk with an interrupt that comes to another CPU than a writer's");
    };
    let mut writing = Writing::start(&folder.join("file"), Some(Scheduling::fifo(50)), Some(vec![other]));
    let times = rounds(&[1, 2, 3], 80, |kind| {
        let _storm = (kind == 2).then(|| TimerStorm::start(cpu));
        layer_ns(&mut writing, &path, Layer::Irq)
    });
    println!(
        "irq, interrupt on CPU {cpu}, writer on {other}: calm {:.2} us, timer storm {:.2} us",
        median(times[&1].clone()) / 1000.0,
        median(times[&2].clone()) / 1000.0
    );
    judge(&times, 2, |ratio| ratio > 1.0, "irq rises");
    let _ = std::fs::remove_dir_all(&folder);
}
