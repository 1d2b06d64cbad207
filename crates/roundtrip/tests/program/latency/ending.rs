//! Runs that end early: because of a dead worker, a signal, or a missed deadline.

use std::process::{Command, Output};

use skips::{Need, skip};

use super::{called, stderr};
use crate::support::long_run::{LongRun, kill};

/// A run with its service manager, server and client. Returns when the client makes calls.
fn long_run() -> (LongRun, Vec<u32>) {
    let run = LongRun::start(called("libhwbinder_latency").args(["-i", "1000000000"]));
    let calls = |workers: &[u32]| {
        bench::counters::of_thread(workers[2]).is_ok_and(|now| now.voluntary_switches > 100)
    };
    let workers = run.workers(3, calls);
    (run, workers)
}

#[test]
fn a_killed_worker_ends_the_run_with_the_reason() {
    for (index, role) in [(0, "hwbinder service manager"), (1, "server of pair 1"), (2, "client of pair 1")] {
        let (run, workers) = long_run();
        kill(workers[index], "-KILL");
        let (code, stdout, stderr) = run.end(&workers);
        assert_eq!(stdout, "", "a partial result");
        let reason = format!("libhwbinder_latency: {role} (pid {}) was killed by SIGKILL\n", workers[index]);
        assert_eq!((code, stderr), (Some(1), reason));
    }
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run();
    kill(run.pid(), "-INT");
    let (code, stdout, stderr) = run.end(&workers);
    assert_eq!(stdout, "", "a partial result");
    assert_eq!((code, stderr.as_str()), (Some(130), "libhwbinder_latency: interrupted by SIGINT\n"));
}

/// Runs the program in its own mount namespace, with a directory of the test instead of tracefs.
/// Returns its output, and `tracing_on` afterwards. `None`, with the test skipped, if this user
/// lacks the permission.
fn with_tracefs(name: &str, tracing_on: &str, args: &str) -> Option<(Output, String)> {
    let directory = std::env::temp_dir().join(format!("roundtrip-trace-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tracing_on"), tracing_on).unwrap();
    let script =
        format!("mount --bind \"$1\" /sys/kernel/tracing && exec \"$0\" ipc latency --stack hwbinder {args}");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_roundtrip")])
        .arg(&directory)
        .output();
    let left = std::fs::read_to_string(directory.join("tracing_on")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let output = output.inspect_err(|error| skip(Need::Program("unshare"), error)).ok()?;
    if ["unshare: ", "mount: "].iter().any(|tool| stderr(&output).starts_with(tool)) {
        skip(Need::Root, stderr(&output));
        return None;
    }
    Some((output, left.trim().to_owned()))
}

#[test]
fn a_missed_deadline_stops_the_trace_and_prints_the_path_of_its_log() {
    let args = "--trace --deadline 1ns --iterations 1000000000";
    let Some((output, tracing_on)) = with_tracefs("miss", "1\n", args) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "deadline triggered: halt & stop trace\nlog:/sys/kernel/tracing/trace\n");
    assert_eq!((tracing_on.as_str(), output.stdout.len()), ("0", 0));
}

#[test]
fn without_a_running_trace_the_message_says_how_to_start_one() {
    let Some((output, tracing_on)) = with_tracefs("off", "0\n", "--trace --iterations 10") else { return };
    assert_eq!((output.status.code(), tracing_on.as_str()), (Some(1), "0"));
    let expected = "roundtrip: no kernel trace is running: start one with `roundtrip trace start` (or `echo 1 > /sys/kernel/tracing/tracing_on`)\n";
    assert_eq!(stderr(&output), expected);
}
