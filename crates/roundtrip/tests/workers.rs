//! Many workers as a process: the modern face, the two old names, and that nothing is left when a run is cut short.

#[path = "support/long_run.rs"]
mod long_run;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use long_run::{LongRun, kill};

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
                // Percentiles' names stay.
                '0'..='9' | '.' if words.ends_with('N') => {}
                '0'..='9' => words.push('N'),
                other => words.push(other),
            }
        }
        lines.push(words);
    }
    lines
}

#[test]
fn the_binder_throughput_test_prints_its_lines_in_their_order() {
    for args in ["-i 20", "-w 4 -i 20 -p -s 64", "-w 3 -i 20 -m 3600000000"] {
        let output = succeed(called("binderThroughputTest", args));
        let lines = without_numbers(&output.stdout);
        // Which driver depends on the machine.
        assert!(lines[0].starts_with("workers made: N, ") && lines[0].contains(" driver "), "{}", lines[0]);
        assert_eq!(
            lines[1..],
            [
                "waiting for workers to complete",
                "iterations per sec: N",
                "collecting results",
                "killing workers",
                "average:Nms worst:Nms best:Nms",
                "N%: N N%: N N%: N N%: N",
            ],
            "{args}"
        );
        let stdout = String::from_utf8(output.stdout).unwrap();
        let last = stdout.lines().last().unwrap();
        let names: Vec<_> = last.split(' ').step_by(2).collect();
        assert_eq!(names, ["50%:", "90%:", "95%:", "99%:"]);
    }
}

#[test]
fn the_hwbinder_throughput_test_prints_the_same_in_both_modes() {
    for (args, backend) in [
        ("-w 2 -s 1 -i 20 -m BINDERIZE", " driver "),
        ("-w 2 -i 20 -m PASSTHROUGH", "in process (passthrough)"),
    ] {
        let lines = without_numbers(&succeed(called("/system/bin/hwbinderThroughputTest", args)).stdout);
        assert_eq!(lines.len(), 7);
        assert!(lines[0].starts_with("workers made: N, ") && lines[0].contains(backend), "{}", lines[0]);
        assert_eq!(lines[2], "iterations per sec: N");
    }
}

#[test]
fn warnings_and_training_go_to_standard_error() {
    let stderr = |args| String::from_utf8(succeed(called("binderThroughputTest", args)).stderr).unwrap();
    assert!(stderr("-i 20 -m 0").contains("warning: 40 of 40 calls took longer than 0 ns, the worst "));
    let trained = stderr("-i 20 -t");
    assert!(trained.starts_with("binderThroughputTest: training round\n"), "{trained}");
    assert!(trained.contains("binderThroughputTest: training round: worst "), "{trained}");
}

#[test]
fn a_wrong_or_incomplete_argument_of_an_old_name_is_one_line_and_exit_code_2() {
    for (name, args, message) in [
        ("binderThroughputTest", "-w", "-w needs a value"),
        ("binderThroughputTest", "-w x", "-w x: expected a whole number"),
        ("binderThroughputTest", "-x", "unknown flag -x"),
        ("binderThroughputTest", "-w 3 -p", "3 workers cannot be paired: choose an even number"),
        ("binderThroughputTest", "-w 1", "1 worker has no other to call"),
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
fn json_is_one_value_and_the_same_document_as_the_run_directorys() {
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
fn csv_holds_a_line_for_each_caller_and_one_for_all() {
    let args = "ipc workers --driver emulated --stack hwbinder --pairs --workers 4 --iterations 20 --format csv --profile mainline";
    let text = String::from_utf8(succeed(called("roundtrip", args)).stdout).unwrap();
    let lines: Vec<_> = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()).collect();
    let keys: Vec<_> = lines.iter().map(|fields| (fields[0], fields[3], fields[6], fields[7])).collect();
    let backend = "emulated driver (mainline profile)";
    assert_eq!(
        keys,
        [(backend, "pairs", "2", "20"), (backend, "pairs", "3", "20"), (backend, "pairs", "", "40")]
    );
}

/// User and system time in clock ticks: fields 14 and 15 of proc_pid_stat(5).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    number(14) + number(15)
}

/// So many processes, once each uses CPU time: then they call each other. The first is the service manager, which has
/// nothing to do once all are found.
fn long_run(name: &str, args: &str, count: usize) -> (LongRun, Vec<u32>) {
    let run = LongRun::start(&mut called(name, args));
    let workers = run.workers(count, |workers| workers[1..].iter().all(|&pid| cpu_ticks(pid) >= 5));
    (run, workers)
}

#[test]
fn the_death_of_a_worker_is_told_and_not_that_of_those_who_miss_it() {
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
        assert_eq!(stderr, reason);
    }
}

#[test]
fn an_interrupt_ends_the_run_with_status_130() {
    let (run, workers) = long_run("binderThroughputTest", "-i 1000000000", 3);
    kill(run.pid(), "-INT");
    let (code, _, stderr) = run.end(&workers);
    assert_eq!((code, stderr.as_str()), (Some(130), "binderThroughputTest: interrupted by SIGINT\n"));
}
