//! Ctrl-C, SIGTERM, SIGHUP and killed processes during each command that measures: the command
//! prints and stores the partial result, and marks it as partial. `ending` and `attack` test
//! signals before the first result, and what is left behind.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use roundtrip_skips::{Need, skip};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde_json::Value;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roundtrip-partial-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Starts a command in its own process group, like a shell.
    fn start(&self, line: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(line.split(' ')).current_dir(&self.0).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sends the signal to a command's process group after this time, and waits for its end. No
    /// process may survive.
    fn signalled(&self, line: &str, signal: Signal, after: Duration) -> Output {
        let child = self.start(line);
        let pid = Pid::from_child(&child);
        std::thread::sleep(after);
        kill_process_group(pid, signal).unwrap();
        let asked = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(10), "{line} took {:?} to end", asked.elapsed());
        assert!(test_kill_process_group(pid).is_err(), "{line}: something lives on");
        output
    }

    /// Like [`Scratch::signalled`], with the run as JSON in `run`. If nothing was measured, because
    /// the machine is slow, tries again with a longer wait.
    fn cut(&self, line: &str, signal: Signal) -> Value {
        let line = format!("{line} --out run --force --format json");
        for seconds in [2, 5, 10, 30] {
            let output = self.signalled(&line, signal, Duration::from_secs(seconds));
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(128 + signal.as_raw()), "{line}: {said}");
            if output.stdout.is_empty() {
                assert!(said.contains("interrupted by SIG") && said.lines().count() <= 2, "{line}: {said}");
                continue;
            }
            let name = match signal {
                Signal::INT => "SIGINT",
                Signal::HUP => "SIGHUP",
                _ => "SIGTERM",
            };
            assert!(
                said.contains(&format!("roundtrip: partial: {name} ended the measuring after")),
                "{said}"
            );
            let run: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(run["partial"]["signal"], name, "{line}");
            let after_ns = run["partial"]["after_ns"].as_u64().unwrap();
            assert!((1..40_000_000_000).contains(&after_ns), "{line}: {after_ns}");
            let stored = std::fs::read(self.0.join("run/run.json")).unwrap();
            let stored: Value = serde_json::from_slice(&stored).unwrap();
            assert_eq!(stored["environment"], run["environment"], "{line}");
            assert_eq!(stored["partial"], run["partial"], "{line}");
            // The JSON of writes also has their layers.
            if !line.starts_with("storage layers") {
                assert_eq!(stored["results"], run["results"], "{line}");
            }
            let left: Vec<_> =
                std::fs::read_dir(&self.0).unwrap().map(|one| one.unwrap().file_name()).collect();
            assert_eq!(left, ["run"], "{line}: only what was asked for is left");
            let shown = self.start("show run").wait_with_output().unwrap();
            let text = String::from_utf8(shown.stdout).unwrap();
            assert!(shown.status.success() && text.contains(&format!("\npartial: {name} ended")), "{text}");
            return run["results"].clone();
        }
        panic!("{line}: nothing was measured in 30 s");
    }

    /// Kills a worker of the command whose name begins with `name`. Returns the results, which must
    /// be marked as partial and stored. If nothing was measured, tries again with a longer wait.
    fn killed(&self, line: &str, name: &str) -> Value {
        let line = format!("{line} --out run --force --format json --quiet");
        for seconds in [2, 5, 10, 30] {
            let child = self.start(&line);
            std::thread::sleep(Duration::from_secs(seconds));
            let worker = worker(child.id(), name);
            kill_process(worker.expect("a worker"), Signal::KILL).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{line}: {said}");
            assert!(said.contains("was killed by SIGKILL"), "{line}: {said}");
            if output.stdout.is_empty() {
                continue;
            }
            assert!(said.starts_with("roundtrip: partial: the measuring failed after "), "{line}: {said}");
            let run: Value = serde_json::from_slice(&output.stdout).unwrap();
            let failure = run["partial"]["failure"].as_str().expect("a failure");
            assert!(said.trim_end().ends_with(failure) && run["partial"]["signal"].is_null(), "{said}");
            let stored = std::fs::read(self.0.join("run/run.json")).unwrap();
            let stored: Value = serde_json::from_slice(&stored).unwrap();
            assert_eq!(stored["partial"], run["partial"], "{line}");
            // The JSON of writes also has their layers.
            if !line.starts_with("storage layers") {
                assert_eq!(stored["results"], run["results"], "{line}");
            }
            return run["results"].clone();
        }
        panic!("{line}: nothing was measured in 30 s");
    }
}

/// A child of this process whose name begins with `name`.
fn worker(of: u32, name: &str) -> Option<Pid> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|one| one.ok()?.file_name().into_string().ok());
    let mut pids: Vec<i32> = all.filter_map(|one| one.parse().ok()).collect();
    pids.sort_unstable();
    let found = pids.into_iter().find(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
        field("PPid:") == of.to_string() && field("Name:").starts_with(name)
    });
    found.and_then(Pid::from_raw)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number of calls in a histogram, which must have percentiles.
fn count(histogram: &Value) -> u64 {
    let buckets = histogram["counts"].as_array().expect("a histogram");
    let count: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
    assert_eq!(histogram["count"].as_u64(), Some(count));
    let median_ns = histogram["percentiles"][0]["ns"].as_u64().expect("percentiles");
    assert!(histogram["max_ns"].as_u64().unwrap() >= median_ns && median_ns > 0);
    count
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn latency_keeps_the_calls_that_were_made_closed_and_open() {
    let scratch = Scratch::new("latency");
    for (line, signal) in [
        ("ipc latency --iterations 100000000", Signal::INT),
        ("ipc latency --duration 1h --rate 200 --explain", Signal::TERM),
        ("ipc latency --duration 1h --fresh-threads --stack hwbinder", Signal::INT),
    ] {
        let results = scratch.cut(line, signal);
        let series = list(&results["latency"]["series"]);
        assert!(!series.is_empty(), "{line}");
        for caller in
            series.iter().flat_map(|one| list(&one["pairs"])).flat_map(|pair| list(&pair["callers"]))
        {
            let calls = count(&caller["latency"]);
            assert!((1..100_000_000).contains(&calls), "{line}: {calls}");
            let deadline = &caller["deadline"];
            assert_eq!(deadline["count"].as_u64(), Some(calls), "{line}: every call is judged once");
        }
    }
}

#[test]
fn throughput_keeps_complete_and_partial_rows() {
    let scratch = Scratch::new("throughput");
    let results = scratch.cut("ipc throughput --repetitions 1000 --min-time 20ms --sizes 4,4k", Signal::TERM);
    let rows = list(&results["throughput"]["rows"]);
    assert!(!rows.is_empty());
    for row in rows {
        let batches = list(&row["batches"]);
        assert!((1..1000).contains(&batches.len()), "{} batches", batches.len());
        assert!(batches.iter().all(|batch| batch["iterations"].as_u64().unwrap() >= 1), "{row}");
        assert!(count(&row["latency"]) >= 1, "percentiles are there");
    }
    // A single long batch is interrupted, too.
    let results = scratch.cut("ipc throughput --iterations 100000000 --sizes 4 --stack binder", Signal::INT);
    let batch = &list(&results["throughput"]["rows"])[0]["batches"][0];
    let calls = batch["iterations"].as_u64().unwrap();
    assert!((1..100_000_000).contains(&calls), "{calls}");
    assert_eq!(batch["one_way_bytes"].as_u64(), Some(4 * calls));
}

#[test]
fn workers_keep_the_calls_that_were_made() {
    let scratch = Scratch::new("workers");
    let results = scratch.cut("ipc workers --iterations 100000000 --workers 3", Signal::TERM);
    let workers = &results["workers"];
    let all = count(&workers["latency"]);
    let each: u64 = list(&workers["callers"]).iter().map(|caller| count(&caller["latency"])).sum();
    assert!(all > 0 && all == each && all < 300_000_000, "{all} {each}");
    let per_s = workers["iterations_per_s"].as_f64().unwrap();
    let wall_s = workers["wall_ns"].as_f64().unwrap() / 1e9;
    assert!((per_s * wall_s / all as f64 - 1.0).abs() < 0.001, "{per_s} calls/s in {wall_s} s, {all} calls");
}

#[test]
fn the_baseline_keeps_the_blocks_that_were_complete() {
    let scratch = Scratch::new("baseline");
    let line = "ipc baseline --transports futex,pipe --sizes 4 --rounds 1000 --duration 100s";
    let results = scratch.cut(line, Signal::INT);
    let cells = list(&results["baseline"]["cells"]);
    assert!(!cells.is_empty());
    for cell in cells {
        let rounds = list(&cell["round_medians_ns"]).len();
        assert!((1..1000).contains(&rounds) && count(&cell["latency"]) >= rounds as u64, "{cell}");
    }
}

#[test]
fn traits_keep_tried_aspects_without_their_times() {
    let scratch = Scratch::new("traits");
    let results = scratch.cut("ipc traits --driver emulated --iterations 10000000", Signal::INT);
    let rows = list(&results["traits"]["rows"]);
    let aspects: Vec<&str> = rows.iter().filter_map(|row| row["aspect"].as_str()).collect();
    assert!(aspects.contains(&"request_copies") && !aspects.contains(&"round_trip"), "{aspects:?}");
}

#[test]
fn storage_keeps_the_blocks_that_were_complete_and_removes_its_file() {
    let scratch = Scratch::new("storage");
    let line = "storage layers --writers native --sizes 4k --calls 1000000 --rounds 1000 --file-size 1M";
    let results = scratch.cut(line, Signal::TERM);
    for one in list(&results["storage"]["series"]) {
        let blocks = list(&one["blocks"]);
        assert!(!blocks.is_empty() && blocks.len() < 1000);
        let calls: u64 = blocks.iter().map(|block| list(&block["calls"]).len() as u64).sum();
        assert_eq!(calls, count(&one["latency"]));
    }
    let line =
        "storage interference --conditions alone --sizes 4k --rounds 1000 --duration 100s --file-size 1M";
    let results = scratch.cut(&format!("{line} --no-recorder"), Signal::INT);
    for one in list(&results["interference"]["comparisons"]) {
        assert!((1..1000).contains(&list(&one["pairs"]).len()), "{one}");
    }
}

#[test]
fn a_survey_keeps_the_tests_that_it_reached() {
    let scratch = Scratch::new("survey");
    let results = scratch.cut("survey --duration 200s", Signal::INT);
    assert!(!list(&results["baseline"]["cells"]).is_empty() && results["latency"].is_null(), "{results}");
}

#[test]
fn signals_in_quick_succession_keep_the_result_and_a_later_one_drops_it() {
    let scratch = Scratch::new("twice");
    // timeout(1) sends its signal to the command and then to its own process group.
    let mut command = Command::new("timeout");
    command.arg("4").arg(env!("CARGO_BIN_EXE_roundtrip")).args([
        "ipc",
        "workers",
        "--iterations",
        "1000000000",
    ]);
    let output = command.current_dir(&scratch.0).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert!(text.contains("\npartial: SIGTERM ended the measuring after "), "{text}");
    // A call that does not seem to return: the run waits for it until the next signal.
    let child = scratch.start("ipc latency --work 5s --iterations 100 --callers other --stack binder");
    let pid = Pid::from_child(&child);
    std::thread::sleep(Duration::from_secs(3));
    kill_process(pid, Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    kill_process(pid, Signal::INT).unwrap();
    let asked = Instant::now();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(asked.elapsed() < Duration::from_millis(1500), "{:?}: {said}", asked.elapsed());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{said}");
    assert_eq!(said, "roundtrip: interrupted by SIGINT\n");
    assert!(test_kill_process_group(pid).is_err(), "something lives on");
}

#[test]
fn a_killed_worker_leaves_what_was_complete_before_it() {
    let scratch = Scratch::new("killed");
    // A turn takes two seconds.
    let latency = "ipc latency --duration 20s --stack binder --callers other";
    for (line, name) in [
        (latency.to_owned(), "client-1"),
        (format!("{latency} --rate 100/s"), "server-1"),
        // The first worker is the service manager.
        (latency.to_owned(), ""),
    ] {
        let results = scratch.killed(&line, name);
        let callers = &results["latency"]["series"][0]["pairs"][0]["callers"];
        assert!(count(&callers[0]["latency"]) > 0, "{line}");
    }
    let results =
        scratch.killed("ipc throughput --repetitions 1000 --min-time 20ms --sizes 4 --stack binder", "");
    assert!(!list(&results["throughput"]["rows"][0]["batches"]).is_empty());
    let line = "storage layers --writers native --sizes 4k --calls 100000 --rounds 1000 --file-size 1M";
    let results = scratch.killed(&format!("{line} --no-recorder"), "");
    assert!(!list(&results["storage"]["series"][0]["blocks"]).is_empty());
}

#[test]
fn the_other_workers_keep_their_calls_when_one_is_killed() {
    let scratch = Scratch::new("killed-workers");
    let results = scratch.killed("ipc workers --iterations 100000000 --workers 3", "worker");
    let workers = &results["workers"];
    let callers = list(&workers["callers"]);
    assert_eq!(callers.len(), 2, "the killed one has lost its calls");
    let each: u64 = callers.iter().map(|caller| count(&caller["latency"])).sum();
    assert_eq!(count(&workers["latency"]), each);
    let limits = list(&workers["limits"]);
    assert!(limits.iter().any(|one| one.as_str().unwrap().contains("are in no figure")), "{limits:?}");
}

#[test]
fn an_observer_that_is_hung_up_keeps_what_it_saw() {
    if !Need::Tracefs.is_met() {
        return skip(Need::Tracefs, "observing needs the kernel's trace");
    }
    let scratch = Scratch::new("observer");
    let results = scratch.cut("storage syscalls --duration 1h", Signal::HUP);
    let elapsed_ns = results["system_calls"]["elapsed_ns"].as_u64().unwrap();
    assert!((1_000_000_000..40_000_000_000).contains(&elapsed_ns), "{elapsed_ns}");
}

#[test]
fn a_hangup_keeps_the_result_like_any_other_signal() {
    let scratch = Scratch::new("hangup");
    let results = scratch.cut("ipc latency --duration 1h --stack binder --callers other", Signal::HUP);
    let callers = &results["latency"]["series"][0]["pairs"][0]["callers"];
    assert!(count(&callers[0]["latency"]) > 0);
}
