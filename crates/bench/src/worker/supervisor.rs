//! A process between a worker and a program that it starts, which ends all that the program
//! started: a child, a child's child, or one in a session of its own. Must not know what the
//! program is.
//!
//! The supervisor adopts whatever loses its parent below it (`PR_SET_CHILD_SUBREAPER`, prctl(2)),
//! and is told of its own parent's end by a signal (`PR_SET_PDEATHSIG`), so that it also outlives a
//! worker that is killed, for as long as the killing takes. Until then it keeps the worker's line
//! to the run open, so the run, which waits for the end of that, ends after it. It is forked and
//! never executes anything: it makes system calls only and allocates nothing.

use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
};

use super::link::Link;
use super::sys;

/// How often all that is left is killed before the supervisor gives up, a millisecond apart: a
/// process may be stuck in the kernel.
const TRIES: u32 = 2000;

/// Puts a supervisor between the calling thread and the command's program. The child that is
/// spawned is the supervisor. SIGTERM ends it and everything below it, and so do the end of the
/// calling thread and the program's own. It exits with the program's status, or with 128 and the
/// number of the signal that ended either. `link` is the worker's, and must stay open until the
/// child is spawned.
pub(crate) fn supervise(command: &mut Command, link: &Link) {
    let parent = Some(rustix::process::getpid());
    let line = link.output().as_raw_fd();
    sys::before_exec(command, move || fork_below(parent, line));
}

/// Returns in the program's process; its parent becomes the supervisor, which keeps `line`.
fn fork_below(parent: Option<Pid>, line: RawFd) -> io::Result<()> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have ended before.
    if rustix::process::getppid() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let before = sys::block_signals();
    let Some(child) = sys::fork()? else {
        // Killed as a group, whatever can be found of its children.
        rustix::process::setpgid(None, None)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(own) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sys::unblock_signals(&before);
        return Ok(());
    };
    // The program's end of a pipe must be the last.
    sys::close_all_but(line);
    let code = wait(child);
    end_all(child);
    sys::exit(code)
}

/// Waits until the program ends or this process is asked to; the exit status that tells which.
fn wait(child: Pid) -> i32 {
    loop {
        match sys::next_signal([libc::SIGTERM, libc::SIGCHLD]) {
            Some(libc::SIGTERM) => return 128 + libc::SIGTERM,
            Some(_) => {
                if let Some(code) = ended(child) {
                    return code;
                }
            }
            // Stopped and continued.
            None => {}
        }
    }
}

/// How a child ended, which keeps its pid until it is waited for.
fn ended(child: Pid) -> Option<i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(child), options).ok()??;
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(signal)
}

/// Kills everything below this process, and waits for it. Who loses its parent thereby is this
/// process's child from then on.
fn end_all(child: Pid) {
    // It is not waited for yet, so the number is still its group's.
    let _ = kill_process_group(child, Signal::KILL);
    for _ in 0..TRIES {
        kill_children();
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(_)) => {}
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills the children that the kernel lists (proc_pid_task(5)); of more than fit, the first.
fn kill_children() {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(list) = rustix::fs::open(c"/proc/thread-self/children", flags, Mode::empty()) else { return };
    let mut bytes = [0; 4000];
    let Ok(length) = rustix::io::read(&list, &mut bytes) else { return };
    let mut pid = 0_i32;
    for &byte in &bytes[..length] {
        if byte.is_ascii_digit() {
            pid = pid.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
            continue;
        }
        if let Some(child) = Pid::from_raw(pid) {
            // Fails only when it has ended, and it is not waited for yet.
            let _ = kill_process(child, Signal::KILL);
        }
        pid = 0;
    }
}
