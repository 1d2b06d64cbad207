//! System calls that fail, as in a container with a filter or on an overloaded machine. strace(1)
//! injects the errors.

use std::process::Command;

use roundtrip_skips::{Need, skip};

use crate::attack::victim::Victim;
use crate::attack::{Folder, rounds};

pub(crate) const COMMANDS: &[&str] = &[
    "ipc latency --driver emulated --iterations 10",
    "ipc latency --driver emulated --iterations 10 --deadline 1ns --explain --explain-limit 1 --out run",
    "ipc workers --driver emulated --workers 2 --iterations 10",
    "ipc baseline --duration 50ms --sizes 4",
    "storage layers --writers native --sizes 4k --calls 3 --rounds 1 --file-size 1M --out run",
    "service list",
];

/// System calls that may be denied somewhere, without those that every program needs to start, and
/// without getrandom(2) and prlimit64(2), which Rust's library and rustix assume cannot fail.
const CALLS: &[&str] = &[
    "accept4",
    "bind",
    "clock_nanosleep",
    "connect",
    "eventfd2",
    "fallocate",
    "fchmod",
    "fcntl",
    "fdatasync",
    "flock",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents64",
    "getpriority",
    "getrusage",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "io_uring_setup",
    "kill",
    "linkat",
    "listen",
    "memfd_create",
    "mkdir",
    "mlock",
    "mlockall",
    "mount",
    "mq_open",
    "openat2",
    "perf_event_open",
    "pidfd_open",
    "pidfd_send_signal",
    "pipe2",
    "prctl",
    "pwrite64",
    "readlink",
    "recvfrom",
    "recvmsg",
    "rename",
    "renameat2",
    "rmdir",
    "sched_getaffinity",
    "sched_getattr",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setscheduler",
    "seccomp",
    "sendmsg",
    "sendto",
    "setpriority",
    "setrlimit",
    "setsid",
    "setsockopt",
    "shutdown",
    "socket",
    "socketpair",
    "statfs",
    "statx",
    "symlink",
    "sysinfo",
    "tgkill",
    "timerfd_create",
    "umount2",
    "uname",
    "unlink",
    "unlinkat",
    "unshare",
];

const ERRORS: &[&str] =
    &["EPERM", "EACCES", "ENOSYS", "ENOMEM", "EMFILE", "EINTR", "EINVAL", "EIO", "ENOSPC", "EAGAIN"];

#[test]
fn a_command_ends_in_time_and_leaves_no_process_if_any_system_call_fails() {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match traced {
        Err(error) => return skip(Need::Program("strace"), error),
        Ok(output) if !output.status.success() => {
            return skip(Need::Root, "strace may not watch a program here");
        }
        Ok(_) => {}
    }
    rounds(16, |random| {
        let args = *random.choice(COMMANDS).unwrap();
        let call = random.choice(CALLS).unwrap();
        let error = random.choice(ERRORS).unwrap();
        let first = random.u32(1..6);
        // Once, or from then on.
        let on = if random.bool() { "+" } else { "" };
        let mut command = Command::new("strace");
        let inject = format!("inject={call}:error={error}:when={first}{on}");
        command.args(["-f", "-q", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
        command.arg(env!("CARGO_BIN_EXE_roundtrip")).args(args.split_whitespace());
        // Files that cannot be removed remain, so they are not checked.
        Victim::start(command, Folder::new("denied")).end()?.is_sound(&[])
    });
}
