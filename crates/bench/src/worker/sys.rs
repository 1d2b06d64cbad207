//! Calls for signals and processes that have no safe wrapper, and a look at standard output:
//! ignoring a signal, a handler, death with the parent, and what a forked process does that never
//! executes a program. Must contain nothing else.
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

/// Whether the process was started without standard output.
static STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's runtime, which opens /dev/null in the place of a missing standard output.
extern "C" fn look_at_stdout() {
    // SAFETY: only reads the descriptor's flags.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    STDOUT_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the loader calls each function of this section once, with C's calling convention. This
// one needs nothing that the runtime sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

/// Whether the process was started without standard output (`>&-`).
pub fn stdout_was_closed() -> bool {
    STDOUT_CLOSED.load(Ordering::Relaxed)
}

/// The signal that has asked to end; 0 for none.
pub(super) static CAUGHT: AtomicUsize = AtomicUsize::new(0);

/// Written to standard error when another signal arrives.
pub(super) static CLEANING_UP: OnceLock<&'static str> = OnceLock::new();

/// Called before another signal ends the process. Limited to what signal-safety(7) allows.
pub(super) static LAST: OnceLock<fn()> = OnceLock::new();

/// How long further signals are ignored during cleanup, in nanoseconds.
const DEAF_NS: u64 = 3_000_000_000;

/// How long further signals are ignored while results are collected, in nanoseconds. Long enough
/// for the double signals of timeout(1) and of impatient users.
const BOUNCE_NS: u64 = 1_000_000_000;

/// Whether the run is measuring, and can end with its results so far.
pub(super) static GENTLE: AtomicBool = AtomicBool::new(false);

/// Whether another signal has asked to end without results.
pub(super) static QUIT: AtomicBool = AtomicBool::new(false);

/// When the first signal arrived, in nanoseconds of CLOCK_MONOTONIC; 0 for none.
pub(super) static FIRST_NS: AtomicU64 = AtomicU64::new(0);

/// In a worker: whether it should make no more calls.
pub(super) static STOP: AtomicBool = AtomicBool::new(false);

/// Sets [`STOP`] on a signal.
pub(super) fn stop_by(signal: i32) -> io::Result<()> {
    // SAFETY: the handler does nothing but an atomic store.
    unsafe { signal_hook::low_level::register(signal, || STOP.store(true, Ordering::Relaxed)) }?;
    Ok(())
}

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Ignores a signal in this process from now on.
pub(super) fn ignore(signal: i32) {
    // SAFETY: SIG_IGN runs no code of ours. The kernel rejects an invalid signal number without
    // effect.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Stores a signal in [`CAUGHT`]. Another one ends the process, unless it follows soon after the
/// first.
pub(super) fn end_by(signal: i32) -> io::Result<()> {
    // SAFETY: `caught` is limited to what signal-safety(7) allows: atomics, clock_gettime(2),
    // write(2), signal(2) and raise(3). So is what `LAST` contains.
    unsafe { signal_hook::low_level::register(signal, move || caught(signal)) }?;
    Ok(())
}

/// Runs in the signal handler.
fn caught(signal: i32) {
    static QUIT_NS: AtomicU64 = AtomicU64::new(0);
    static REPORTED: AtomicBool = AtomicBool::new(false);
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
        if let Some(line) = CLEANING_UP.get().filter(|_| !REPORTED.swap(true, Ordering::SeqCst)) {
            // If standard error is closed, the line is lost.
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
        return;
    }
    if let Some(last) = LAST.get() {
        last();
    }
    // SAFETY: runs no code of ours. The signal is delivered when this handler returns, and ends the
    // process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Sends a child a signal when the calling thread ends, however that happens.
pub(crate) fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // The parent may have died already.
        let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        if now == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    before_exec(command, ask);
}

/// Runs `act` in a child before it executes its program. `act` must only make system calls, and not
/// allocate memory.
pub(super) fn before_exec(
    command: &mut Command,
    act: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the two callers, in this file and in `supervisor`, only make system calls and
    // allocate nothing.
    unsafe { command.pre_exec(act) };
}

/// Forks. Returns in both processes: the child's id in the parent, `None` in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the calling process is itself a forked one with a single thread. Neither process
    // allocates before it executes or exits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Exits without running exit handlers of the process that it was forked from.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: runs no code of ours.
    unsafe { libc::_exit(code) }
}

/// Blocks all signals, and returns the previous mask.
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

/// Restores a signal mask.
pub(super) fn unblock_signals(before: &libc::sigset_t) {
    // SAFETY: the set is a valid one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

/// Waits for one of two blocked signals; `None` if the wait was interrupted.
pub(super) fn next_signal(wanted: [i32; 2]) -> Option<i32> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set outlives the calls and is emptied before anything is added. The null pointer
    // means that only the signal's number is wanted.
    let signal = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in wanted {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::sigwaitinfo(set.as_ptr(), null_mut())
    };
    (signal > 0).then_some(signal)
}

/// Closes every descriptor of a forked process except `kept`. The process uses no other.
pub(super) fn close_all_but(kept: RawFd) {
    let kept = kept.unsigned_abs();
    for (first, last) in [(0, kept.saturating_sub(1)), (kept.saturating_add(1), libc::c_uint::MAX)] {
        // SAFETY: nothing in this process uses these descriptors.
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
