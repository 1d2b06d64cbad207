//! The calls about signals and processes that no safe wrapper offers: ignoring a signal, a handler,
//! death with the parent, and what a process does that is forked and never executes anything. Must
//! hold nothing else.
#![allow(unsafe_code)] // These calls are unsafe in every binding, because a handler and a forked child could do anything.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Pid, Signal};

/// Which signal has asked to end; none: 0.
pub(super) static CAUGHT: AtomicUsize = AtomicUsize::new(0);

/// What is written to standard error when a further signal comes.
pub(super) static CLEANING_UP: OnceLock<&'static str> = OnceLock::new();

/// What is done before a further signal ends the process; keeps to what signal-safety(7) allows.
pub(super) static LAST: OnceLock<fn()> = OnceLock::new();

/// How long further signals do nothing, in nanoseconds.
const DEAF_NS: u64 = 3_000_000_000;

/// The same while what was measured is collected: as long as timeout(1) and impatient fingers take
/// to signal twice.
const BOUNCE_NS: u64 = 1_000_000_000;

/// Whether the run is measuring, and can be ended with what it has.
pub(super) static GENTLE: AtomicBool = AtomicBool::new(false);

/// Whether a further signal has asked to end without a result.
pub(super) static QUIT: AtomicBool = AtomicBool::new(false);

/// When the first signal came, in nanoseconds of the monotonic clock; none: 0.
pub(super) static FIRST_NS: AtomicU64 = AtomicU64::new(0);

/// In a worker: whether it is to make no more calls.
pub(super) static STOP: AtomicBool = AtomicBool::new(false);

/// Has a signal noted in [`STOP`].
pub(super) fn stop_by(signal: i32) -> io::Result<()> {
    // SAFETY: an atomic store is all that the handler does.
    unsafe { signal_hook::low_level::register(signal, || STOP.store(true, Ordering::Relaxed)) }?;
    Ok(())
}

/// The monotonic clock, in nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Ignores a signal in this process, for good.
pub(super) fn ignore(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours, so nothing can be done wrongly in a handler; an invalid
    // signal number is refused by the kernel without effect.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Has a signal noted in [`CAUGHT`]; a further one ends the process, unless it comes soon after the
/// first.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    // SAFETY: `caught` keeps to what signal-safety(7) allows: atomics, clock_gettime(2), write(2),
    // signal(2) and raise(3); so does what `LAST` holds.
    unsafe { signal_hook::low_level::register(signal, move || caught(signal)) }?;
    Ok(())
}

/// Runs in the signal handler.
fn caught(signal: i32) {
    static QUIT_NS: AtomicU64 = AtomicU64::new(0);
    static TOLD: AtomicBool = AtomicBool::new(false);
    let now_ns = monotonic_ns();
    let Err(first_ns) = FIRST_NS.compare_exchange(0, now_ns.max(1), Ordering::SeqCst, Ordering::SeqCst)
    else {
        CAUGHT.store(signal.unsigned_abs() as usize, Ordering::SeqCst);
        return;
    };
    if GENTLE.load(Ordering::SeqCst) && !QUIT.load(Ordering::SeqCst) {
        if now_ns.saturating_sub(first_ns) >= BOUNCE_NS {
            QUIT_NS.store(now_ns, Ordering::SeqCst);
            QUIT.store(true, Ordering::SeqCst);
        }
        return;
    }
    let since_ns = first_ns.max(QUIT_NS.load(Ordering::SeqCst));
    if now_ns.saturating_sub(since_ns) < DEAF_NS {
        if let Some(line) = CLEANING_UP.get().filter(|_| !TOLD.swap(true, Ordering::SeqCst)) {
            // With standard error gone there is nobody left to tell.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
        return;
    }
    if let Some(last) = LAST.get() {
        last();
    }
    // SAFETY: runs no code of ours; the signal is delivered when this handler returns, and ends the
    // process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Has a child sent a signal when the calling thread ends, however that does.
pub(crate) fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // It may have died before.
        let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        if now == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    before_exec(command, ask);
}

/// Has a child do something before it executes its program: system calls only, and nothing that
/// allocates memory.
pub(super) fn before_exec(
    command: &mut Command,
    act: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the two callers, in this file and in `supervisor`, make system calls only and
    // allocate nothing.
    unsafe { command.pre_exec(act) };
}

/// Forks. Returns in both processes: the child's id in the parent, `None` in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the calling process is itself a forked one with a single thread, and neither
    // allocates before it executes or exits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Ends this process and runs nothing of the one that it was forked from.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: runs no code of ours.
    unsafe { libc::_exit(code) }
}

/// Blocks all signals, and returns those that were blocked before.
pub(super) fn block_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets outlive the calls; the first is filled by the first call, the second by the
    // second.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// Blocks these signals and no others.
pub(super) fn unblock_signals(before: &libc::sigset_t) {
    // SAFETY: the set is a valid one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

/// Waits for one of two blocked signals; `None` if the wait was interrupted.
pub(super) fn next_signal(wanted: [i32; 2]) -> Option<i32> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set outlives the calls and is emptied before anything is added; nothing is told
    // beside the number.
    let signal = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in wanted {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigwaitinfo(set.as_ptr(), null_mut())
    };
    (signal > 0).then_some(signal)
}

/// Closes every descriptor of a forked process but one, of which it uses no other.
pub(super) fn close_all_but(kept: RawFd) {
    let kept = kept.unsigned_abs();
    for (first, last) in [(0, kept.saturating_sub(1)), (kept.saturating_add(1), libc::c_uint::MAX)] {
        // SAFETY: nothing in such a process uses one of these descriptors.
        unsafe {
            if libc::syscall(libc::SYS_close_range, first, last, 0) == -1 {
                // Before Linux 5.9.
                for fd in first..=last.min(65_535) {
                    libc::close(fd.cast_signed());
                }
            }
        }
    }
}
