//! The supervisor: a process between a worker and a program that the worker starts. The supervisor
//! ends everything that the program started: children, their children, and processes in other
//! sessions. Must not know what the program is.
//!
//! The supervisor adopts orphans below it (`PR_SET_CHILD_SUBREAPER`, prctl(2)). A signal tells it
//! when its own parent ends (`PR_SET_PDEATHSIG`), so it outlives a killed worker until it has
//! killed the rest. Until then it keeps the worker's pipe to the run open. The run waits until that
//! pipe is closed, so it ends after the supervisor. The supervisor is forked and never executes a
//! program: it makes only system calls and allocates nothing.

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

/// How often the supervisor kills the remaining processes, a millisecond apart, before it gives up:
/// a process may be stuck in the kernel.
const TRIES: u32 = 2000;

/// Puts a supervisor between the calling thread and the command's program. The spawned child is the
/// supervisor. It ends with everything below it on SIGTERM, when the calling thread ends, or when
/// the program ends. It exits with the program's status, or with 128 plus the number of the signal
/// that ended the program or the supervisor. `link` is the worker's, and must stay open until the
/// child is spawned.
pub(crate) fn supervise(command: &mut Command, link: &Link) {
    let parent = Some(rustix::process::getpid());
    let line = link.output().as_raw_fd();
    sys::before_exec(command, move || fork_below(parent, line));
}

/// Returns in the program's process. Its parent becomes the supervisor, which keeps the descriptor
/// `line` open.
fn fork_below(parent: Option<Pid>, line: RawFd) -> io::Result<()> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have ended already.
    if rustix::process::getppid() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let before = sys::block_signals();
    let Some(child) = sys::fork()? else {
        // Its own process group, so that it can be killed as a group.
        rustix::process::setpgid(None, None)?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(own) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sys::unblock_signals(&before);
        return Ok(());
    };
    // The program must hold the only copies of its ends of the pipes.
    sys::close_all_but(line);
    let code = wait(child);
    end_all(child);
    sys::exit(code)
}

/// Waits until the program ends or a signal asks this process to end. Returns the exit status.
fn wait(child: Pid) -> i32 {
    loop {
        match sys::next_signal([libc::SIGTERM, libc::SIGCHLD]) {
            Some(libc::SIGTERM) => return 128 + libc::SIGTERM,
            Some(_) => {
                if let Some(code) = ended(child) {
                    return code;
                }
            }
            // This process was stopped or continued.
            None => {}
        }
    }
}

/// How a child ended. The child keeps its pid until it is reaped.
fn ended(child: Pid) -> Option<i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(child), options).ok()??;
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or(signal)
}

/// Kills and reaps everything below this process. Orphans become this process's children.
fn end_all(child: Pid) {
    // The child is not reaped yet, so its pid still identifies its process group.
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

/// Kills the children that the kernel lists (proc_pid_task(5)), as many as fit into the buffer.
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
            // Fails only if it has ended. It is not reaped yet, so its pid is still valid.
            let _ = kill_process(child, Signal::KILL);
        }
        pid = 0;
    }
}
