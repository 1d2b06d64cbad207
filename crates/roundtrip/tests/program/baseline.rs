//! `roundtrip ipc baseline` as a process: its output and files. An interrupted run leaves nothing
//! behind.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::csv;
use crate::support::long_run::{LongRun, kill};

const QUICK: [&str; 10] = [
    "--sizes",
    "4,4k",
    "--placements",
    "free",
    "--transports",
    "pipe",
    "--rounds",
    "2",
    "--duration",
    "20ms",
];

fn roundtrip() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["ipc", "baseline"]).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn csv_has_the_figures_of_each_transport_and_size() {
    let output = succeed(roundtrip().args(QUICK).args(["--format", "csv"]));
    let text = String::from_utf8(output.stdout).unwrap();
    let times = csv::of(&text, "time", &["transport", "placement", "size_bytes"]);
    let keys: Vec<_> = times.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["futex free 4", "futex free 4096", "pipe free 4", "pipe free 4096"]);
    assert!(times.iter().all(|(_, ns)| *ns > 0.0), "{times:?}");
}

#[test]
fn json_is_one_value_and_equals_run_json() {
    let directory: PathBuf = std::env::temp_dir().join(format!("roundtrip-baseline-{}", std::process::id()));
    let output = succeed(roundtrip().args(QUICK).args(["--format", "json", "--out"]).arg(&directory));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(printed == serde_json::from_slice::<serde_json::Value>(&stored).unwrap());
    assert_eq!(printed["schema"], "roundtrip.run");
    assert_eq!(printed["results"]["baseline"]["cells"].as_array().unwrap().len(), 4);
}

#[test]
fn an_unknown_transport_is_one_line_and_exit_code_2() {
    let output = roundtrip().args(["--transports", "pigeon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1);
    assert!(stderr.contains("pigeon") && output.stdout.is_empty(), "{stderr}");
}

#[test]
fn a_run_that_cannot_be_stored_fails_before_it_starts() {
    let output = roundtrip().args(QUICK).args(["--out", "/dev/null/run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "nothing was measured in vain");
    let error = "roundtrip: cannot create /dev/null/run: Not a directory (os error 20); name a directory\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), error);
}

/// Two processes for each of the nine default transports.
fn long_run() -> (LongRun, Vec<u32>) {
    let run = LongRun::start(roundtrip().args(["--duration", "10m"]));
    let workers = run.workers(18, |_| true);
    (run, workers)
}

#[test]
fn a_killed_worker_ends_the_run_with_the_reason() {
    let (run, workers) = long_run();
    kill(workers[3], "-KILL");
    let (code, stdout, stderr) = run.end(&workers);
    assert_eq!(stdout, "", "half a result");
    assert_eq!(code, Some(1));
    let reason = format!("(pid {}) was killed by SIGKILL", workers[3]);
    assert!(stderr.contains(&reason) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run();
    kill(run.pid(), "-INT");
    let (code, stdout, stderr) = run.end(&workers);
    assert_eq!(stdout, "", "half a result");
    assert_eq!(code, Some(130));
    assert_eq!(stderr, "roundtrip: interrupted by SIGINT\n");
}
