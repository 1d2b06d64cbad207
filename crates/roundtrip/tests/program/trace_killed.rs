//! `roundtrip trace start` and `stop`, killed before each of their system calls. Any next command
//! then works, and in the end all settings are restored.
//!
//! These tests only kill where an earlier system call may have changed something. `cargo xtask
//! attack trace` kills before every system call, which takes minutes.

#![allow(clippy::print_stdout)] // Prints how often a command was killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::global_trace::settings;
use crate::support::stepped::{Stepped, Stopped};
use crate::support::turn::{Single, Turn};
use roundtrip_skips::{Need, skip};
use roundtrip_tracefs::Tracefs;

/// An environment variable. If it is set, the tests kill before every system call.
const LONG: &str = "ROUNDTRIP_ATTACK_ROUNDS";

/// How long the tests wait for another user of the trace.
const PATIENCE: Duration = Duration::from_secs(120);

fn roundtrip(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roundtrip"));
    command.args(args.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(args: &str) -> Output {
    roundtrip(args).output().unwrap()
}

fn message_of(output: &Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{:?}: {out}{err}", output.status)
}

/// The state that must be restored in the end.
#[derive(Debug, PartialEq, Eq)]
struct Before {
    settings: Vec<String>,
    mounts: String,
    kept: Vec<PathBuf>,
}

impl Before {
    fn now(root: &Path) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mounts = mounts.lines().filter(|line| line.contains("roundtrip-trace")).collect();
        let kept = std::fs::read_dir("/run/roundtrip").into_iter().flatten().flatten();
        let kept = kept.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("trace"));
        Self { settings: settings(root), mounts, kept: kept.collect() }
    }
}

impl Before {
    /// The state after one complete trace, because a buffer that was never used reports its size
    /// differently.
    fn undisturbed(root: &Path) -> Self {
        loop {
            start();
            assert!(output("trace stop --discard").status.success());
            let before = Self::now(root);
            // If events are set, another user on this machine has just started a trace.
            if std::fs::read_to_string(root.join("set_event")).unwrap().is_empty() {
                return before;
            }
        }
    }
}

/// Runs a command until just before the `number`th relevant system call, and kills it there; false
/// if it ended before.
fn kill_before(args: &str, number: usize) -> bool {
    let every = std::env::var_os(LONG).is_some();
    let mut command = Stepped::start(roundtrip(args).stdout(Stdio::null()).stderr(Stdio::null()));
    let (mut counted, mut may_have_changed) = (0, true);
    loop {
        match command.next() {
            Stopped::Ended => return false,
            Stopped::Before(call) => {
                if every || may_have_changed {
                    counted += 1;
                }
                if counted > number {
                    command.kill();
                    return true;
                }
                may_have_changed = !call.changes_nothing();
            }
        }
    }
}

/// Starts a trace. Waits until other users on this machine have ended theirs.
fn start() {
    let until = Instant::now() + PATIENCE;
    loop {
        let start = output("trace start -b 64 sched");
        if start.status.success() {
            return;
        }
        assert!(
            message_of(&start).contains("another program") && Instant::now() < until,
            "{}",
            message_of(&start)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Kills `victim` before each system call. After each kill, runs other commands, which must work.
fn kill_before_every_call(victim: &str, started: bool) {
    let _turn = Turn::take(Single::GlobalTrace);
    // Stays open, so that this process can use tracefs even if it is not mounted anywhere.
    let Ok(tracefs) = Tracefs::open().inspect_err(|error| skip(Need::Tracefs, error)) else { return };
    let before = Before::undisturbed(tracefs.root());
    let (mut number, mut kills) = (0, 0);
    loop {
        if started {
            start();
        }
        let killed = kill_before(victim, number);
        for args in NEXT[number % NEXT.len()] {
            let next = output(args);
            // Without a running trace, `status` says so, and `stop` has nothing to do.
            let known = ["no trace was started", "already started", "another program"];
            assert!(
                next.status.success() || known.iter().any(|known| message_of(&next).contains(known)),
                "{victim}, killed before call {number}; {args}: {}",
                message_of(&next)
            );
        }
        // Ends the trace, if one still runs.
        let stop = output("trace stop --discard");
        assert!(
            stop.status.success() || message_of(&stop).contains("no trace was started"),
            "{number}: {}",
            message_of(&stop)
        );
        // Another user on this machine may use the trace for a moment.
        let until = Instant::now() + PATIENCE;
        while Before::now(tracefs.root()) != before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(Before::now(tracefs.root()), before, "{victim}, killed before call {number}");
        if !killed {
            break;
        }
        (number, kills) = (number + 1, kills + 1);
    }
    assert!(kills > 10, "{victim} was killed {kills} times");
    println!("{victim} was killed {kills} times");
}

/// The commands to run after a kill, in turn.
const NEXT: [&[&str]; 4] = [
    &["trace status"],
    &["trace start -b 64 sched", "trace status"],
    &[],
    &["trace status", "trace start -b 64 irq", "trace stop --discard", "trace start -b 64 sched"],
];

#[test]
fn the_next_command_recovers_after_a_killed_trace_start() {
    kill_before_every_call("trace start -b 64 sched", false);
}

#[test]
fn the_next_command_recovers_after_a_killed_trace_stop() {
    kill_before_every_call("trace stop --discard", true);
}

/// Any user can create files in the temporary directory.
#[test]
fn files_of_other_users_in_the_temporary_directory_are_ignored() {
    let _turn = Turn::take(Single::GlobalTrace);
    let directory =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-tmp-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for name in ["roundtrip-trace.json", "trace.json"] {
        let path = std::ffi::CString::new(directory.join(name).to_str().unwrap()).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    }
    let status = roundtrip("trace status").env("TMPDIR", &directory).output().unwrap();
    assert!(message_of(&status).contains("no trace was started"), "{}", message_of(&status));
    std::fs::remove_dir_all(&directory).unwrap();
}
