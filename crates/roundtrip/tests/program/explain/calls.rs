//! The calls stored beside a recording.

use std::path::Path;
use std::process::Command;

use roundtrip_tracefs::{Body, Recording, Trace};

use super::{Run, roundtrip, stderr};

#[test]
fn all_recorded_round_trips_are_stored_beside_the_events() {
    let Some(run) = Run::record("calls", 2) else { return };
    let explained = &run.json()["results"]["latency"]["explained"];
    let recorded = explained["recorded"].as_array().unwrap();
    let recording = Recording::open(&run.0.join("recording")).unwrap();
    for number in recording.snapshots().unwrap() {
        let of = recorded.iter().filter(|of| of["snapshot"] == number);
        let calls: u64 = of.clone().map(|of| super::number(&of["calls"])).sum();
        let bytes = recording.beside(number, "calls").unwrap().unwrap();
        assert_eq!(bytes.len() as u64, calls * roundtrip_latency::Sample::ENCODED_LEN as u64);
        assert!(of.clone().all(|of| of["complete"] == true));
        // Both pairs call continuously, but a recording may start just before the call for which it
        // was kept.
        let pairs: Vec<u64> = of.map(|of| super::number(&of["pair"])).collect();
        assert!([&[0, 1][..], &[0], &[1]].contains(&&pairs[..]), "{pairs:?}");
        let trace = recording.read(number).unwrap();
        let samples = roundtrip_latency::Sample::decode_all(&bytes).unwrap();
        let woken: Vec<u64> = wakings(&trace);
        let stopped_ns = trace.stopped_ns.unwrap();
        let from_ns = trace.complete_from_ns.values().copied().max().unwrap();
        let whole: Vec<_> =
            samples.iter().filter(|sample| sample.start_ns > from_ns && sample.end_ns < stopped_ns).collect();
        let without = whole
            .iter()
            .filter(|sample| !woken.iter().any(|ns| (sample.start_ns..sample.end_ns).contains(ns)))
            .count();
        // If both threads are still running, neither wakes the other. A snapshot may hold only a
        // few dozen calls: beside another test, 2 of 38 woke nobody.
        assert!(without * 10 <= whole.len() + 20, "{without} of {} calls wake nobody", whole.len());
    }
}

/// The times at which threads woke others.
fn wakings(trace: &Trace) -> Vec<u64> {
    let wakings = trace.events.iter().filter(|event| matches!(event.body, Body::Waking { .. }));
    wakings.map(|event| event.time_ns).collect()
}

#[test]
fn calls_of_another_run_are_rejected_and_missing_calls_are_reported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let copy = Run(std::env::temp_dir().join(format!("roundtrip-explained-{}-damaged", std::process::id())));
    let copied = Command::new("cp").arg("-r").arg(&folder).arg(&copy.0).status().unwrap();
    assert!(copied.success());
    let calls = copy.0.join("recording/snapshots/0001/calls");
    let whole = std::fs::read(&calls).unwrap();
    let file = copy.0.join("slow.perfetto-trace");
    let explain = || roundtrip("explain").arg(&copy.0).arg("-o").arg(&file).output().unwrap();
    let said = String::from_utf8(explain().stdout).unwrap();
    let count = whole.len() / roundtrip_latency::Sample::ENCODED_LEN;
    assert!(said.contains(&format!("it shows the {count} round trips")), "{said}");
    for damaged in [&whole[..whole.len() - 1], &whole[..60], &[&whole[..], &whole[..60]].concat()] {
        std::fs::write(&calls, damaged).unwrap();
        std::fs::remove_file(&file).unwrap_or_default();
        let refused = explain();
        let said = stderr(&refused);
        assert_eq!((refused.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("0001/calls") && !file.exists(), "{said}");
    }
    std::fs::remove_file(&calls).unwrap();
    let without = explain();
    assert!(without.status.success(), "{}", stderr(&without));
    assert!(String::from_utf8(without.stdout).unwrap().contains("only slow calls"));
}
