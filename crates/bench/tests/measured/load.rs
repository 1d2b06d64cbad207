//! Background load from the outside: it runs as requested, and ends with its group.

use std::time::Duration;

use roundtrip_bench::load;
use roundtrip_bench::sched;
use roundtrip_bench::worker::{Spawner, WorkerGroup};
use roundtrip_run::Load;
use roundtrip_run::Scheduling;

const PATIENCE: Duration = Duration::from_secs(30);

fn group() -> WorkerGroup {
    WorkerGroup::new(Spawner::with_exe(env!("CARGO_BIN_EXE_bench-test-worker"))).unwrap()
}

/// The hogs that the calling test has started: children of this process started by its thread.
fn children() -> Vec<u32> {
    let path = format!("/proc/self/task/{}/children", sched::gettid());
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn hogs_run_where_and_how_they_were_told_and_end_with_the_group() {
    let cpu = sched::allowed_cpus(0).unwrap()[0];
    let load: Load = format!("hogs=2,policy=nice:19,cpus={cpu}").parse().unwrap();
    let mut group = group();
    load::start(&load, &mut group).unwrap();
    group.start(PATIENCE).unwrap();
    let hogs = children();
    assert_eq!(hogs.len(), 2);
    for &hog in &hogs {
        assert_eq!(sched::scheduling(hog).unwrap(), Scheduling::other(19));
        assert_eq!(sched::allowed_cpus(hog).unwrap(), [cpu]);
        // A hog uses its CPU and never waits, so its running time must grow.
        let before = roundtrip_bench::kernel::counters::of_thread(hog).unwrap();
        loop {
            let used = roundtrip_bench::kernel::counters::of_thread(hog).unwrap().since(&before);
            if used.running_ns.unwrap_or(u64::MAX) > 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(group);
    assert!(children().is_empty());
}

#[test]
fn a_hog_that_cannot_be_placed_says_so_before_the_run_begins() {
    let load: Load = "hogs=1,cpus=1023".parse().unwrap();
    let mut group = group();
    load::start(&load, &mut group).unwrap();
    let error = group.start(PATIENCE).unwrap_err().to_string();
    assert!(error.contains("hog 1") && error.contains("1023"), "{error}");
}
