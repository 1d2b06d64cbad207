//! Causes with effects of microseconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use roundtrip_bench::sched;
use roundtrip_layers::storage::{Layer, Writes};
use roundtrip_run::Scheduling;
use roundtrip_run::storage::{StoragePath, WriteEvents};
use roundtrip_skips::{Need, Quiet, skip};

use super::{is_root, ratios, rounds};
use crate::support::storage::{Finally, folder, read};
use crate::support::writes::{Recorder, Writing, devices, median, path_of, writes};

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
fn completion_on_the_submitters_cpu_shortens_wake() {
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
    let quiet = Quiet::watch();
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
    judge(&times, &quiet, 2, |ratio| ratio < 1.0, "wake falls");
    let _ = std::fs::remove_dir_all(&folder);
}

/// Prints how a kind compares with kind 1, and kind 1 with itself. Judges the result if the machine
/// was quiet.
fn judge(times: &BTreeMap<i32, Vec<f64>>, quiet: &Quiet, kind: i32, holds: impl Fn(f64) -> bool, what: &str) {
    let [low, again, high] = ratios(&times[&3], &times[&1]);
    let [from, ratio, to] = ratios(&times[&kind], &times[&1]);
    println!(
        "{what}: ratio {ratio:.3} ({from:.3} to {to:.3}), of the same to itself {again:.3} ({low:.3} to {high:.3})"
    );
    if let Some(why) = quiet.disturbance() {
        return skip(Need::Quiet, why);
    }
    if from <= high && low <= to {
        return skip(Need::Quiet, "the difference is within what the machine does by itself");
    }
    assert!(holds(ratio), "{what}: {ratio}");
}

/// Real-time threads on one CPU that sleep for microseconds at a time, until this value is dropped.
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
                // A real-time policy, so that the kernel does not coalesce timers.
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
fn a_timer_storm_on_the_interrupts_cpu_lengthens_irq() {
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
    let quiet = Quiet::watch();
    let times = rounds(&[1, 2, 3], 80, |kind| {
        let _storm = (kind == 2).then(|| TimerStorm::start(cpu));
        layer_ns(&mut writing, &path, Layer::Irq)
    });
    println!(
        "irq, interrupt on CPU {cpu}, writer on {other}: calm {:.2} us, timer storm {:.2} us",
        median(times[&1].clone()) / 1000.0,
        median(times[&2].clone()) / 1000.0
    );
    judge(&times, &quiet, 2, |ratio| ratio > 1.0, "irq rises");
    let _ = std::fs::remove_dir_all(&folder);
}
