//! Android's latency programs and `roundtrip ipc latency` as processes: their output, their errors,
//! and that nothing is left behind when they are interrupted.

#[path = "support/long_run.rs"]
mod long_run;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use bench::sched::realtime_permission;
use long_run::{LongRun, kill};
use serde_json::Value;
use skips::{Need, skip};

fn called(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg0(name).stdin(Stdio::null());
    command
}

fn latency(args: &str) -> Command {
    let mut command = called("roundtrip");
    command.args(["ipc", "latency"]).args(args.split_whitespace());
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of one of Android's latency programs. Its exit status must match the inheritance
/// verdict.
fn judged(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let failed = json(&output)["inheritance"] == "FAIL";
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", stderr(&output));
    output
}

/// Standard output, which is one JSON value and nothing else.
fn json(output: &Output) -> Value {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn near(one: &Value, other: f64) -> bool {
    one.as_f64().is_some_and(|one| (one - other).abs() <= 1e-3 * other.abs())
}

/// Checks one "PN" or "ALL" whose calls are known.
fn check_block(block: &Value, iterations: u64, realtime: bool) {
    let calls = if realtime { 2 * iterations } else { iterations };
    let number = |name: &str| block[name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
    assert_eq!(block["I"], calls);
    assert!(number("S") <= number("I"));
    assert!((number("R") - number("S") / number("I")).abs() < 1e-5, "{block}");
    assert_eq!(block["SYNC"], if number("R") > 0.6 { "GOOD" } else { "POOR" });
    let kinds: &[_] = if realtime {
        &[("other_ms", "otherdis"), ("fifo_ms", "fifodis")]
    } else {
        &[("other_ms", "otherdis")]
    };
    for (times, distribution) in kinds {
        let time = |name: &str| block[*times][name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
        let percentile =
            |name: &str| block[*distribution][name].as_f64().unwrap_or_else(|| panic!("{name}: {block}"));
        assert!(time("bst") > 0.0 && time("bst") <= time("avg") && time("avg") <= time("wst"), "{block}");
        assert!((time("meetR") - (1.0 - time("miss") / iterations as f64)).abs() < 1e-5, "{block}");
        let steps = ["p50", "p90", "p95", "p99"].map(percentile);
        assert!(steps.is_sorted() && steps[3] <= time("wst") * 1.001, "{block}");
    }
}

#[test]
fn raw_data_is_in_one_json_value_that_adds_up() {
    let output =
        judged(called("libhwbinder_latency").args("-raw_data -pair 1 -i 1000 -m BINDERIZE".split(' ')));
    let value = json(&output);
    let realtime = realtime_permission().max_priority().is_some();
    assert_eq!(value["cfg"]["pair"], 1);
    assert_eq!(value["cfg"]["iterations"], 1000);
    assert_eq!(value["cfg"]["deadline_us"], 2500);
    assert_eq!(value["cfg"]["passthrough"], 0);
    let text = std::str::from_utf8(&output.stdout).unwrap();
    let at = ["\"cfg\"", "\"fifo_0_data\"", "\"ALL\"", "\"P0\"", "\"inheritance\""].map(|key| text.find(key));
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "the original's order: {text}");
    assert!(value["cfg"]["driver"].as_str().unwrap().contains("driver"));
    check_block(&value["P0"], 1000, realtime);
    assert_eq!(value["P0"], value["ALL"]);
    let raw: Vec<f64> =
        value["fifo_0_data"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap() as f64).collect();
    assert_eq!(raw.len(), if realtime { 1000 } else { 0 });
    if realtime {
        let fifo = &value["P0"]["fifo_ms"];
        assert!(near(&fifo["avg"], raw.iter().sum::<f64>() / 1000.0 / 1e6), "{fifo}");
        assert!(near(&fifo["wst"], raw.iter().copied().fold(0.0, f64::max) / 1e6), "{fifo}");
        assert!(near(&fifo["bst"], raw.iter().copied().fold(f64::MAX, f64::min) / 1e6), "{fifo}");
        let missed = raw.iter().filter(|&&ns| ns > 2_500_000.0).count();
        assert_eq!(fifo["miss"], missed);
    }
}

#[test]
fn a_deadline_of_nothing_is_missed_by_both_kinds_of_caller() {
    let value = json(&judged(called("schd-dbg64").args("-i 20 -deadline_us 0".split(' '))));
    assert_eq!(value["P0"]["other_ms"]["miss"], 20);
    assert_eq!(value["P0"]["other_ms"]["meetR"], 0);
    if realtime_permission().max_priority().is_some() {
        assert_eq!(value["P0"]["fifo_ms"]["miss"], 20);
        assert_eq!(value["inheritance"], "FAIL", "binder does not lend real-time priorities");
        // 256 calls without inheritance, which an exit status of one byte would report as 0.
        assert_eq!(json(&judged(called("schd-dbg").args(["-i", "256"])))["inheritance"], "FAIL");
    }
}

#[test]
fn each_disturbance_within_a_server_meets_a_call_that_is_timed() {
    let folder = std::env::temp_dir().join(format!("roundtrip-disturbed-{}", std::process::id()));
    // A disturbance is due before each of the three turns, which start with untimed calls.
    let args = "--driver emulated --callers other --duration 600ms --deadline 3ms --inject sleep,every=10ms,for=5ms --format json";
    let output = succeed(latency(args).arg("--out").arg(&folder));
    let noted = std::fs::read_to_string(folder.join("injected.csv")).unwrap().lines().count() - 1;
    std::fs::remove_dir_all(&folder).unwrap();
    let json = json(&output);
    let series = json["results"]["latency"]["series"].as_array().unwrap();
    let missed = series.iter().map(|one| &one["pairs"][0]["callers"][0]["deadline"]["missed"]);
    let missed: u64 = missed.map(|count| count.as_u64().unwrap()).sum();
    assert!(
        noted >= 10 && missed as usize >= noted,
        "{missed} calls missed the deadline, {noted} disturbances"
    );
}

#[test]
fn more_pairs_than_cpus_are_warned_of_and_recorded() {
    // The program inherits the affinity of this test's thread.
    let cpus = bench::sched::allowed_cpus(0).unwrap();
    bench::sched::set_allowed_cpus(0, &cpus[..1]).unwrap();
    let output = judged(called("libhwbinder_latency").args("-w 2 -i 10".split(' ')));
    bench::sched::set_allowed_cpus(0, &cpus).unwrap();
    let value = json(&output);
    for name in ["P0", "P1"] {
        check_block(&value[name], 10, realtime_permission().max_priority().is_some());
    }
    let sum = |name: &str| value["P0"][name].as_u64().unwrap() + value["P1"][name].as_u64().unwrap();
    assert_eq!(value["ALL"]["I"], sum("I"));
    assert_eq!((&value["ALL"]["S"], &value["ALL"]["S"]), (&sum("S").into(), &value["ALL"]["I"]));
    let warned = |text: &str| text.contains("2 pairs on 1 CPUs");
    assert!(warned(&stderr(&output)) && warned(&value["warnings"].to_string()));
}

#[test]
fn in_process_nothing_is_between() {
    for args in ["-m PASSTHROUGH -i 10", "-passthrough -i 10"] {
        let value = json(&judged(called("libhwbinder_latency").args(args.split(' '))));
        assert_eq!(value["cfg"]["passthrough"], 1);
        assert_eq!(value["P0"]["I"], if realtime_permission().max_priority().is_some() { 20 } else { 10 });
    }
}

/// The roles and policies in the blocks of `-v`, and what follows the blocks.
fn blocks(text: &str) -> (Vec<String>, String) {
    let rule = format!("{}\n", "-".repeat(50));
    let mut roles = Vec::new();
    let mut behind = String::new();
    for block in text.split(&rule).skip(1) {
        let (head, policy) = block.split_once('\n').unwrap();
        let (role, ids) = head.split_at(12);
        let numbers: Vec<_> = ids.split_whitespace().collect();
        assert_eq!([numbers[0], numbers[2], numbers[4]], ["pid:", "tid:", "cpu:"], "{block}");
        let (policy, rest) = policy.split_once('\n').unwrap();
        roles.push(format!("{} {policy}", role.trim_end()));
        behind = rest.to_owned();
    }
    (roles, behind)
}

#[test]
fn verbose_blocks_stand_before_the_json_in_the_order_and_with_the_roles_of_each_program() {
    let realtime = realtime_permission().max_priority() == Some(99);
    for (name, processes, stack, lent) in [
        ("libhwbinder_latency", ["service", "main", "client"], "hwbinder", "???         99"),
        ("schd-dbg", ["main", "server", "client"], "binder", "SCHED_OTHER 0"),
    ] {
        let output = called(name).args("-i 1 -v".split(' ')).output().unwrap();
        let text = std::str::from_utf8(&output.stdout).unwrap();
        let (roles, value) = blocks(text);
        serde_json::from_str::<Value>(&value).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut expected: Vec<String> =
            processes.iter().map(|role| format!("{role} SCHED_OTHER 0")).collect();
        if realtime {
            expected.extend(["fifo-caller SCHED_FIFO  99".to_owned(), format!("{stack} {lent}")]);
        }
        expected.extend(["other-caller SCHED_OTHER 0".to_owned(), format!("{stack} SCHED_OTHER 0")]);
        assert_eq!(roles, expected, "{name}");
        assert!(!stderr(&output).contains("pid:"), "{}", stderr(&output));
    }
    let output = succeed(&mut latency("--stack hwbinder --iterations 1 --verbose --format json"));
    json(&output);
    assert!(stderr(&output).contains("other-caller pid:"), "{}", stderr(&output));
}

#[test]
fn without_permission_for_real_time_the_ordinary_caller_calls() {
    // The program inherits the reduced capabilities of this test's thread. Even root does not
    // regain them on exec.
    let _ = rustix::thread::remove_capability_from_bounding_set(rustix::thread::CapabilitySet::SYS_NICE);
    let script = "ulimit -r 0 && exec \"$0\" ipc latency --stack hwbinder --format android --iterations 50";
    let output = succeed(Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_roundtrip")]));
    let value = json(&output);
    assert_eq!(value["inheritance"], "SKIP");
    let reason = value["inheritance_reason"].as_str().unwrap();
    assert!(reason.contains("CAP_SYS_NICE") && stderr(&output).contains("CAP_SYS_NICE"), "{reason}");
    check_block(&value["P0"], 50, false);
    assert_eq!(value["P0"]["fifo_ms"]["avg"], Value::Null);
    // An explicit request is rejected instead.
    for (command, option) in [
        ("ipc latency --callers fifo:99", "--callers: fifo:99"),
        ("ipc latency --callers other,nice:-20", "--callers: nice:-20"),
        ("ipc latency --load hogs=1,policy=rr:1", "--load: rr:1"),
        ("ipc latency --inject hog,policy=fifo:2", "--inject: fifo:2"),
        ("storage layers --policy fifo:1", "--policy: fifo:1"),
    ] {
        let script = format!("ulimit -r 0 && exec \"$0\" {command}");
        let output =
            Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_roundtrip")]).output().unwrap();
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{command}: {text}");
        assert!(text.contains(&format!("{option} is not allowed")) && output.stdout.is_empty(), "{text}");
    }
    // Nor may it lower its nice value again.
    let script = script.replace("exec", "exec nice -n 5");
    let output = succeed(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_roundtrip")]));
    check_block(&json(&output)["P0"], 50, false);
    assert!(stderr(&output).contains("other calls as nice:"), "{}", stderr(&output));
}

#[test]
fn unknown_and_incomplete_flags_are_one_line_and_exit_code_2() {
    for (name, args, hint) in [
        ("libhwbinder_latency", "-pairs 3", "unknown flag -pairs (did you mean -pair?)"),
        ("libhwbinder_latency", "-i", "-i needs a value"),
        ("libhwbinder_latency", "-i x", "whole number"),
        ("libhwbinder_latency", "-i 0", "whole number"),
        ("libhwbinder_latency", "-pair 0", "from 1 to 256"),
        ("libhwbinder_latency", "-m binder", "BINDERIZE, PASSTHROUGH"),
        ("schd-dbg", "-deadline_us -1", "whole number"),
        ("schd-dbg", "-m BINDERIZE", "unknown flag -m"),
        ("schd-dbg", "extra", "unexpected argument 'extra'"),
        ("roundtrip", "ipc latency --callers fifo:100", "fifo:1..99"),
        ("roundtrip", "ipc latency --load hogs=0", "1 to 4096"),
        ("roundtrip", "ipc latency --payload 512k", "at most 500k"),
        ("roundtrip", "ipc latency --client-cpus 8191", "--client-cpus: CPU 8191 is not to be had"),
        ("roundtrip", "ipc latency --load hogs=1,cpus=8191", "--load: CPU 8191 is not to be had"),
        ("roundtrip", "ipc latency --inject hog,cpus=8191", "--inject: CPU 8191 is not to be had"),
        ("roundtrip", "ipc throughput --server-cpus 0,8191", "--server-cpus: CPU 8191 is not to be had"),
        ("roundtrip", "ipc latency --payload 400k --server-threads 2", "does not fit"),
        ("roundtrip", "ipc latency --format android", "one stack"),
    ] {
        let output = called(name).args(args.split(' ')).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{name} {args}: {text}");
        assert!(text.contains(hint) && text.lines().count() == 1 && output.stdout.is_empty(), "{text}");
    }
}

#[test]
fn the_run_directory_holds_what_is_printed_and_every_sample() {
    let directory: PathBuf = std::env::temp_dir().join(format!("roundtrip-latency-{}", std::process::id()));
    let output = succeed(
        latency(
            "--iterations 30 --callers other,nice:5 --inheritance both --raw-samples --format json --out",
        )
        .arg(&directory),
    );
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    let samples = std::fs::read_to_string(directory.join("latency-samples.csv")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let printed = json(&output);
    assert!(printed == serde_json::from_slice::<Value>(&stored).unwrap());
    assert!(printed["environment"]["driver"].as_str().unwrap().contains("driver"));
    let series = printed["results"]["latency"]["series"].as_array().unwrap();
    assert_eq!(series.len(), 4);
    assert_eq!(series[0]["pairs"][0]["callers"][1]["latency"]["count"], 30);
    assert_eq!(samples.lines().count(), 1 + 4 * 2 * 30);
}

#[test]
fn runs_are_shown_with_where_they_are_from_and_binder_without_inheritance_is_no_failure() {
    let folder = std::env::temp_dir().join(format!("roundtrip-shown-{}", std::process::id()));
    let runs = ["monday", "tuesday"].map(|name| folder.join(name));
    for run in &runs {
        let args = "--driver emulated --stack binder --iterations 20 --payload 500k --out";
        let table = succeed(latency(args).arg(run)).stdout;
        if realtime_permission().max_priority().is_some() {
            let table = String::from_utf8(table).unwrap();
            let line = "Real-time inheritance: off, as binder always has it";
            assert!(table.contains(line) && !table.contains("FAIL"), "{table}");
        }
    }
    let show = |args: &[&str]| {
        let output = succeed(called("roundtrip").arg("show").args(args).args(&runs));
        String::from_utf8(output.stdout).unwrap()
    };
    let (apart, merged) = (show(&[]), show(&["--merge"]));
    std::fs::remove_dir_all(&folder).unwrap();
    let [monday, tuesday] = runs.map(|run| run.display().to_string());
    assert!(apart.starts_with(&format!("Run: {monday}\n")), "{apart}");
    assert!(apart.contains(&format!("\n\nRun: {tuesday}\n")), "{apart}");
    assert!(merged.starts_with(&format!("2 runs together: {monday}, {tuesday}; ")), "{merged}");
}

#[test]
fn tables_and_csv_show_every_series() {
    let output = succeed(&mut latency("--iterations 20 --callers other --inheritance both --rate 2k/s"));
    let table = String::from_utf8(output.stdout).unwrap();
    for text in ["binder, inheritance off", "hwbinder, inheritance on", "other response", "what real-time"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let output = succeed(&mut latency("--duration 20ms --callers other --fresh-threads --format csv"));
    let csv = String::from_utf8(output.stdout).unwrap();
    let keys: Vec<_> = csv.lines().map(|line| line.split(',').skip(4).take(1).collect::<String>()).collect();
    assert_eq!(keys, ["pair", "0", "all", "0", "all"]);
}

/// The service manager, the server and the client, while calls are made.
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
        assert_eq!(stdout, "", "half a result");
        let reason = format!("libhwbinder_latency: {role} (pid {}) was killed by SIGKILL\n", workers[index]);
        assert_eq!((code, stderr), (Some(1), reason));
    }
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run();
    kill(run.pid(), "-INT");
    let (code, stdout, stderr) = run.end(&workers);
    assert_eq!(stdout, "", "half a result");
    assert_eq!((code, stderr.as_str()), (Some(130), "libhwbinder_latency: interrupted by SIGINT\n"));
}

/// The program with our directory in place of tracefs, in its own mount namespace; `None`, with the
/// test skipped, if this user lacks the permission.
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
fn a_missed_deadline_halts_the_trace_and_says_where_its_log_is() {
    let args = "--trace --deadline 1ns --iterations 1000000000";
    let Some((output, tracing_on)) = with_tracefs("miss", "1\n", args) else { return };
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "deadline triggered: halt & stop trace\nlog:/sys/kernel/tracing/trace\n");
    assert_eq!((tracing_on.as_str(), output.stdout.len()), ("0", 0));
}

#[test]
fn without_a_running_trace_it_says_how_to_start_one() {
    let Some((output, tracing_on)) = with_tracefs("off", "0\n", "--trace --iterations 10") else { return };
    assert_eq!((output.status.code(), tracing_on.as_str()), (Some(1), "0"));
    let expected = "roundtrip: no kernel trace is running: start one with `roundtrip trace start` (or `echo 1 > /sys/kernel/tracing/tracing_on`)\n";
    assert_eq!(stderr(&output), expected);
}
