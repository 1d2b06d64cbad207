//! Everything that can go wrong in a run, as one enum whose variants name the operation and where
//! it failed. Must not know command-line arguments, nor how a message is shown. The exit status is
//! derived here because only this crate knows what "interrupted" means.

use std::io;
use std::path::{Path, PathBuf};

mod faults;
mod not_here;

pub use faults::{Disturbance, JavaFault, JobFault};
pub use not_here::{FileFault, NotHere};

/// Why a run, or part of one, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// The verb: "read", "create", "rename".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// A system call on something without a path failed.
    #[error("cannot {operation}: {cause}{}", roundtrip_binder_driver::raise_limit(operation, cause))]
    System {
        /// The operation, with its object: "pin thread 4711 to CPU 1".
        operation: String,
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// A worker process ended before its job was done.
    #[error("{role} (pid {pid}) {how}")]
    PeerDied {
        /// What the worker was for: "server of pair 2".
        role: String,
        /// Its process id.
        pid: u32,
        /// "was killed by SIGKILL", "exited with status 3".
        how: String,
    },
    /// A worker reported that it could not do its job.
    #[error("{role} (pid {pid}): {message}")]
    WorkerFailed {
        /// What the worker was for.
        role: String,
        /// Its process id.
        pid: u32,
        /// The worker's own error.
        message: String,
    },
    /// A worker did not answer in time.
    #[error("{role} (pid {pid}) did not {what} within {waited_ms} ms")]
    WorkerSilent {
        /// What the worker was for.
        role: String,
        /// Its process id.
        pid: u32,
        /// What it should have done: "become ready".
        what: &'static str,
        /// How long the parent waited, in milliseconds.
        waited_ms: u64,
    },
    /// Bytes between parent and worker violate the frame protocol.
    #[error("invalid frame from {from}: {reason}")]
    GarbledFrame {
        /// Who sent it.
        from: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The worker's parent has exited, so the worker ends.
    #[error("the process that started this worker has exited")]
    Orphaned,
    /// A program under test did not produce a run.
    #[error("{name} {how}")]
    Subject {
        /// Its name on the command line: "a".
        name: &'static str,
        /// What went wrong, with the last line that the program wrote to standard error.
        how: String,
    },
    /// A signal asked the run to end.
    #[error("interrupted by {}", crate::worker::signal_name(*signal))]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
    /// A service did not return the bytes that it was sent.
    #[error("wrong echo of {size_bytes} bytes: {reason}")]
    WrongEcho {
        /// How long the payload was.
        size_bytes: usize,
        /// What was returned instead.
        reason: String,
    },
    /// The binder driver returned an error.
    #[error(transparent)]
    Driver(#[from] roundtrip_binder_driver::Error),
    /// An emulated context could not be created or joined.
    #[error(transparent)]
    Emulator(#[from] roundtrip_binder_emulator::Error),
    /// A call over one of the stacks failed.
    #[error(transparent)]
    Ipc(#[from] roundtrip_binder::Error),
    /// The kernel's trace could not be used.
    #[error(transparent)]
    Trace(#[from] roundtrip_tracefs::Error),
    /// No kernel supports this CPU number.
    #[error("there is no CPU {cpu}: CPU numbers end at {last}")]
    NoSuchCpu {
        /// The number.
        cpu: u32,
        /// The largest possible number.
        last: usize,
    },
    /// The plan has real-time hogs on every CPU, without real-time throttling: nothing could stop
    /// them.
    #[error(
        "{hogs} real-time hogs on {cpus} CPUs would lock up the machine, because sched_rt_runtime_us is -1: \
         set it to 950000, or use fewer hogs"
    )]
    HogsOnEveryCpu {
        /// The requested number of hogs.
        hogs: u32,
        /// The CPUs that this process may use.
        cpus: usize,
    },
    /// A worker did not get what it needs from its parent.
    #[error(transparent)]
    Job(#[from] JobFault),
    /// Something during the measurement made the figures unusable.
    #[error(transparent)]
    Disturbed(#[from] Disturbance),
    /// The command that starts Java is empty.
    #[error("the Java command is empty")]
    NoJavaCommand,
    /// The Java program of a storage test cannot be started, or misbehaves.
    #[error(transparent)]
    Java(#[from] JavaFault),
    /// The file was removed or replaced while it was being written to.
    #[error("test file {}: another program removed or replaced it during the test", path.display())]
    TestFileGone {
        /// The file.
        path: PathBuf,
    },
    /// There is not enough space for the test file.
    #[error(
        "test file {}: no space for {bytes} bytes ({cause}); free some space, use a smaller --file-size, or \
         choose another file system with --file",
        path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The requested length, in bytes.
        bytes: u64,
        /// The kernel's error.
        cause: io::Error,
    },
    /// One of the test's own writes failed.
    #[error("cannot write {bytes} bytes to the test file: {reason}{}", faults::remedy_of_write(reason))]
    Write {
        /// Bytes in one write.
        bytes: u64,
        /// The error of the kernel or of the Java program.
        reason: String,
    },
    /// The kernel's trace uses a different clock from the one that times calls.
    #[error(
        "the kernel's trace has no clock 'boot', only '{clock}', so calls cannot be located in it; this needs \
         Linux 4.10 or later"
    )]
    TraceClock {
        /// The trace's clock.
        clock: String,
    },
    /// The plan requires a running trace to stop, but none is running. Says how to start one.
    #[error("no kernel trace is running: {how_to_start}")]
    NoTrace {
        /// "start one, as root, with …".
        how_to_start: String,
        /// The file that is to contain 1; `None` if this kernel never allows a trace.
        switch: Option<PathBuf>,
    },
    /// Something that was requested by name is not available on this machine. Says what is
    /// available. Nothing was measured.
    #[error(transparent)]
    NotHere(#[from] NotHere),
    /// No machine can carry out the plan, or the run cannot be stored.
    #[error(transparent)]
    Run(#[from] roundtrip_run::Error),
}

impl Error {
    /// The exit status for this error: 128 + signal if interrupted (130 for Ctrl-C), 2 if the
    /// machine lacks what was requested, else 1.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Interrupted { signal } => 128_u8.saturating_add(u8::try_from(*signal).unwrap_or(0)),
            Self::NotHere(_) => 2,
            _ => 1,
        }
    }

    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: impl Into<io::Error>) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause: cause.into() }
    }

    pub(crate) fn system(operation: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Self::System { operation: operation.into(), cause: cause.into() }
    }
}

/// The result of every fallible function in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
