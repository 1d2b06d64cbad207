//! Instances on the running kernel: they record, stop, and leave nothing behind, however their
//! process ends. Without root, each test is skipped.
#![allow(clippy::print_stdout)] // The killed process prints the path of its instance.

#[allow(dead_code)]
mod common;

use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::tracefs;
use roundtrip_tracefs::{Body, Instance, Recording, Selection, Tracefs, remove_abandoned};

/// Set in the environment of the process that the test kills.
const VICTIM: &str = "ROUNDTRIP_TEST_VICTIM";

fn recorder(tracefs: &Tracefs) -> Instance {
    let events = ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"];
    let events = events.map(|event| format!("sched/{event}")).into();
    let selection = Selection { events, ..Selection::default() };
    Instance::create(tracefs, &selection, 256).unwrap()
}

fn sleep() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

#[test]
fn it_records_until_it_is_stopped_and_goes_on_for_the_next() {
    let Some(tracefs) = tracefs() else { return };
    let instance = recorder(&tracefs);
    let directory = instance.switch_path().with_file_name("");
    assert_eq!(instance.clock(), "boot");
    assert!(instance.events().iter().any(|event| event == "sched/sched_switch"));
    let entries = || instance.stats().unwrap().iter().map(|(_, stats)| stats.entries).sum::<u64>();
    sleep();
    assert_eq!(entries(), 0, "it is not on yet");
    for _ in 0..2 {
        let started_ns = instance.on().unwrap();
        sleep();
        // Clients open it by path, too.
        std::fs::write(instance.switch_path(), "0").unwrap();
        let stopped_ns = instance.off().unwrap();
        let before = entries();
        sleep();
        assert!(before > 0 && entries() == before, "no event follows");
        let snapshot = instance.snapshot(started_ns, stopped_ns).unwrap();
        assert_eq!(snapshot.stopped_ns, Some(stopped_ns));
        assert_eq!(snapshot.cpus.iter().map(|cpu| cpu.stats.entries).sum::<u64>(), before);
        let pages: Vec<_> =
            snapshot.cpus.iter().flat_map(|cpu| cpu.pages.chunks(instance.page_bytes())).collect();
        assert!(!pages.is_empty());
        for page in pages {
            let time_ns = u64::from_ne_bytes(*page.first_chunk().unwrap());
            assert!(time_ns <= stopped_ns && stopped_ns - time_ns < 60_000_000_000, "{time_ns} {stopped_ns}");
        }
        // This thread slept, so there must be switches from and to it.
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_eq!(snapshot.processes.get(&own), Some(&std::process::id()));
        assert!(snapshot.comms.contains_key(&std::process::id()));
        assert_eq!(entries(), 0, "the snapshot took everything out");
    }
    drop(instance);
    assert!(!directory.exists());
}

#[test]
fn another_program_that_reads_clears_or_changes_it_is_noticed() {
    let Some(tracefs) = tracefs() else { return };
    let read = |directory: &Path| {
        sleep();
        let mut bytes = vec![0; 1 << 16];
        for cpu in std::fs::read_dir(directory.join("per_cpu")).unwrap() {
            let raw = cpu.unwrap().path().join("trace_pipe_raw");
            let raw = std::fs::File::options().read(true).custom_flags(0o4000).open(raw).unwrap();
            // A CPU may have had no events.
            let _ = (&raw).read(&mut bytes);
        }
    };
    let write = |file: &'static str, text: &'static str| {
        move |directory: &Path| std::fs::write(directory.join(file), text).unwrap()
    };
    for (says, disturb) in [
        (None, Box::new(|_: &Path| ()) as Box<dyn Fn(&Path)>),
        (Some("read the events"), Box::new(read)),
        (Some("cleared the buffer"), Box::new(write("trace", ""))),
        (Some("changed tracing_on"), Box::new(write("tracing_on", "0"))),
        (Some("changed set_event"), Box::new(write("set_event", "!sched:sched_waking"))),
        (Some("changed set_event_pid"), Box::new(write("set_event_pid", "1"))),
        (Some("changed buffer_size_kb"), Box::new(write("buffer_size_kb", "64"))),
        (Some("changed trace_clock"), Box::new(write("trace_clock", "local"))),
    ] {
        let instance = recorder(&tracefs);
        instance.on().unwrap();
        for _ in 0..2 {
            sleep();
            instance.take().unwrap();
            assert_eq!(instance.changed(true), None);
        }
        disturb(&instance.switch_path().with_file_name(""));
        // It is noticed after the next read, too.
        instance.take().unwrap();
        let changed = instance.changed(true);
        match says {
            None => assert_eq!(changed, None),
            Some(says) => {
                assert!(changed.as_ref().is_some_and(|what| what.contains(says)), "{says}: {changed:?}")
            }
        }
    }
}

#[test]
fn an_instance_that_is_cleared_and_read_by_its_owner_is_undisturbed() {
    let Some(tracefs) = tracefs() else { return };
    let instance = recorder(&tracefs);
    for _ in 0..5 {
        instance.clear().unwrap();
        let started_ns = instance.on().unwrap();
        sleep();
        assert_eq!(instance.changed(true), None);
        instance.snapshot(started_ns, instance.off().unwrap()).unwrap();
        assert_eq!(instance.changed(false), None);
    }
}

#[test]
fn a_recording_of_this_kernel_holds_its_formats() {
    let Some(tracefs) = tracefs() else { return };
    let instance = recorder(&tracefs);
    let started_ns = instance.on().unwrap();
    sleep();
    let snapshot = instance.snapshot(started_ns, instance.off().unwrap()).unwrap();
    let place: PathBuf = std::env::temp_dir().join(format!("roundtrip-instance-{}", std::process::id()));
    let recording = Recording::create(&place, instance.header(), tracefs.root()).unwrap();
    recording.add(&snapshot).unwrap();
    let read = Recording::open(&place).unwrap();
    let switch = read.format("sched/sched_switch").unwrap().unwrap();
    assert!(switch.contains("next_pid"), "{switch}");
    assert!(read.format("header_page").unwrap().unwrap().contains("commit"));
    for event in &read.header().recorded {
        assert!(read.format(event).unwrap().is_some(), "{event}");
    }
    let first = &snapshot.cpus[0];
    assert_eq!(read.pages(1, first.cpu).unwrap(), first.pages);
    let trace = read.read(1).unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let slept =
        trace.events.iter().any(|event| event.tid == own && matches!(event.body, Body::Switch { .. }));
    assert!(slept && trace.losses.is_empty(), "{} events, {:?}", trace.events.len(), trace.losses);
    assert!(trace.events.iter().all(|event| Some(event.time_ns) <= snapshot.stopped_ns));
    assert!(trace.complete_from_ns.values().all(|&from_ns| from_ns <= started_ns));
    assert_eq!(trace.processes.get(&own), Some(&std::process::id()));
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next() {
    if let Ok(root) = std::env::var(VICTIM) {
        let tracefs = Tracefs::at(root);
        let instance = recorder(&tracefs);
        instance.on().unwrap();
        // The test harness uses standard output, too, and its line may end with the test's name.
        println!("\ninstance {}", instance.switch_path().display());
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let Some(tracefs) = tracefs() else { return };
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_a_killed_process_left_is_removed_by_the_next", "--nocapture"])
        .env(VICTIM, tracefs.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("instance ")).unwrap();
    let switch = PathBuf::from(line.trim_start_matches("instance "));
    remove_abandoned(&tracefs);
    assert!(switch.exists(), "its process lives");
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&switch).unwrap().trim(), "1", "it was left as it was");
    // Another test may already have removed it: creating an instance removes abandoned ones.
    remove_abandoned(&tracefs);
    assert!(!switch.exists());
}
