//! Signals that ask a run to end, converted to a descriptor for poll(2). Handlers are set once for
//! the process, and the descriptor is never drained, so a signal between two runs is not lost. This
//! file ends no run itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

use super::sys::{self, CAUGHT};
use crate::error::{Error, Result};
use crate::kernel::root::Root;

/// Signals that end a process without a handler and are not caused by its own faults (signal(7)).
/// Two others report write errors, and are ignored, so that the write fails: `SIGPIPE` by Rust's
/// runtime, and `SIGXFSZ` ([`ignore_file_size_signal`]).
const ENDING: [i32; 12] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO, SIGPWR];

/// Watches the signals that end a process. The first one ends the run cleanly, and keeps what was
/// measured if the run supports that. timeout(1) sends two at once, and users press Ctrl-C twice,
/// so further signals are ignored for three seconds. A later one ends the process at once.
#[derive(Debug)]
pub struct Interrupts {
    pipe: UnixStream,
}

impl Interrupts {
    /// The process's only watch. The first call sets the handlers.
    ///
    /// # Errors
    /// [`Error::System`] if the handlers cannot be set.
    pub fn watch() -> Result<&'static Self> {
        static WATCH: OnceLock<std::result::Result<Interrupts, i32>> = OnceLock::new();
        let watch =
            WATCH.get_or_init(|| register().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
        watch
            .as_ref()
            .map_err(|&errno| Error::system("watch for signals", io::Error::from_raw_os_error(errno)))
    }

    /// Checks whether a signal has asked to end.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if one has, unless the run is collecting what it has measured.
    pub fn check(&self) -> Result<()> {
        match CAUGHT.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ if is_stopping() && !is_late() => Ok(()),
            signal => Err(Error::Interrupted { signal: signal as i32 }),
        }
    }
}

/// How long a run that is being stopped may take to collect what was measured: a call may take
/// long, or never return.
const COLLECTED_WITHIN_NS: u64 = 10_000_000_000;

/// Whether the program prints what it had measured before a signal or a failure. The program sets
/// it once, before its first run. It is static because a process has only one set of signal
/// handlers, which all its runs share.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Whether a signal cut anything short.
static CUT: AtomicBool = AtomicBool::new(false);

/// The failure that cut something short.
static FAILURE: Mutex<Option<String>> = Mutex::new(None);

/// What ended a measurement that has results all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A signal, by its number.
    Signal(i32),
    /// The error of what failed.
    Failure(String),
}

/// From now on Ctrl-C (SIGINT), SIGTERM, SIGHUP and failures, such as the death of a worker, end
/// the measurement and keep what was measured, if anything was. A further signal, at least a second
/// later, ends the run without results.
pub fn keep_what_was_measured() {
    KEEPS.store(true, Ordering::SeqCst);
}

/// What ended the measurement early.
pub(crate) fn cut_short_by() -> Option<Cut> {
    if CUT.load(Ordering::SeqCst) {
        return Some(Cut::Signal(CAUGHT.load(Ordering::SeqCst) as i32));
    }
    FAILURE.lock().unwrap_or_else(PoisonError::into_inner).clone().map(Cut::Failure)
}

/// While this value lives, a signal ends the calls in progress, and the run waits for their result.
#[must_use]
#[derive(Debug)]
pub(crate) struct Gently(());

impl Gently {
    pub(crate) fn begin() -> Self {
        sys::GENTLE.store(KEEPS.load(Ordering::SeqCst), Ordering::SeqCst);
        Self(())
    }

    /// Whether to stop measuring. Ask after each piece of work: if true, the run counts as cut
    /// short.
    pub(crate) fn stops(&self) -> bool {
        let stops = is_stopping();
        CUT.fetch_or(stops, Ordering::SeqCst);
        stops
    }
}

impl Drop for Gently {
    fn drop(&mut self) {
        sys::GENTLE.store(false, Ordering::SeqCst);
    }
}

/// Ignores the error that ended work if `something` was measured before it, and marks the run as
/// cut short. The caller must not wait for the workers of that work.
pub(crate) fn keep(error: Error, something: bool) -> Result<()> {
    match error {
        Error::Interrupted { signal } if something && may_stop(signal) => {
            CUT.store(true, Ordering::SeqCst);
            Ok(())
        }
        error @ Error::Interrupted { .. } => Err(error),
        error if something && KEEPS.load(Ordering::SeqCst) => {
            let mut failure = FAILURE.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error.to_string());
            Ok(())
        }
        error => Err(error),
    }
}

/// Whether a signal has asked to stop measuring, and the result so far is kept.
pub(crate) fn is_stopping() -> bool {
    let caught = CAUGHT.load(Ordering::SeqCst) as i32;
    caught != 0 && may_stop(caught) && (sys::GENTLE.load(Ordering::SeqCst) || CUT.load(Ordering::SeqCst))
}

fn may_stop(signal: i32) -> bool {
    [SIGINT, SIGTERM, SIGHUP].contains(&signal)
        && KEEPS.load(Ordering::SeqCst)
        && !sys::QUIT.load(Ordering::SeqCst)
}

fn is_late() -> bool {
    let first_ns = sys::FIRST_NS.load(Ordering::SeqCst);
    sys::monotonic_ns().saturating_sub(first_ns) > COLLECTED_WITHIN_NS
}

/// In a worker: whether its parent has requested to make no more calls.
pub(crate) fn is_stopped() -> bool {
    sys::STOP.load(Ordering::Relaxed)
}

/// In a worker: makes no more calls, as if its parent had requested that.
pub(crate) fn stop() {
    sys::STOP.store(true, Ordering::Relaxed);
}

impl AsFd for Interrupts {
    /// Readable while [`Interrupts::check`] returns an error. Must not be read from.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn register() -> io::Result<Interrupts> {
    let (pipe, write) = UnixStream::pair()?;
    for signal in ENDING {
        // Under nohup(1), a run continues when its terminal closes. Shells start background jobs
        // with SIGINT ignored, but scripts send it all the same to end a run.
        if ![SIGINT, SIGTERM].contains(&signal) && is_ignored(signal) {
            continue;
        }
        // The order matters: the handler must store the signal before the pipe wakes a thread.
        sys::end_by(signal)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(Interrupts { pipe })
}

/// Sets the line that is written to standard error when another signal arrives during cleanup.
pub fn set_cleaning_up_line(line: &'static str) {
    let _ = sys::CLEANING_UP.set(line);
}

/// Sets the function that runs just before another signal ends the process during cleanup. It runs
/// in the signal handler, so it may use only atomics and the system calls that signal-safety(7)
/// lists, and must not allocate memory. Only the first call has an effect.
pub fn set_before_hard_end(act: fn()) {
    let _ = sys::LAST.set(act);
}

/// From now on, a write beyond the file size limit (`ulimit -f`) fails like any other, in this
/// process and its children, instead of ending the process before it can clean up.
pub fn ignore_file_size_signal() {
    sys::ignore(libc::SIGXFSZ);
}

/// Whether this process was started with the signal ignored (/proc/self/status,
/// proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    Root::real()
        .read("proc/self/status")
        .as_deref()
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("SigIgn:")))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
