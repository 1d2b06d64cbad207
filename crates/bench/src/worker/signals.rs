//! Signals that ask a run to end, made into a descriptor that poll(2) can wait for. Registered once for the process
//! and never read empty, so a signal between two runs is not lost. Must not end anything itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Result};
use crate::root::Root;

/// Watches SIGINT, SIGTERM and SIGHUP. The first one ends the run in order; a second one ends the process at once.
#[derive(Debug)]
pub struct Interrupts {
    pipe: UnixStream,
}

static CAUGHT: AtomicUsize = AtomicUsize::new(0);
static AGAIN: AtomicBool = AtomicBool::new(false);

impl Interrupts {
    /// The process's one watch; the first call sets the handlers.
    ///
    /// # Errors
    /// [`Error::System`] when the handlers cannot be set.
    pub fn watch() -> Result<&'static Interrupts> {
        static WATCH: OnceLock<std::result::Result<Interrupts, (io::ErrorKind, String)>> = OnceLock::new();
        let watch = WATCH.get_or_init(|| register().map_err(|error| (error.kind(), error.to_string())));
        watch
            .as_ref()
            .map_err(|(kind, text)| Error::system("watch for signals", io::Error::new(*kind, text.clone())))
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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Under nohup(1) a run goes on when its terminal closes.
        if signal == SIGHUP && is_ignored(signal) {
            continue;
        }
        // The order matters: the second signal must find the flag set by the first.
        signal_hook::flag::register_conditional_default(signal, &AGAIN)?;
        signal_hook::flag::register(signal, &AGAIN)?;
        signal_hook::flag::register_usize(signal, &CAUGHT, signal as usize)?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(Interrupts { pipe })
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
