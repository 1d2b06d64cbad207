//! Runs that end early: because of a dead worker, a signal, or a missed deadline.

use std::process::{Command, Output};

use roundtrip_skips::{Need, skip};

use super::{called, stderr};
use crate::support::long_run::{LongRun, kill};

/// A run with its service manager, server and client. Returns when the client makes calls.
fn long_run() -> (LongRun, Vec<u32>) {
    let run = LongRun::start(called("libhwbinder_latency").args(["-i", "1000000000"]));
    let calls = |workers: &[u32]| {
        roundtrip_bench::kernel::counters::of_thread(workers[2]).is_ok_and(|now| now.voluntary_switches > 100)
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

/// Runs the program under a name in its own mount namespace, with a directory of the test instead
/// of tracefs. Returns its output, and `tracing_on` afterwards. `None`, with the test skipped, if
/// this user lacks the permission.
fn with_tracefs(test: &str, tracing_on: &str, (name, args): (&str, &str)) -> Option<(Output, String)> {
    let directory = std::env::temp_dir().join(format!("roundtrip-trace-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tracing_on"), tracing_on).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_roundtrip"), directory.join(name)).unwrap();
    let script = format!("mount --bind \"$0\" /sys/kernel/tracing && exec \"$0\"/{name} {args}");
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).arg(&directory).output();
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
    let args = "ipc latency --stack hwbinder --trace --deadline 1ns --iterations 1000000000";
    let Some((output, tracing_on)) = with_tracefs("miss", "1\n", ("roundtrip", args)) else { return };
    assert_eq!((output.status.code(), tracing_on.as_str()), (Some(1), "0"), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.starts_with(HALTED), "{said}");
    assert!(
        said.contains("a call over hwbinder, pair 1, caller ") && said.contains("the deadline is "),
        "{said}"
    );
    let result = String::from_utf8_lossy(&output.stdout);
    assert!(result.contains("1 of 1 calls missed"), "the result is printed: {result}");
    assert!(said.contains("the run ended early"), "and why it is short: {said}");
}

const HALTED: &str = "deadline triggered: halt & stop trace\nlog:/sys/kernel/tracing/trace\n";

#[test]
fn under_the_old_names_only_a_real_time_callers_miss_stops_the_trace() {
    let args = "-trace -i 20 -deadline_us 0";
    let realtime = roundtrip_bench::sched::realtime_permission().max_priority().is_some();
    for name in ["schd-dbg", "libhwbinder_latency"] {
        let Some((output, tracing_on)) = with_tracefs(name, "1\n", (name, args)) else { return };
        let (said, printed) = (stderr(&output), String::from_utf8_lossy(&output.stdout));
        // The value follows what the original schd-dbg prints on standard output.
        let (before, value) = printed.split_at(printed.find('{').unwrap());
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        assert_eq!(tracing_on, if realtime { "0" } else { "1" });
        // One iteration, or all of them.
        assert_eq!(value["P0"]["I"], if realtime { 2 } else { 20 }, "{said}");
        let halted = if realtime { format!("\n{HALTED}\n") } else { String::new() };
        assert_eq!(before, if name == "schd-dbg" { halted.as_str() } else { "" });
        assert!(name == "schd-dbg" || said.starts_with(&halted), "{said}");
        let told = if realtime { "caller fifo:" } else { "without a real-time caller, no call stops" };
        assert!(said.contains(told), "{said}");
        let failed = value["inheritance"] == "FAIL";
        assert_eq!(output.status.code(), Some(i32::from(failed)), "the verdict's status: {said}");
    }
}

#[test]
fn under_the_old_names_a_trace_that_is_off_is_told_as_by_the_originals() {
    let expected =
        "trace is not running\ncheck /sys/kernel/tracing/tracing_on\nuse atrace --async_start first\n";
    for (name, status) in [("schd-dbg", 255), ("libhwbinder_latency", 1)] {
        let Some((output, tracing_on)) = with_tracefs(name, "0\n", (name, "-trace -i 1")) else { return };
        assert_eq!((output.status.code(), tracing_on.as_str()), (Some(status), "0"));
        let printed = (std::str::from_utf8(&output.stdout).unwrap(), stderr(&output));
        let printed = (printed.0, printed.1.as_str());
        assert_eq!(printed, if name == "schd-dbg" { (expected, "") } else { ("", expected) });
    }
}

#[test]
fn without_a_running_trace_the_message_says_how_to_start_one() {
    let args = "ipc latency --stack hwbinder --trace --iterations 10";
    let Some((output, tracing_on)) = with_tracefs("off", "0\n", ("roundtrip", args)) else { return };
    assert_eq!((output.status.code(), tracing_on.as_str()), (Some(1), "0"));
    let expected = "roundtrip: no kernel trace is running: start one with `roundtrip trace start` (or `echo 1 > /sys/kernel/tracing/tracing_on`)\n";
    assert_eq!(stderr(&output), expected);
}
