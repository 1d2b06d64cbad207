//! Other programs move, reschedule and stop the processes of a measurement: the run says so, and
//! prints no figure of what was not measured as planned. `cargo xtask disturb` does this to more
//! commands.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use roundtrip_skips::{Need, skip};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

const LINE: &str =
    "ipc latency --duration 5s --stack binder --callers other --driver emulated --format json --quiet";

/// Runs the command, and disturbs the process whose name begins with `name` during the first turns.
fn disturbed(options: &str, name: &str, disturb: impl FnOnce(Pid)) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(LINE.split(' ')).args(options.split_whitespace()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let victim = loop {
        if let Some(pid) = worker(child.id(), name) {
            break pid;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no process is called {name}");
        std::thread::sleep(Duration::from_millis(20));
    };
    // It has its name before it is ready.
    std::thread::sleep(Duration::from_secs(2));
    disturb(victim);
    let output = child.wait_with_output().unwrap();
    let run = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, run)
}

/// A child of this process whose name begins with `name`.
fn worker(of: u32, name: &str) -> Option<Pid> {
    let names =
        std::fs::read_dir("/proc").unwrap().filter_map(|one| one.ok()?.file_name().into_string().ok());
    let found = names.filter_map(|one| one.parse::<i32>().ok()).find(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
        field("PPid:") == of.to_string() && field("Name:").starts_with(name)
    });
    found.and_then(Pid::from_raw)
}

/// Lets all threads of a process use only one CPU, which it does not use alone already.
fn move_to_one(pid: Pid) {
    let now = sched_getaffinity(Some(pid)).unwrap();
    let own = sched_getaffinity(None).unwrap();
    let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| own.is_set(cpu));
    let other = cpus.max_by_key(|&cpu| !now.is_set(cpu)).unwrap();
    let mut set = CpuSet::new();
    set.set(other);
    for task in std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap() {
        let tid: i32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        // A thread may have ended.
        let _ = sched_setaffinity(Pid::from_raw(tid), &set);
    }
}

fn has_one_cpu() -> bool {
    std::thread::available_parallelism().unwrap().get() < 2
}

/// What happened to a condition.
fn change<'a>(run: &'a Value, what: &str) -> &'a Value {
    let changes =
        run["environment"]["changes"].as_array().unwrap_or_else(|| panic!("no {what}: {}", run["warnings"]));
    let found = changes.iter().find(|change| change["what"] == what);
    found.unwrap_or_else(|| panic!("no {what}: {changes:?}"))
}

fn has_warning(run: &Value, part: &str) -> bool {
    run["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(part))
}

fn calls(run: &Value) -> u64 {
    run["results"]["latency"]["series"][0]["pairs"][0]["callers"][0]["latency"]["count"].as_u64().unwrap()
}

#[test]
fn a_moved_process_is_a_warning_and_a_change() {
    if has_one_cpu() {
        return skip(Need::Machine, "there is one CPU");
    }
    let (output, run) = disturbed("", "client-1", move_to_one);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let moved = change(&run, "CPUs of client of pair 1");
    assert!(moved["from_ns"].as_u64().unwrap() > 0 && moved["until_ns"].is_null(), "{moved}");
    assert_ne!(moved["before"], moved["during"]);
    assert!(has_warning(&run, "CPUs of client of pair 1 "), "{}", run["warnings"]);
    assert!(calls(&run) > 0 && run["partial"].is_null());
}

#[test]
fn a_split_run_ends_when_its_processes_are_no_longer_split() {
    if has_one_cpu() {
        return skip(Need::Machine, "there is one CPU");
    }
    let (output, run) = disturbed("--placement split", "server-1", move_to_one);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let failure = run["partial"]["failure"].as_str().unwrap();
    assert!(failure.starts_with("server of pair 1 may use CPUs "), "{failure}");
    // What is left was measured before.
    assert!(calls(&run) > 0);
    assert!(run["partial"]["after_ns"].as_u64().unwrap() < 5_000_000_000, "{}", run["partial"]);
}

#[test]
fn a_stopped_process_is_a_warning() {
    let (_, run) = disturbed("--rate 50/s", "server-1", |pid| {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        kill_process(pid, Signal::CONT).unwrap();
    });
    assert_eq!(change(&run, "state of server of pair 1")["during"], "stopped for a time");
    // Calls that were due meanwhile waited for it, or they are said to be missing: between two
    // turns no call is made.
    let callers = &run["results"]["latency"]["series"][0]["pairs"][0]["callers"];
    let worst_ns = callers[0]["response"]["time"]["max_ns"].as_u64().unwrap();
    let left_out = has_warning(&run, "the schedule stood still for");
    assert!(worst_ns > 900_000_000 || left_out, "{worst_ns}, {}", run["warnings"]);
}

#[test]
fn a_rescheduled_caller_is_in_no_figure() {
    if !Need::Root.is_met() {
        return skip(Need::Root, "an idle policy can be left only by root");
    }
    let Some(chrt) = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|dir| dir.join("chrt")).find(|chrt| chrt.exists()))
    else {
        return skip(Need::Program("chrt"), "no chrt");
    };
    let (output, run) = disturbed("", "client-1", |pid| {
        let pid = pid.as_raw_nonzero().to_string();
        assert!(Command::new(chrt).args(["--idle", "-a", "-p", "0", &pid]).status().unwrap().success());
    });
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rescheduled = change(&run, "scheduling of client of pair 1");
    assert_eq!(
        (rescheduled["before"].as_str(), rescheduled["during"].as_str()),
        (Some("other"), Some("SCHED_IDLE"))
    );
    let callers = &run["results"]["latency"]["series"][0]["pairs"][0]["callers"];
    assert_eq!(callers[0]["caller"]["policy"], "SCHED_OTHER", "{}", callers[0]["caller"]);
    assert!(calls(&run) > 0);
}

#[test]
fn an_undisturbed_run_has_no_changes() {
    let (_, run) = disturbed("", "client-1", |_| {});
    let changes = run["environment"]["changes"].as_array().cloned().unwrap_or_default();
    // Tests run beside this one.
    let ours = |change: &&Value| !change["what"].as_str().unwrap().starts_with("CPU time ");
    assert!(!changes.iter().any(|change| ours(&change)), "{changes:?}");
}
