//! Everything that can go wrong in a run, as one enum whose variants name the operation and where
//! it failed. Knows nothing of arguments or of how a message is shown; an exit status is derived
//! here because the meaning of "interrupted" is.

use std::io;
use std::path::{Path, PathBuf};

mod faults;
mod not_here;

pub use faults::{Disturbance, JavaFault, JobFault};
pub use not_here::{FileFault, NotHere};

/// Why a run, or a piece of one, did not come about.
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
        /// What the kernel said. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
    /// A system call on something without a path failed.
    #[error("cannot {operation}: {cause}{}", binder_driver::raise_limit(operation, cause))]
    System {
        /// What was being done, with its object: "pin thread 4711 to CPU 1".
        operation: String,
        /// What the kernel said. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
    /// A worker process ended although its job was not done.
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
    /// A worker said nothing for longer than it was given.
    #[error("{role} (pid {pid}) did not {what} within {waited_ms} ms")]
    WorkerSilent {
        /// What the worker was for.
        role: String,
        /// Its process id.
        pid: u32,
        /// What it should have done: "become ready".
        what: &'static str,
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// Bytes between parent and worker that follow no protocol of ours.
    #[error("garbled frame from {from}: {reason}")]
    GarbledFrame {
        /// Who sent it.
        from: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The parent of a worker is gone; the worker ends.
    #[error("the process that started this worker has exited")]
    Orphaned,
    /// A program that was to be measured did not leave a run.
    #[error("{name} {how}")]
    Subject {
        /// What the command calls it: "a".
        name: &'static str,
        /// What is wrong, with the last line that it wrote to standard error.
        how: String,
    },
    /// A signal asked the run to end.
    #[error("interrupted by {}", crate::worker::signal_name(*signal))]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
    /// A service sent something else back than it was sent.
    #[error("wrong echo of {size_bytes} bytes: {reason}")]
    WrongEcho {
        /// How long the payload was.
        size_bytes: usize,
        /// What came back instead.
        reason: String,
    },
    /// A call missed its deadline, and the kernel's trace was stopped for it, as the plan asked.
    #[error("deadline triggered: halt & stop trace; log:{}", log.display())]
    TraceHalted {
        /// The caller's kind: "fifo:99".
        caller: String,
        /// What the call took, in nanoseconds.
        latency_ns: u64,
        /// What it was allowed, in nanoseconds.
        deadline_ns: u64,
        /// The trace's text.
        log: PathBuf,
    },
    /// The binder driver refused.
    #[error(transparent)]
    Driver(#[from] binder_driver::Error),
    /// An emulated context that could not be created or joined.
    #[error(transparent)]
    Emulator(#[from] binder_emulator::Error),
    /// A call over one of the stacks failed.
    #[error(transparent)]
    Ipc(#[from] binder::Error),
    /// The kernel's trace could not be used.
    #[error(transparent)]
    Trace(#[from] tracefs::Error),
    /// A number of a CPU that no kernel has.
    #[error("there is no CPU {cpu}: CPU numbers end at {last}")]
    NoSuchCpu {
        /// The number.
        cpu: u32,
        /// The largest that is possible.
        last: usize,
    },
    /// Real-time hogs on every CPU, which nothing throttles: nobody could end them any more.
    #[error(
        "{hogs} real-time hogs on {cpus} CPUs would lock up the machine, because sched_rt_runtime_us is -1: \
         set it to 950000, or use fewer hogs"
    )]
    HogsOnEveryCpu {
        /// How many there are to be.
        hogs: u32,
        /// The CPUs that this process may use.
        cpus: usize,
    },
    /// A worker lacks what its parent should have given it, or cannot be given it.
    #[error(transparent)]
    Job(#[from] JobFault),
    /// What happened meanwhile makes the figures useless.
    #[error(transparent)]
    Disturbed(#[from] Disturbance),
    /// The command that is to start Java is empty.
    #[error("the Java command is empty")]
    NoJavaCommand,
    /// The Java application of a storage test cannot be started, or does not do as it should.
    #[error(transparent)]
    Java(#[from] JavaFault),
    /// Somebody removed or replaced the file that was being written to.
    #[error("test file {}: another program removed or replaced it during the test", path.display())]
    TestFileGone {
        /// The file.
        path: PathBuf,
    },
    /// There is no room for the file to write to.
    #[error(
        "test file {}: no space for {bytes} bytes ({cause}); free some space, use a smaller --file-size, or \
         choose another file system with --file",
        path.display()
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// How long it was to be.
        bytes: u64,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A write of the test's own failed.
    #[error(
        "cannot write {bytes} bytes to the test file: {reason}; free some space, use smaller --sizes or fewer \
         calls, or choose another file system with --file"
    )]
    Write {
        /// How many at once.
        bytes: u64,
        /// What the kernel or the Java program said.
        reason: String,
    },
    /// The kernel's trace has no clock that calls are timed by.
    #[error(
        "the kernel's trace has no clock 'boot', only '{clock}', so calls cannot be located in it; this needs \
         Linux 4.10 or later"
    )]
    TraceClock {
        /// The clock that it has.
        clock: String,
    },
    /// The plan stops a trace that does not run; says how to start one.
    #[error("no kernel trace is running: {how_to_start}")]
    NoTrace {
        /// "start one, as root, with …".
        how_to_start: String,
    },
    /// What was asked for by name is not to be had on this machine; says what is. Nothing was
    /// measured.
    #[error(transparent)]
    NotHere(#[from] NotHere),
    /// A plan that no machine can carry out, or a run that cannot be stored.
    #[error(transparent)]
    Run(#[from] run::Error),
}

impl Error {
    /// The exit status for this error: 128 + signal when interrupted (130 for Ctrl-C), 2 for what
    /// cannot be had here, else 1.
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

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
