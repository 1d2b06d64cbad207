//! The flight recorder and the global trace as processes: an interruption leaves nothing behind,
//! and some features work without root. If this process may not use the kernel's trace, a test is
//! skipped.
#![allow(clippy::print_stderr)] // Tests report on standard error what they could not try.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::global_trace::settings;
use crate::support::process::{children, guard, roundtrip, stderr};
use crate::support::turn::{Single, Turn};
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::{GlobalTrace, Recording, Tracefs};
use serde_json::Value;

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ENDLESS: &str =
    "ipc latency --driver emulated --stack hwbinder --callers other --duration 1h --deadline 1s --explain";

/// The kernel's tracefs; `None`, with the test skipped, if this process may not use it.
fn tracefs() -> Option<Tracefs> {
    Tracefs::open().inspect_err(|error| skip(Need::Tracefs, error)).ok()
}

/// The trace instances of a process.
fn instances(tracefs: &Tracefs, pid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tracefs.root().join("instances")).unwrap().flatten();
    let ours = |path: &PathBuf| {
        path.file_name().unwrap().to_string_lossy().starts_with(&format!("roundtrip-{pid}-"))
    };
    entries.map(|entry| entry.path()).filter(ours).collect()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run that records in a temporary folder. It is killed if the test fails.
struct Run {
    child: Child,
    folder: PathBuf,
}

impl Run {
    fn start(tracefs: &Tracefs, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roundtrip-recorder-{}-{name}", std::process::id()));
        let child = roundtrip(ENDLESS)
            .arg("--out")
            .arg(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let run = Self { child, folder };
        wait_until("it records", || {
            let on = |path: &PathBuf| std::fs::read(path.join("tracing_on")).is_ok_and(|text| text == b"1\n");
            // A new instance is briefly on, before the workers start.
            children(run.child.id()).len() >= 3 && instances(tracefs, run.child.id()).iter().any(on)
        });
        run
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The contents of its folder.
    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn an_interrupted_run_leaves_neither_an_instance_nor_a_partial_recording() {
    let Some(tracefs) = tracefs() else { return };
    for (signal, status) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let mut run = Run::start(&tracefs, "interrupted");
        let pid = run.child.id();
        run.signal(signal);
        assert_eq!(run.child.wait().unwrap().code(), Some(status));
        assert_eq!(instances(&tracefs, pid), [] as [PathBuf; 0]);
        let mut left = run.left();
        left.sort();
        // What was measured so far is kept completely. Without a slow call there is no recording.
        assert!(left.is_empty() || left == ["run.json"] || left == ["recording", "run.json"], "{left:?}");
        let whole =
            !left.contains(&"recording".to_owned()) || Recording::open(&run.folder.join("recording")).is_ok();
        assert!(whole, "half a recording");
    }
}

#[test]
fn a_run_whose_worker_is_killed_leaves_nothing() {
    let Some(tracefs) = tracefs() else { return };
    let mut run = Run::start(&tracefs, "worker");
    let pid = run.child.id();
    let last = *children(pid).last().unwrap();
    let last = rustix::process::Pid::from_raw(last.cast_signed()).unwrap();
    rustix::process::kill_process(last, rustix::process::Signal::KILL).unwrap();
    assert_eq!(run.child.wait().unwrap().code(), Some(1));
    assert_eq!(instances(&tracefs, pid), [] as [PathBuf; 0]);
    assert_eq!(run.left(), [] as [String; 0]);
}

/// Whether a process lives. A killed one that is not reaped yet does not.
fn lives(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[test]
fn a_killed_runs_guard_ends_its_recording() {
    let Some(tracefs) = tracefs() else { return };
    let mut run = Run::start(&tracefs, "guarded");
    let pid = run.child.id();
    let guard = guard(pid).expect("it has a guard");
    // Nobody who signals the run, its group or its name reaches the guard.
    let own_group = rustix::process::getpgid(rustix::process::Pid::from_raw(guard.cast_signed())).unwrap();
    assert_eq!(own_group.as_raw_nonzero().get().unsigned_abs(), guard);
    assert_eq!(std::fs::read_to_string(format!("/proc/{guard}/comm")).unwrap(), "guard\n");
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    wait_until("the guard removes the instance", || instances(&tracefs, pid).is_empty());
    wait_until("the guard ends", || !lives(guard));
}

#[test]
fn a_run_that_ends_leaves_no_guard() {
    let Some(tracefs) = tracefs() else { return };
    let mut run = Run::start(&tracefs, "unguarded");
    let guard = guard(run.child.id()).expect("it has a guard");
    run.signal(rustix::process::Signal::TERM);
    run.child.wait().unwrap();
    assert!(!lives(guard));
}

#[test]
fn the_next_command_removes_what_a_killed_run_and_its_guard_left() {
    let Some(tracefs) = tracefs() else { return };
    let again = "ipc latency --driver emulated --stack hwbinder --callers other --iterations 20 --out";
    for next in [again, "doctor --cleanup --format json"] {
        let mut run = Run::start(&tracefs, "killed");
        let pid = run.child.id();
        let guard = guard(pid).and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        rustix::process::kill_process(guard.unwrap(), rustix::process::Signal::KILL).unwrap();
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        let mut command = roundtrip(next);
        if next == again {
            command.arg(&run.folder);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(instances(&tracefs, pid), [] as [PathBuf; 0]);
        // Another test's command may have removed the instance first.
        for line in stderr(&output).lines().filter(|line| line.contains("trace instance")) {
            assert!(line.ends_with(" was removed: a run that was killed had left it behind"), "{line}");
        }
        let halves = run.left().into_iter().filter(|name| name.starts_with('.') && next == again);
        assert_eq!(halves.collect::<Vec<_>>(), [] as [String; 0]);
    }
}

/// Whether an instance is on and has recorded something. A new one is on before it has events.
fn has_events(instance: &Path) -> bool {
    let on = std::fs::read(instance.join("tracing_on")).is_ok_and(|text| text == b"1\n");
    let cpus = std::fs::read_dir(instance.join("per_cpu")).into_iter().flatten().flatten();
    let recorded = |cpu: std::fs::DirEntry| {
        std::fs::read_to_string(cpu.path().join("stats"))
            .is_ok_and(|stats| !stats.starts_with("entries: 0\n"))
    };
    on && cpus.into_iter().any(recorded)
}

/// Why the recording of a command is incomplete after another program has disturbed it, as the
/// result says at the JSON pointer `at`. The command must fail.
fn disturbed(tracefs: &Tracefs, line: &str, at: &str, disturb: impl FnOnce(&Path)) -> String {
    let mut command = roundtrip(line);
    command.args(["--format", "json", "--duration", "4s"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let instance = || instances(tracefs, child.id()).into_iter().next();
    wait_until("it records", || instance().is_some_and(|instance| has_events(&instance)));
    // A buffer that was cleared before it was read for the first time looks like any other.
    std::thread::sleep(Duration::from_secs(1));
    disturb(&instance().expect("it still records"));
    let output = child.wait_with_output().unwrap();
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let why =
        run["results"].pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(!output.status.success() && stderr(&output).contains(why), "{}", stderr(&output));
    why.to_owned()
}

#[test]
fn a_recording_that_another_program_disturbs_is_incomplete() {
    let Some(tracefs) = tracefs() else { return };
    let latency = "ipc latency --driver emulated --stack hwbinder --callers other --deadline 1s --explain --require events";
    let (calls, observed) = ("/latency/explained/not_recorded", "/system_calls/not_recorded");
    // The recorder is off for a moment after each turn, when this has no effect.
    let off = |instance: &Path| {
        for _ in 0..20 {
            std::fs::write(instance.join("tracing_on"), "0").unwrap();
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let cleared = |instance: &Path| std::fs::write(instance.join("trace"), "").unwrap();
    for (line, at, says, disturb) in [
        (latency, calls, "changed tracing_on", &off as &dyn Fn(&Path)),
        ("storage syscalls", observed, "changed tracing_on", &off),
        ("storage syscalls", observed, "cleared the buffer", &cleared),
    ] {
        let why = disturbed(&tracefs, line, at, disturb);
        assert!(why.contains(&format!("another program {says}")) && why.contains(" s and "), "{line}: {why}");
    }
}

/// Clears the buffer of a command again and again. Returns its status and error output.
fn cleared(tracefs: &Tracefs, mut command: Command) -> (Option<i32>, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        for instance in instances(tracefs, child.id()) {
            let _ = std::fs::write(instance.join("trace"), "");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn a_recording_that_is_cleared_before_it_is_read_ends() {
    let Some(tracefs) = tracefs() else { return };
    let folder = crate::support::storage::folder("cleared");
    let mut writes = roundtrip(
        "storage layers --writers native --sizes 4k --calls 600 --rounds 60 --file-size 64K --file",
    );
    writes.arg(folder.join("file"));
    let calls = roundtrip(
        "ipc latency --driver emulated --stack hwbinder --callers other --duration 2s --explain-slowest 5 --require events",
    );
    for command in [writes, calls] {
        let (status, said) = cleared(&tracefs, command);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("another program cleared the buffer of this recording between"), "{said}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_root_slow_calls_are_kept_with_their_counters() {
    let mut command = roundtrip(
        "ipc latency --driver emulated --stack hwbinder --callers other --iterations 20 --deadline 1ns --explain \
         --explain-limit 2 --format json",
    );
    if rustix::process::geteuid().is_root() {
        // The user "nobody", who may not use the kernel's trace.
        command.uid(65534).gid(65534);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return skip(Need::Root, format!("the program cannot be run by another user: {error}"));
        }
    };
    assert!(output.status.success(), "{}", stderr(&output));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let explained = &run["results"]["latency"]["explained"];
    let why = explained["not_recorded"].as_str().unwrap();
    assert!(why.contains("root"), "{why}");
    let said = stderr(&output);
    assert_eq!(said.matches(why).count(), 1, "it is said in one line: {said}");
    assert!(!said.contains("beyond the limit is not known"), "the counters say it: {said}");
    let misses = explained["misses"].as_array().unwrap();
    assert_eq!((misses.len(), explained["over_limit"].as_u64()), (2, Some(18)));
    for miss in misses {
        assert_eq!(miss["snapshot"], Value::Null);
        assert!(miss["client_counters"]["cpu_ns"].is_u64(), "{miss}");
        assert!(miss["client_counters"]["voluntary_switches"].is_u64(), "{miss}");
    }
}

#[test]
fn a_run_without_a_slow_call_has_no_warning_about_slow_calls() {
    let command = "ipc latency --driver emulated --stack hwbinder --callers other --iterations 20 --deadline 1h --explain";
    let output = roundtrip(command).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("not known"), "{said}");
}

#[test]
fn conflicting_options_are_usage_errors() {
    for (args, hint) in [
        ("ipc latency --explain --explain-slowest 3", "exclude each other"),
        ("ipc latency --explain-limit 3", "need --explain"),
        ("ipc latency --explain-slowest 3 --explain-limit 5", "applies only to --explain"),
        ("ipc latency --explain --trace", "choose one"),
        ("ipc latency --explain-slowest 0", "whole number"),
        ("trace stop", "-o FILE"),
        ("trace stop -o x --discard", "exclude each other"),
        ("trace start -b 1", "64"),
        (
            "trace start sched gxf",
            "gxf: 'gxf' is not one of atrace's categories; the kernel's are sched, idle, freq",
        ),
    ] {
        let output = roundtrip(args).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args}: {text}");
        assert!(text.contains(hint) && text.lines().count() == 1, "{args}: {text}");
    }
}

#[test]
fn the_global_trace_is_started_stopped_and_restored() {
    let _turn = Turn::take(Single::GlobalTrace);
    let Some(tracefs) = tracefs() else { return };
    let before = settings(tracefs.root());
    let started = roundtrip("trace start -b 128").output().unwrap();
    if !started.status.success() {
        // Another user has a trace, which must not be changed.
        assert_eq!(stderr(&started).lines().count(), 1, "{}", stderr(&started));
        return skip(Need::Machine, stderr(&started));
    }
    let again = roundtrip("trace start").output().unwrap();
    assert!(stderr(&again).contains("roundtrip trace stop") && again.status.code() == Some(1));
    let status = roundtrip("trace status").output().unwrap();
    assert!(String::from_utf8_lossy(&status.stdout).contains("is running"), "{status:?}");
    assert!(
        std::fs::read_to_string(tracefs.root().join("set_event")).unwrap().contains("sched:sched_switch")
    );
    let nowhere = roundtrip("trace stop -o /nonexistent/trace").output().unwrap();
    assert!(stderr(&nowhere).contains("stopped and kept"), "{}", stderr(&nowhere));
    assert!(GlobalTrace::find().unwrap().is_some());
    let file = std::env::temp_dir().join(format!("roundtrip-trace-{}.txt", std::process::id()));
    let stopped = roundtrip("trace stop -o").arg(&file).output().unwrap();
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(text.starts_with("# tracer: nop") && text.contains("sched_switch"), "{text:.200}");
    assert_eq!(settings(tracefs.root()), before);
    let some = roundtrip("trace start -b 128 sched irq").output().unwrap();
    assert!(some.status.success(), "{}", stderr(&some));
    let on = std::fs::read_to_string(tracefs.root().join("set_event")).unwrap();
    assert!(on.contains("irq:softirq_entry") && !on.contains("workqueue:"), "{on}");
    let file = file.with_extension("perfetto-trace");
    let stopped = roundtrip("trace stop -o").arg(&file).output().unwrap();
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    // The first packet of a trace: field 1, with a length.
    assert!(bytes.len() > 1000 && bytes[0] == 0x0a, "{} bytes", bytes.len());
    assert_eq!(settings(tracefs.root()), before);
    assert_eq!(roundtrip("trace status").output().unwrap().status.code(), Some(1));
    // Events of kernels 3.x that later kernels lack.
    let lacking = roundtrip("trace start load membus").output().unwrap();
    let text = stderr(&lacking);
    assert_eq!((lacking.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    assert!(text.contains("this kernel has no events for load, membus; it has events for sched, "), "{text}");
    assert_eq!(settings(tracefs.root()), before);
}
