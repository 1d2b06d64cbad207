//! Resource limits, from too low for anything to nearly enough.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use roundtrip_skips::{Need, skip};
use rustix::process::Signal;

use crate::attack::victim::{End, Victim};
use crate::attack::{Folder, rounds};

pub(crate) const COMMANDS: &[&str] = &[
    "ipc latency --driver emulated --iterations 20 --pairs 2",
    "ipc throughput --driver emulated --sizes 4,64k --min-time 50ms --repetitions 2",
    "ipc workers --driver emulated --workers 8 --iterations 20",
    "ipc baseline --duration 200ms --sizes 4",
    "ipc traits --driver emulated --iterations 10",
    "service list",
    "storage layers --writers native --sizes 4k --calls 5 --rounds 1 --file-size 1M",
    "help",
];

/// The program at a path where every user may run it. Some limits do not apply to root, so it is
/// attacked as nobody.
fn program() -> (Folder, PathBuf) {
    let folder = Folder::new("program");
    let path = folder.path().join("roundtrip");
    std::fs::copy(env!("CARGO_BIN_EXE_roundtrip"), &path).unwrap();
    open_to_all(folder.path());
    (folder, path)
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
}

/// A limit, and the signals with which the kernel kills a process that exceeds it.
fn limit(random: &mut Rng) -> (String, Vec<Signal>) {
    match random.u8(..6) {
        0 => (format!("--nofile={}", random.u64(3..60)), vec![]),
        1 => (format!("--nofile={0}:{0}", random.u64(3..200)), vec![]),
        2 => (format!("--nproc={}", random.u64(1..40)), vec![]),
        3 => (format!("--fsize={}", random.u64(..2_000_000)), vec![]),
        // Rust aborts a process that cannot allocate memory, with a message.
        4 => (format!("--as={}", random.u64(30..600) << 20), vec![Signal::ABORT]),
        _ => (format!("--memlock={}", random.u64(..100_000)), vec![]),
    }
}

/// Commands of root that use the kernel's trace and store a run.
const TRACING: &[&str] = &[
    "storage observe --duration 200ms --out out",
    "ipc latency --driver emulated --iterations 20 --explain --deadline 1us --out out",
    "storage layers --writers native --sizes 4k --calls 5 --rounds 1 --file-size 1M --out out",
    "storage syscalls --duration 200ms --out out",
    "watch --driver emulated --duration 200ms --out out",
    "ab --pairs 1 --out out -- ipc latency --driver emulated --iterations 20",
];

#[test]
fn a_command_without_free_descriptors_names_the_limit_and_leaves_nothing() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root records the kernel's trace");
    }
    let (mut refusals, mut successes) = (0, 0);
    for args in TRACING {
        for files in (16..=30).chain([36, 44, 56, 100]) {
            let mut command = Command::new("prlimit");
            command.args([&format!("--nofile={files}"), "--", env!("CARGO_BIN_EXE_roundtrip")]);
            command.args(args.split_whitespace());
            let end = Victim::start(command, Folder::new("limit"))
                .end()
                .unwrap_or_else(|finding| panic!("{finding}"));
            if end.status.success() {
                end.is_sound(&[]).unwrap_or_else(|finding| panic!("{finding}"));
                successes += 1;
                continue;
            }
            end.is_clean(&[]).unwrap_or_else(|finding| panic!("{finding}"));
            refusals += 1;
            let is_clear = end.stderr.contains("(ulimit -n)") && end.stderr.lines().count() == 1;
            assert!(is_clear, "{}", end.finding(&format!("its refusal with {files} files is unclear")));
        }
    }
    assert!(refusals > 40 && successes >= TRACING.len(), "{refusals} refusals, {successes} successes");
}

/// Runs a command of this program as nobody, with a limit.
fn limited(program: &Path, limit: &str, args: &str) -> Result<End, String> {
    let folder = Folder::new("limit");
    for name in ["work", "tmp", "run"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        open_to_all(&folder.path().join(name));
    }
    open_to_all(folder.path());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", limit, "--"]);
    command.arg(program).args(args.split_whitespace());
    Victim::start(command, folder).end()
}

/// Whether this user can run a program as nobody.
fn may_be_nobody() -> bool {
    let may = Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "true"]).output();
    may.is_ok_and(|output| output.status.success())
}

#[test]
fn a_command_reports_the_process_limit_in_one_line() {
    if !may_be_nobody() {
        return skip(Need::Root, "this user cannot run a program as nobody");
    }
    let (_folder, program) = program();
    // The limit counts all processes and threads of a user. Ten are enough for one pair of
    // processes.
    for (limit, args) in [
        ("--nproc=1", "ipc latency --driver emulated --iterations 20"),
        ("--nproc=1", "ipc throughput --driver emulated --sizes 4 --min-time 50ms"),
        ("--nproc=1", "ipc workers --driver emulated --workers 2 --iterations 20"),
        ("--nproc=10", "ipc latency --driver emulated --iterations 20 --pairs 8"),
        ("--nproc=10", "ipc workers --driver emulated --workers 16 --iterations 20"),
    ] {
        let end = limited(&program, limit, args).unwrap_or_else(|finding| panic!("{finding}"));
        end.is_clean(&[]).unwrap_or_else(|finding| panic!("{finding}"));
        let one_line = end.stderr.lines().count() == 1 && end.stdout.is_empty();
        assert!(one_line && end.status.code() == Some(1), "{}", end.finding("it did not fail in one line"));
        let why = end.stderr.contains("temporarily unavailable") || end.stderr.contains("processes");
        assert!(why, "{}", end.finding("it does not say why"));
    }
    let end = limited(&program, "--nproc=10", "ipc throughput --driver emulated --sizes 4 --min-time 50ms");
    end.and_then(|end| end.is_clean(&[])).unwrap_or_else(|finding| panic!("{finding}"));
}

#[test]
fn an_error_names_its_cause_once_and_the_limit_to_raise() {
    if !may_be_nobody() {
        return skip(Need::Root, "this user cannot run a program as nobody");
    }
    let (_folder, program) = program();
    let mut refusals = 0;
    for args in &COMMANDS[..5] {
        for (limit, remedy) in [
            ("--nofile=12", "(ulimit -n)"),
            ("--nofile=20", "(ulimit -n)"),
            ("--nofile=32", "(ulimit -n)"),
            ("--nproc=1", "(ulimit -u, "),
            ("--nproc=4", "(ulimit -u, "),
            ("--nproc=14", "(ulimit -u, "),
        ] {
            let end = limited(&program, limit, args).unwrap_or_else(|finding| panic!("{finding}"));
            if end.status.success() {
                continue;
            }
            refusals += 1;
            let said = &end.stderr;
            let is_clear = said.contains(remedy) && said.matches("os error").count() == 1;
            assert!(is_clear && !said.contains("/proc/self"), "{}", end.finding("its refusal is unclear"));
        }
    }
    assert!(refusals > 20, "{refusals} refusals");
}

#[test]
fn a_command_ends_in_time_and_leaves_nothing_under_any_limit() {
    if !may_be_nobody() {
        return skip(Need::Root, "this user cannot run a program as nobody");
    }
    let (_folder, program) = program();
    rounds(16, |random| {
        let args = *random.choice(COMMANDS).unwrap();
        let (limit, signals) = limit(random);
        let end = limited(&program, &limit, args)?;
        let memory =
            end.stderr.contains("memory allocation of") || end.stderr.contains("cannot allocate memory");
        end.is_clean(if memory { &signals } else { &[] })
    });
}
