//! Compares the layers of writes with fio's latencies of the same writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use roundtrip_layers::storage::{Layer, Write, Writes};
use roundtrip_run::storage::WriteEvents;
use roundtrip_skips::{Need, Quiet, skip};
use roundtrip_tracefs::{Body, Trace, Tracefs};

use super::is_root;
use crate::support::storage::Journalled;
use crate::support::writes::{Recorder, devices, path_of};

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
fn fio_measures_the_same_latency_for_the_same_writes() {
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
    let mut selection = roundtrip_bench::recorder::selection::writes(&[], WriteEvents::Usual, |event| {
        tracefs.has_event(event)
    })
    .unwrap();
    // Any of its processes may write.
    selection.filters.iter_mut().for_each(|filter| filter.1 = "COMM ~ \"fio*\"".into());
    let recorder = Recorder::of(tracefs, &selection);
    let quiet = Quiet::watch();
    let output = fio(&file, CALLS);
    let disturbance = quiet.disturbance();
    let trace = recorder.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = &result["jobs"][0]["write"];
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
        // Events that a virtual machine's kernel did not record cannot be explained.
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
    if let Some(why) = disturbance {
        return skip(Need::Quiet, why);
    }
    assert!((theirs_ns / ours_ns - 1.0).abs() <= 0.02, "fio {theirs_ns} ns, ours {ours_ns} ns");
    assert!(unexplained <= 0.001 && many * 100 <= CALLS, "{unexplained}, {many} calls");
}
