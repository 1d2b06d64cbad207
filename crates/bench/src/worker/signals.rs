//! Signals that ask a run to end, made into a descriptor that poll(2) can wait for. Registered once for the process
//! and never read empty, so a signal between two runs is not lost. Must not end anything itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

use super::sys::{self, CAUGHT};
use crate::error::{Error, Result};
use crate::root::Root;

/// What ends a process that does not handle it, and is no fault of its own (signal(7)). Two more tell
/// of writing errors, and are ignored, so that the write fails: `SIGPIPE` by Rust's runtime, and `SIGXFSZ`
/// ([`ignore_file_size_signal`]).
const ENDING: [i32; 12] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGVTALRM, SIGPROF, SIGUSR1, SIGUSR2, SIGIO, SIGPWR];

/// Watches the signals that end a process. The first one ends the run in order. timeout(1) sends two at once, and people press
/// Ctrl-C twice: further ones do nothing for three seconds. One that comes later ends the process at once.
#[derive(Debug)]
pub struct Interrupts {
    pipe: UnixStream,
}

impl Interrupts {
    /// The process's one watch; the first call sets the handlers.
    ///
    /// # Errors
    /// [`Error::System`] when the handlers cannot be set.
    pub fn watch() -> Result<&'static Interrupts> {
        static WATCH: OnceLock<std::result::Result<Interrupts, i32>> = OnceLock::new();
        let watch =
            WATCH.get_or_init(|| register().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
        watch
            .as_ref()
            .map_err(|&errno| Error::system("watch for signals", io::Error::from_raw_os_error(errno)))
    }

    /// [`Error::Interrupted`] when a signal has asked to end.
    ///
    /// # Errors
    /// That is all it is for.
    pub fn check(&self) -> Result<()> {
        match CAUGHT.load(Ordering::SeqCst) {
            0 => Ok(()),
            signal => Err(Error::Interrupted { signal: signal as i32 }),
        }
    }
}

impl AsFd for Interrupts {
    /// Readable as soon as, and for as long as, [`Interrupts::check`] is an error. Not to be read from.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn register() -> io::Result<Interrupts> {
    let (pipe, write) = UnixStream::pair()?;
    for signal in ENDING {
        // Under nohup(1) a run goes on when its terminal closes. Shells start background jobs with SIGINT ignored, which scripts
        // send all the same to end a run.
        if ![SIGINT, SIGTERM].contains(&signal) && is_ignored(signal) {
            continue;
        }
        // The order matters: who is woken by the pipe must find what was caught.
        sys::end_by(signal)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(Interrupts { pipe })
}

/// Sets the line that is written to standard error when a further signal comes while a run cleans up.
pub fn set_cleaning_up_line(line: &'static str) {
    let _ = sys::CLEANING_UP.set(line);
}

/// From now on a write beyond the limit on file sizes (`ulimit -f`) fails like any other, in this process and those that it
/// starts, instead of ending the process before it can clean up.
pub fn ignore_file_size_signal() {
    sys::ignore(libc::SIGXFSZ);
}

/// Whether this process was started with the signal ignored (/proc/self/status, proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    Root::real()
        .read("proc/self/status")
        .as_deref()
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("SigIgn:")))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}
