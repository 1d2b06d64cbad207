//! A run that is ended from outside, by whichever signal and limit: it cleans up, and nothing outlives it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A run that lasts, once it writes to its file.
fn writing(directory: &Path) -> Child {
    // Where the tests run under nohup, hangups are ignored by all that they start.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_roundtrip")]);
    command.args(["storage", "interference", "--no-recorder", "--file-size", "64K", "--conditions", "alone"]);
    command.args(["--duration", "1h"]).current_dir(directory);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    wait_until("no writer was started", || {
        std::fs::read_to_string(&children).is_ok_and(|text| !text.is_empty())
    });
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1, "its test file");
    child
}

#[test]
fn every_signal_that_ends_a_process_ends_a_run_in_order() {
    let directory = folder("every-signal");
    let signals = [
        Signal::HUP,
        Signal::QUIT,
        Signal::ALARM,
        Signal::XCPU,
        Signal::VTALARM,
        Signal::PROF,
        Signal::USR1,
        Signal::USR2,
        Signal::IO,
        Signal::POWER,
    ];
    for signal in signals {
        let child = writing(&directory);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()), "{signal:?}: {said}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "{signal:?}");
    }
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn timeout_which_signals_twice_leaves_no_test_file() {
    let directory = folder("timeout");
    for hundredths in [20, 35, 50, 80, 120] {
        let mut command = Command::new("timeout");
        command.arg(format!("{}", f64::from(hundredths) / 100.0)).arg(env!("CARGO_BIN_EXE_roundtrip"));
        command.args(["storage", "interference", "--no-recorder", "--file-size", "64K"]);
        command.args(["--conditions", "alone", "--duration", "1h"]).current_dir(&directory);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(124), "{output:?}");
        assert_eq!(
            std::fs::read_dir(&directory).unwrap().count(),
            0,
            "after {hundredths} hundredths of a second"
        );
    }
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_leaves_nothing() {
    let directory = folder("file-size");
    let run = format!(
        "exec '{}' storage interference --file-size 1M --no-recorder",
        env!("CARGO_BIN_EXE_roundtrip")
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit -f 100; {run} --conditions alone")]).current_dir(&directory);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{:?} {said}", output.status);
    assert!(said.contains("File too large") && said.lines().count() == 1, "{said}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(&directory).unwrap();
}

#[test]
fn what_a_writer_started_ends_with_the_run() {
    // None reads its orders: neither does Java in the middle of a block. One is Java itself; one a script that waits for Java; one leaves
    // Java to itself, in a session of its own.
    let javas = [
        ("java", "echo $$ > pid; exec sleep 1000"),
        ("java-of-a-script", "sleep 1000 & echo $! > pid; wait"),
        ("java-on-its-own", "(setsid sleep 1000 & echo $! > pid); exec sleep 1000"),
        // Its child until it ends, and the supervisor's only from then on.
        ("java-with-a-child", "setsid sleep 1000 & echo $! > pid; exec sleep 1000"),
    ];
    for (name, script) in javas {
        for signal in [Signal::TERM, Signal::KILL] {
            let directory = folder(&format!("{name}-{}", signal.as_raw()));
            let java = directory.join("java");
            std::fs::write(&java, format!("#!/bin/sh\n{script}\n")).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&java, executable).unwrap();
            let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
            command.args(["storage", "interference", "--no-recorder", "--file-size", "64K"]);
            command.args(["--neighbours", "alone", "--writers", "java-file", "--java"]).arg(&java);
            command.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = command.spawn().unwrap();
            let pid = || std::fs::read_to_string(directory.join("pid")).ok()?.trim().parse::<i32>().ok();
            wait_until("no Java was started", || pid().is_some());
            let java = Pid::from_raw(pid().unwrap()).unwrap();
            kill_process(Pid::from_child(&run), signal).unwrap();
            let status = run.wait().unwrap();
            assert_eq!(status.code(), (signal == Signal::TERM).then_some(143), "{status}");
            let what = format!("{name} outlives a run that {signal:?} ended");
            wait_until(&what, || test_kill_process(java).is_err());
            std::fs::remove_dir_all(&directory).unwrap();
        }
    }
}
