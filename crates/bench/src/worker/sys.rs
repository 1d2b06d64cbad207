//! The calls about signals that no safe wrapper offers: ignoring one, a handler, death with the parent. Must hold nothing else.
#![allow(unsafe_code)] // These calls are unsafe in every binding, because a handler and a forked child could do anything.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Which signal has asked to end; none: 0.
pub(super) static CAUGHT: AtomicUsize = AtomicUsize::new(0);

/// What is written to standard error when a further signal comes.
pub(super) static CLEANING_UP: OnceLock<&'static str> = OnceLock::new();

/// How long further signals do nothing, in nanoseconds.
const DEAF_NS: u64 = 3_000_000_000;

/// Ignores a signal in this process, for good.
pub(super) fn ignore(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours, so nothing can be done wrongly in a handler; an invalid signal number is
    // refused by the kernel without effect.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Has a signal noted in [`CAUGHT`]; a further one ends the process, unless it comes soon after the first.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    // SAFETY: `caught` keeps to what signal-safety(7) allows: atomics, clock_gettime(2), write(2), signal(2) and raise(3).
    unsafe { signal_hook::low_level::register(signal, move || caught(signal)) }?;
    Ok(())
}

/// Runs in the signal handler.
fn caught(signal: i32) {
    static FIRST_NS: AtomicU64 = AtomicU64::new(0);
    static TOLD: AtomicBool = AtomicBool::new(false);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64);
    let Err(first_ns) = FIRST_NS.compare_exchange(0, now_ns.max(1), Ordering::SeqCst, Ordering::SeqCst)
    else {
        CAUGHT.store(signal.unsigned_abs() as usize, Ordering::SeqCst);
        return;
    };
    if now_ns.saturating_sub(first_ns) < DEAF_NS {
        if let Some(line) = CLEANING_UP.get().filter(|_| !TOLD.swap(true, Ordering::SeqCst)) {
            // With standard error gone there is nobody left to tell.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
        return;
    }
    // SAFETY: runs no code of ours; the signal is delivered when this handler returns, and ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Has a child killed when the calling thread ends, however that does.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have died before.
        let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        if now == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: two system calls between fork and exec, and no memory is allocated.
    unsafe { command.pre_exec(ask) };
}
