//! A run that is ended from outside by any signal or limit cleans up, and no process outlives it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::process::children;

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

/// Starts a long run, and waits until it writes to its file.
fn writing(directory: &Path) -> Child {
    // If the tests run under nohup, all their children ignore hangups.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_roundtrip")]);
    command.args(["storage", "interference", "--no-recorder", "--file-size", "64K", "--conditions", "alone"]);
    command.args(["--duration", "1h"]).current_dir(directory);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("no writer was started", || !children(child.id()).is_empty());
    wait_until("there is no test file", || std::fs::read_dir(directory).unwrap().count() == 1);
    child
}

#[test]
fn every_terminating_signal_ends_a_run_cleanly() {
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
fn timeout_leaves_no_test_file_although_it_signals_twice() {
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
fn a_file_size_limit_is_an_error_and_leaves_nothing() {
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
fn processes_that_a_writer_started_end_with_the_run() {
    // None of these reads its standard input, like Java in the middle of a block. One is Java
    // itself, one is a script that waits for Java, and one starts Java in another session and
    // exits.
    let javas = [
        ("java", "echo $$ > pid; exec sleep 1000"),
        ("java-of-a-script", "sleep 1000 & echo $! > pid; wait"),
        ("java-on-its-own", "(setsid sleep 1000 & echo $! > pid); exec sleep 1000"),
        // A child of the writer until the writer ends, and then of the supervisor.
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
            command.args(["--conditions", "alone", "--writers", "java-file", "--java"]).arg(&java);
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

/// A run whose "Java" never answers and has started `children` processes, each in its own session.
/// Returns the run and all process ids once they run.
fn with_java(directory: &Path, children: u32) -> (Child, Vec<Pid>) {
    let java = directory.join("java");
    let script = format!(
        "#!/bin/sh\ni=0; while [ $i -lt {children} ]; do setsid sleep 1000 & echo $! >> pids; i=$((i+1)); done\n\
         echo $$ >> pids; exec sleep 1000\n"
    );
    std::fs::write(&java, script).unwrap();
    std::fs::set_permissions(&java, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(["storage", "interference", "--no-recorder", "--file-size", "64K"]);
    command.args(["--conditions", "alone", "--writers", "java-file", "--java"]).arg(&java);
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    let pids = || {
        let text = std::fs::read_to_string(directory.join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect::<Vec<_>>()
    };
    wait_until("no Java was started", || pids().len() == children as usize + 1);
    (run, pids())
}

/// The only child of a process.
fn child_of(run: &Child) -> Pid {
    let children = children(run.id());
    assert_eq!(children.len(), 1, "one writer");
    Pid::from_raw(children[0].cast_signed()).unwrap()
}

fn alive(pids: &[Pid]) -> usize {
    pids.iter().filter(|pid| test_kill_process(**pid).is_ok()).count()
}

#[test]
fn processes_that_a_killed_writer_started_end_before_the_run() {
    for attempt in 0..5 {
        let directory = folder(&format!("writer-killed-{attempt}"));
        let (run, pids) = with_java(&directory, 100);
        kill_process(child_of(&run), Signal::KILL).unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(alive(&pids), 0, "of {} processes, when the run has ended", pids.len());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("writer") && said.contains("was killed by SIGKILL"), "{said}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn processes_that_a_writer_started_end_before_an_interrupted_run() {
    let directory = folder("run-asked");
    let (run, pids) = with_java(&directory, 100);
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(alive(&pids), 0, "of {} processes, when the run has ended", pids.len());
    assert_eq!(output.status.code(), Some(143), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(&directory).unwrap();
}

/// No process waits in this case: the kernel signals the writer, and at the writer's end it signals
/// the supervisor.
#[test]
#[allow(clippy::print_stdout, reason = "whoever asks for its output wants to know how long it took")]
fn processes_that_a_writer_started_end_soon_after_a_killed_run() {
    let mut slowest = Duration::ZERO;
    for kill in 0..20 {
        let directory = folder(&format!("run-killed-{kill}"));
        let (mut run, pids) = with_java(&directory, 3);
        kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
        let killed = Instant::now();
        run.wait().unwrap();
        while alive(&pids) > 0 {
            assert!(killed.elapsed() < Duration::from_secs(5), "kill {kill}: {} are alive", alive(&pids));
            std::thread::sleep(Duration::from_micros(200));
        }
        slowest = slowest.max(killed.elapsed());
        std::fs::remove_dir_all(&directory).unwrap();
    }
    println!("the slowest of 20 ends took {slowest:?}");
}
