//! `roundtrip ipc workers` as a process, and under its two old names. An interrupted run leaves
//! nothing behind.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::csv;
use crate::support::long_run::{LongRun, kill};

/// The program under another name, with these arguments.
fn called(name: &str, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.arg0(name).args(args.split_whitespace()).stdin(Stdio::null());
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The lines with every number replaced by N.
fn without_numbers(output: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(output).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words = String::new();
        for letter in line.chars() {
            match letter {
                // Keep the names of percentiles.
                '0'..='9' | '.' if words.ends_with('N') => {}
                '0'..='9' => words.push('N'),
                other => words.push(other),
            }
        }
        // Very short times and very high rates have an exponent.
        lines.push(words.replace("Ne-N", "N").replace("Ne+N", "N"));
    }
    lines
}

/// What binderThroughputTest prints between its start and its summary.
fn stages(workers: usize) -> Vec<&'static str> {
    let made = std::iter::repeat_n("Created BinderWorkerN", workers);
    let mut lines = vec!["waiting for workers to complete"];
    lines.extend(made.chain(["iterations per sec: N", "collecting results", "killing workers"]));
    lines
}

const SUMMARY: [&str; 2] = ["average:Nms worst:Nms best:Nms", "N%: N N%: N N%: N N%: N "];

#[test]
fn the_binder_throughput_test_prints_the_originals_lines_in_their_order() {
    for (args, workers) in [("-i 20", 2), ("-w 4 -i 20 -p -s 64", 4), ("-w 3 -i 20 -s 262144", 3)] {
        let output = succeed(called("binderThroughputTest64", &format!("{args} -m 3600000000")));
        assert_eq!(without_numbers(&output.stdout), [stages(workers), SUMMARY.to_vec()].concat(), "{args}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("\nCreated BinderWorker0\nCreated BinderWorker1\n"), "{stdout}");
        let names: Vec<_> = stdout.lines().last().unwrap().trim_end().split(' ').step_by(2).collect();
        assert_eq!(names, ["50%:", "90%:", "95%:", "99%:"]);
        // The driver depends on the machine.
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("binderThroughputTest: driver: ") && stderr.contains(" driver "),
            "{stderr}"
        );
    }
}

#[test]
fn the_hwbinder_throughput_test_prints_the_originals_lines_in_both_modes() {
    let creating = ["creating service: hwbinderServiceN"].repeat(3);
    let stages = ["waiting for workers to complete", "iterations per sec: N", "collecting results"];
    let measured = [&stages[..], &SUMMARY].concat();
    let binderized = [&creating[..], &measured, &["killing services", "killing workers"]].concat();
    for (args, expected) in [
        ("-w 2 -s 3 -i 20 -m BINDERIZE", binderized),
        ("-w 2 -i 20 -m PASSTHROUGH", [&measured[..], &["killing workers"]].concat()),
    ] {
        let output = succeed(called("/system/bin/hwbinderThroughputTest32", args));
        assert_eq!(without_numbers(&output.stdout), expected, "{args}");
    }
}

#[test]
fn training_and_long_calls_are_printed_on_standard_output_like_the_original() {
    let lines = without_numbers(&succeed(called("binderThroughputTest", "-i 20 -m 1")).stdout);
    let above = "N% of transactions took longer than estimated max latency. Consider setting -m to be higher than N microseconds";
    assert_eq!(lines, [stages(2), vec![above], SUMMARY.to_vec()].concat());
    // The original's help shows a number after -t, but the original ignores it.
    for args in ["-t 1 -i 20", "-i 20 -t"] {
        let lines = without_numbers(&succeed(called("binderThroughputTest", args)).stdout);
        let training = [vec!["Start training round"], stages(2)].concat();
        let end = ["Max latency during training: Nms", "Completed training round", ""];
        let begin = [training, end.to_vec(), stages(2)].concat();
        assert_eq!(lines[..begin.len()], begin, "{args}");
        assert!(lines.ends_with(&SUMMARY.map(str::to_owned)), "{lines:?}");
    }
}

#[test]
fn a_wrong_or_incomplete_argument_of_an_old_name_prints_one_line_and_exits_with_2() {
    for (name, args, message) in [
        ("binderThroughputTest", "-w", "-w needs a value"),
        ("binderThroughputTest", "-w x", "-w x: expected a whole number"),
        ("binderThroughputTest", "-x", "unknown flag -x"),
        ("binderThroughputTest", "-w 1 -p", "1 workers cannot form pairs: choose 2 or more"),
        ("binderThroughputTest", "-w 1", "a single worker has no other worker to call"),
        ("binderThroughputTest", "-m 0", "-m 0: expected a whole number from 1 to"),
        ("binderThroughputTest", "-t x", "unexpected argument 'x'"),
        ("hwbinderThroughputTest", "-m", "-m needs a value"),
        ("hwbinderThroughputTest", "-m HIDL", "expected BINDERIZE, PASSTHROUGH"),
        ("hwbinderThroughputTest", "-p", "unknown flag -p"),
        ("hwbinderThroughputTest", "-w 200 -s 100", "300 processes are too many"),
    ] {
        let output = called(name, args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name} {args}: {stderr}");
        assert!(stderr.contains(message) && stderr.starts_with(name), "{stderr}");
        assert_eq!((stderr.lines().count(), output.stdout.len()), (1, 0), "{stderr}");
    }
    assert!(!succeed(called("binderThroughputTest", "--help")).stdout.is_empty());
}

#[test]
fn json_is_one_value_and_equals_run_json() {
    let directory: PathBuf = std::env::temp_dir().join(format!("roundtrip-workers-{}", std::process::id()));
    let mut command =
        called("roundtrip", "ipc workers --driver emulated --iterations 20 --format json --out");
    command.arg(&directory);
    let printed: serde_json::Value = serde_json::from_slice(&succeed(command).stdout).unwrap();
    let stored = std::fs::read(directory.join("run.json")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(printed == serde_json::from_slice::<serde_json::Value>(&stored).unwrap());
    assert_eq!(printed["results"]["workers"]["latency"]["count"], 40);
    assert_eq!(printed["environment"]["driver"], "emulated driver (ack profile)");
}

#[test]
fn csv_has_the_figures_of_all_callers() {
    let args = "ipc workers --driver emulated --stack hwbinder --pairs --workers 4 --iterations 20 --format csv --profile mainline";
    let text = String::from_utf8(succeed(called("roundtrip", args)).stdout).unwrap();
    let max = csv::of(&text, "max", &["emulated", "stack", "workers", "samples"]);
    assert!(matches!(&max[..], [(key, ns)] if key == "true hwbinder 4 40" && *ns > 0.0), "{text}");
}

/// User and system time in clock ticks: fields 14 and 15 of proc_pid_stat(5).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    number(14) + number(15)
}

/// Starts a long run with `count` processes, and waits until each uses CPU time, which shows that
/// they call each other. The first one is the service manager, which is idle once all services are
/// found.
fn long_run(name: &str, args: &str, count: usize) -> (LongRun, Vec<u32>) {
    let run = LongRun::start(&mut called(name, args));
    let workers = run.workers(count, |workers| workers[1..].iter().all(|&pid| cpu_ticks(pid) >= 5));
    (run, workers)
}

#[test]
fn only_the_first_dead_worker_is_reported_not_the_workers_that_depend_on_it() {
    for (name, args, count, victim, role) in [
        ("binderThroughputTest", "-w 3 -i 1000000000", 4, 2, "worker 1"),
        ("binderThroughputTest", "-w 4 -p -i 1000000000", 5, 1, "server of pair 0"),
        ("hwbinderThroughputTest", "-s 1 -i 1000000000", 4, 1, "service 0"),
    ] {
        let (run, workers) = long_run(name, args, count);
        kill(workers[victim], "-KILL");
        let (code, _, stderr) = run.end(&workers);
        assert_eq!(code, Some(1));
        let reason = format!("{name}: {role} (pid {}) was killed by SIGKILL\n", workers[victim]);
        assert!(stderr.ends_with(&reason), "{stderr}");
    }
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run("binderThroughputTest", "-i 1000000000", 3);
    kill(run.pid(), "-INT");
    let (code, _, stderr) = run.end(&workers);
    assert_eq!(code, Some(130));
    assert!(stderr.ends_with("binderThroughputTest: interrupted by SIGINT\n"), "{stderr}");
}
