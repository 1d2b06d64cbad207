//! `--fail-on` and `--require` as processes: the exit status and messages. The result is stored and
//! printed in any case.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runs/x86_64-6.1-binder");

/// A command with these gates, in its own directory.
fn gated(directory: &Path, line: &str, gates: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(line.split_whitespace()).current_dir(directory).stdin(Stdio::null());
    gates.iter().for_each(|gate| {
        command.args(["--fail-on", gate]);
    });
    command.output().unwrap()
}

/// The command's messages about violated gates.
fn failed(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter_map(|line| Some(line.strip_prefix("roundtrip: failed: ")?.to_owned())).collect()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-gates-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command with gates that no machine meets, and with gates that every machine meets.
/// Returns the violations.
fn both(name: &str, line: &str, never: &[&str], always: &[&str]) -> Vec<String> {
    let scratch = Scratch::new(name);
    let bad = gated(&scratch.0, line, never);
    let lines = failed(&bad);
    assert_eq!(bad.status.code(), Some(3), "{line}: {}", String::from_utf8_lossy(&bad.stderr));
    assert!(!bad.stdout.is_empty(), "{line} prints its result all the same");
    assert_eq!(lines.len(), never.len(), "{line}: a line for each gate: {lines:?}");
    for (line, gate) in lines.iter().zip(never) {
        assert!(line.starts_with(&format!("{gate}: ")), "{line}");
        assert!(!line.contains("no such figure"), "{line}");
    }
    let good = gated(&scratch.0, line, always);
    assert_eq!(good.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&good.stderr));
    assert_eq!(failed(&good), [""; 0], "{line}");
    lines
}

#[test]
fn latency_fails_on_a_violated_gate_and_stores_and_prints_its_run() {
    let lines = both(
        "latency",
        "ipc latency --driver emulated --callers other --iterations 200 --rate 5000/s --deadline 1ns",
        &["p50[stack=binder]<100s", "miss<1000", "response.max<100s", "reply.mean<100s", "missed.share>99%"],
        &["p99>1000s", "missed<200", "missed>200", "response.missed.share>100%", "handling.p50>1000s"],
    );
    assert!(lines[0].ends_with("test latency, stack binder, inheritance stack, caller other"), "{lines:?}");
    assert!(lines[1].contains(": 200; ") && lines[1].ends_with(" (2 of 2 figures)"), "{lines:?}");

    let scratch = Scratch::new("stored");
    let line = "ipc latency --driver emulated --callers other --iterations 20 --format json --out run";
    let output = gated(&scratch.0, line, &["p50<1000s", "p99[caller=fifo:99]>1000s"]);
    assert_eq!(output.status.code(), Some(3));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored = std::fs::read_to_string(scratch.0.join("run/run.json")).unwrap();
    assert_eq!(printed, serde_json::from_str::<serde_json::Value>(&stored).unwrap());
    let lines = failed(&output);
    assert_eq!(lines[1], "p99[caller=fifo:99]>1000s: the run has no such figure", "{lines:?}");
}

#[test]
fn every_other_measuring_command_has_gates_on_its_own_figures() {
    both(
        "throughput",
        "ipc throughput --driver emulated --sizes 4 --iterations 200",
        &["time<1000s", "cpu<1000s", "rate<1000GB/s", "p99<1000s"],
        &["time>1000s", "rate[stack=binder]<1B/s", "max>1000s"],
    );
    both(
        "workers",
        "ipc workers --driver emulated --iterations 200",
        &["rate<1000M/s", "p50<1000s"],
        &["rate<1/s", "mean[workers=2]>1000s"],
    );
    both(
        "baseline",
        "ipc baseline --transports futex,pipe --sizes 4 --placements free --rounds 6 --duration 1s",
        &["time<1000s", "futex.ratio<1000", "max<1000s"],
        &["futex.ratio>1000", "p50[transport=futex]>1000s"],
    );
    both(
        "storage",
        "storage layers --writers native --sizes 4k --calls 10 --rounds 2 --no-recorder",
        &["p50<1000s"],
        &["max>1000s"],
    );
    both(
        "interference",
        "storage interference --conditions alone --sizes 4k --rounds 6 --duration 2s --no-recorder",
        &["response.ratio<1000"],
        &["response.ratio[beside=alone]>1000"],
    );
}

#[test]
fn stored_runs_are_checked_against_gates_and_requirements() {
    let here = Path::new("/");
    let show = format!("show --short {FIXTURE}");
    let output = gated(here, &show, &["miss[caller=fifo:99]>7", "miss[caller=fifo:99]>8", "p99<1ns"]);
    assert_eq!(output.status.code(), Some(3));
    let lines = failed(&output);
    let [line] = &lines[..] else { panic!("one gate is violated: {lines:?}") };
    assert!(line.starts_with("miss[caller=fifo:99]>7: 8; test latency, stack hwbinder"), "{line}");
    assert!(!output.stdout.is_empty());

    for (what, status) in [("realtime", 0), ("kernel-driver", 0), ("events", 0)] {
        let output = gated(here, &format!("{show} --require {what}"), &[]);
        assert_eq!(output.status.code(), Some(status), "{what}: {:?}", failed(&output));
    }
    let two = gated(here, &format!("{show} {FIXTURE} --fail-on miss>0"), &[]);
    let lines = failed(&two);
    assert_eq!((two.status.code(), lines.len()), (Some(3), 2), "each run is judged: {lines:?}");
    assert!(lines.iter().all(|line| line.starts_with(&format!("{FIXTURE}: miss>0: "))), "{lines:?}");
}

#[test]
fn a_run_that_misses_a_requirement_fails_after_its_result() {
    let scratch = Scratch::new("required");
    let line = "storage layers --writers native --sizes 4k --calls 10 --rounds 2 --no-recorder";
    let output = gated(&scratch.0, &format!("{line} --require events"), &[]);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(3), false));
    assert_eq!(failed(&output), ["events is required: nothing was recorded"]);

    let output = gated(&scratch.0, "ipc latency --callers other --require realtime", &[]);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "nothing was measured");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--require realtime: no caller has a real-time policy"), "{said}");
}

#[test]
fn an_invalid_gate_is_a_one_line_error_before_anything_is_measured() {
    let here = Path::new("/");
    for (line, gate, message) in [
        (
            "ipc latency",
            "p98>1us",
            "--fail-on p98>1us: there is no figure 'p98'; expected inheritance, rate, warnings,",
        ),
        (
            "ipc throughput",
            "missed>0",
            "there is no figure 'missed'; expected warnings, or NAME>LIMIT or NAME<LIMIT",
        ),
        ("ipc latency", "p99>5", "expected after p99 a time with its unit, as in 200us"),
        ("ipc traits", "missed>0", "there is no figure 'missed'; expected warnings, or NAME>LIMIT"),
        ("show nothing", "p99[size=4]>5us", "p99 has no label 'size'"),
    ] {
        let output = gated(here, line, &[gate]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{said}");
    }
}
