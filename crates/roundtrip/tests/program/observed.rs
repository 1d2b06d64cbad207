//! Observed calls of other programs: a run from a guest with Linux 6.1 is shown, explained, gated
//! and compared like any other run, and missing permissions are reported. `cargo xtask observed`
//! makes such runs and tests the observation itself.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.1-observed");

fn roundtrip(line: &str) -> Output {
    let line = line.replace("RUN", RUN);
    Command::new(env!("CARGO_BIN_EXE_roundtrip")).args(line.split(' ')).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn slow_calls_are_explained_by_the_services_actions() {
    let output = roundtrip("explain --format json RUN");
    assert!(output.status.success(), "{}", err(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let slow = document["slow_calls"].as_array().unwrap();
    assert_eq!((slow.len(), &document["over_limit"]), (12, &108.into()));
    for call in slow {
        let parts = call["explanation"]["parts"].as_array().unwrap();
        let length = |part: &Value| part["end_ns"].as_u64().unwrap() - part["begin_ns"].as_u64().unwrap();
        assert_eq!(parts.iter().map(length).sum::<u64>(), call["latency_ns"].as_u64().unwrap());
        let what = call["what"].as_str().unwrap();
        let cause = match what.rsplit(' ').next() {
            Some("4") => "sleep",
            Some("5") => "work",
            Some("6") => "competitor",
            _ => panic!("{what}"),
        };
        assert_eq!(call["explanation"]["causes"][0]["kind"], cause, "{what}");
    }
}

#[test]
fn a_run_is_gated_and_compared_by_the_names_of_its_programs() {
    for (gate, status) in [
        ("failed[code=7]>0", 3),
        ("failed[code=1]>0", 0),
        ("p99[server=rsb-server,code=1]>1ms", 0),
        ("p99[server=rsb-server,code=5]>1ms", 3),
        ("oneway.p50[code=3]>1ms", 0),
        // A gate on a figure that was not measured fails.
        ("p99[server=somebody]>1ms", 3),
    ] {
        let output = roundtrip(&format!("show --short --fail-on {gate} RUN"));
        assert_eq!(output.status.code(), Some(status), "{gate}: {}", err(&output));
    }

    let output = roundtrip("compare --format json RUN RUN");
    assert!(output.status.success(), "{}", err(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = document["figures"].as_array().unwrap();
    assert!(figures.len() > 5 && figures.iter().all(|figure| figure["ratio"] == 1.0), "{document}");

    let output = roundtrip("show --merge RUN RUN");
    assert!(
        err(&output).contains("Observed calls cannot be merged: show them one by one"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_trace_shows_slow_calls_beside_their_threads() {
    let file = std::env::temp_dir().join(format!("roundtrip-observed-{}.perfetto-trace", std::process::id()));
    let output = roundtrip(&format!("explain -o {} RUN", file.display()));
    let trace = std::fs::read(&file).unwrap_or_default();
    let _ = std::fs::remove_file(PathBuf::from(&file));
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("it shows only slow calls"), "{}", out(&output));
    let has = |text: &str| trace.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("rsb-client (104) to rsb-server (99)") && has("slow call 1"), "{} bytes", trace.len());
}

#[test]
fn invalid_options_give_a_one_line_error() {
    for (line, message) in [
        ("ipc observe --pid 1 --name x", "--pid, --name and COMMAND exclude each other"),
        ("ipc observe --pid 4194305", "--pid 4194305: there is no such process"),
        (
            "ipc observe --fail-on p99[stack=binder]>1ms",
            "p99 has no label 'stack'; it has test, client, code, server",
        ),
    ] {
        let output = roundtrip(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", err(&output));
        assert!(err(&output).contains(message), "{line}: {}", err(&output));
    }
    // If the kernel has a binder driver, or this process lacks the permission, the message is
    // another one, also in one line.
    let output = roundtrip("ipc observe --duration 10ms --quiet");
    let said = err(&output);
    assert!(output.status.success() || said.trim_end().lines().count() == 1, "{said}");
    let binder = PathBuf::from("/sys/kernel/tracing/events/binder");
    if PathBuf::from("/sys/kernel/tracing/events").exists() && !binder.exists() {
        assert!(said.contains("has no events of binder calls"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
