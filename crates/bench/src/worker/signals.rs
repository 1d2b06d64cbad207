//! Signals that ask a run to end, made into a descriptor that poll(2) can wait for. Registered once
//! for the process and never read empty, so a signal between two runs is not lost. Must not end
//! anything itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

use super::sys::{self, CAUGHT};
use crate::error::{Error, Result};
use crate::root::Root;

/// What ends a process that does not handle it, and is no fault of its own (signal(7)). Two more
/// tell of writing errors, and are ignored, so that the write fails: `SIGPIPE` by Rust's runtime,
/// and `SIGXFSZ` ([`ignore_file_size_signal`]).
const ENDING: [i32; 12] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO, SIGPWR];

/// Watches the signals that end a process. The first one ends the run in order, with what was
/// measured where that is kept. timeout(1) sends two at once, and people press Ctrl-C twice:
/// further ones do nothing for three seconds. One that comes later ends the process at once.
#[derive(Debug)]
pub struct Interrupts {
    pipe: UnixStream,
}

impl Interrupts {
    /// The process's one watch; the first call sets the handlers.
    ///
    /// # Errors
    /// [`Error::System`] when the handlers cannot be set.
    pub fn watch() -> Result<&'static Self> {
        static WATCH: OnceLock<std::result::Result<Interrupts, i32>> = OnceLock::new();
        let watch =
            WATCH.get_or_init(|| register().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
        watch
            .as_ref()
            .map_err(|&errno| Error::system("watch for signals", io::Error::from_raw_os_error(errno)))
    }

    /// [`Error::Interrupted`] when a signal has asked to end, unless what was measured until then
    /// is being collected.
    ///
    /// # Errors
    /// That is all it is for.
    pub fn check(&self) -> Result<()> {
        match CAUGHT.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ if is_stopping() && !is_late() => Ok(()),
            signal => Err(Error::Interrupted { signal: signal as i32 }),
        }
    }
}

/// How long a run that is stopped may take to collect what was measured: a call may last, or never
/// return.
const COLLECTED_WITHIN_NS: u64 = 10_000_000_000;

/// Whether the program prints what was measured until a signal.
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Whether something was left out because of a signal.
static CUT: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C (SIGINT) and SIGTERM end the measuring and leave what was measured until
/// then, if anything was. A further one, a second or more later, ends the run without.
pub fn keep_what_was_measured() {
    KEEPS.store(true, Ordering::SeqCst);
}

/// The signal that ended the measuring before all was measured that was asked for.
pub(crate) fn cut_short_by() -> Option<i32> {
    CUT.load(Ordering::SeqCst).then(|| CAUGHT.load(Ordering::SeqCst) as i32)
}

/// While it lives, the calls under way end at a signal, and their result is awaited.
#[must_use]
#[derive(Debug)]
pub(crate) struct Gently(());

impl Gently {
    pub(crate) fn begin() -> Self {
        sys::GENTLE.store(KEEPS.load(Ordering::SeqCst), Ordering::SeqCst);
        Self(())
    }

    /// Whether to measure no more. To be asked behind each piece of work: from then on the run is
    /// cut short.
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

/// Passes over the error of a piece of work that a signal has ended, if there is `something`
/// measured before it: the run is cut short. Its workers are not to be waited for.
pub(crate) fn keep(error: Error, something: bool) -> Result<()> {
    match error {
        Error::Interrupted { signal } if something && may_stop(signal) => {
            CUT.store(true, Ordering::SeqCst);
            Ok(())
        }
        error => Err(error),
    }
}

/// Whether a signal has asked to measure no more, and the result so far is wanted.
pub(crate) fn is_stopping() -> bool {
    let caught = CAUGHT.load(Ordering::SeqCst) as i32;
    caught != 0 && may_stop(caught) && (sys::GENTLE.load(Ordering::SeqCst) || CUT.load(Ordering::SeqCst))
}

fn may_stop(signal: i32) -> bool {
    [SIGINT, SIGTERM].contains(&signal) && KEEPS.load(Ordering::SeqCst) && !sys::QUIT.load(Ordering::SeqCst)
}

fn is_late() -> bool {
    let first_ns = sys::FIRST_NS.load(Ordering::SeqCst);
    sys::monotonic_ns().saturating_sub(first_ns) > COLLECTED_WITHIN_NS
}

/// In a worker: whether its parent wants no more calls.
pub(crate) fn is_stopped() -> bool {
    sys::STOP.load(Ordering::Relaxed)
}

impl AsFd for Interrupts {
    /// Readable as soon as, and for as long as, [`Interrupts::check`] is an error. Not to be read
    /// from.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn register() -> io::Result<Interrupts> {
    let (pipe, write) = UnixStream::pair()?;
    for signal in ENDING {
        // Under nohup(1) a run goes on when its terminal closes. Shells start background jobs with
        // SIGINT ignored, which scripts send all the same to end a run.
        if ![SIGINT, SIGTERM].contains(&signal) && is_ignored(signal) {
            continue;
        }
        // The order matters: who is woken by the pipe must find what was caught.
        sys::end_by(signal)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(Interrupts { pipe })
}

/// Sets the line that is written to standard error when a further signal comes while a run cleans
/// up.
pub fn set_cleaning_up_line(line: &'static str) {
    let _ = sys::CLEANING_UP.set(line);
}

/// Sets what is done just before a further signal ends the process while it cleans up. It runs in
/// the signal handler: only atomics and system calls that signal-safety(7) lists, and no memory is
/// allocated. The first one that is set counts.
pub fn set_before_hard_end(act: fn()) {
    let _ = sys::LAST.set(act);
}

/// From now on a write beyond the limit on file sizes (`ulimit -f`) fails like any other, in this
/// process and those that it starts, instead of ending the process before it can clean up.
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
