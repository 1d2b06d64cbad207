//! Everything that can go wrong with tracefs and with recordings, as one enum whose variants name
//! the operation and the path. Must not know what a recording is for.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be recorded, stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A description of the recording's layout (`format`, `header_page`, `header_event`) that
    /// cannot be understood.
    #[error("{file}: {what}; is it a copy of the recording kernel's file of that name?")]
    Format {
        /// The file, as below `events` in the tracing file system.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// Pages of a machine whose words begin with their highest byte.
    #[error("pages of CPU {cpu}: recorded on a big-endian machine, which this program does not read")]
    BigEndian {
        /// Whose pages.
        cpu: u32,
    },
    /// One CPU's pages were given in two pieces.
    #[error("pages of CPU {cpu}: given twice; join the pieces in the order in which they were recorded")]
    CpuTwice {
        /// Which CPU.
        cpu: u32,
    },
    /// More events without a decoded form than one trace can hold (4 GiB of their bytes).
    #[error(
        "more than 4 GiB of events other than scheduler, interrupt and system call ones; record for a shorter time"
    )]
    TooLarge,
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// The verb: "read", "write", "create".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
    /// There is no tracefs that this process may use.
    #[error("the kernel's trace cannot be used: {reason}")]
    NotAvailable {
        /// Why, and what to do.
        reason: String,
    },
    /// An event without which nothing can be explained is missing.
    #[error("this kernel has no event {event}: it needs CONFIG_TRACING with the scheduler's events")]
    MissingEvent {
        /// `system/event`.
        event: String,
    },
    /// A stored recording that cannot be read.
    #[error("{}: {reason}", path.display())]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how to mend it.
        reason: String,
    },
    /// This program has started the global trace before.
    #[error("a trace was already started in {}", root.display())]
    AlreadyStarted {
        /// The root of the tracing file system.
        root: PathBuf,
    },
    /// Another process of this program is starting or stopping the global trace.
    #[error("another process is starting or stopping the trace")]
    Busy,
    /// Somebody else's tracer is on.
    #[error("another program uses the global trace: {}/current_tracer is {tracer}; to end that, write nop to \
             it", root.display())]
    TracerInUse {
        /// The root of the tracing file system.
        root: PathBuf,
        /// The tracer.
        tracer: String,
    },
    /// Somebody else's events are on.
    #[error(
        "another program uses the global trace: {events} events are on in {}, {first} among them; to switch \
         them off, `echo > {}/set_event`",
        root.display(),
        root.display()
    )]
    EventsInUse {
        /// The root of the tracing file system.
        root: PathBuf,
        /// How many are on.
        events: usize,
        /// One of them.
        first: String,
    },
    /// Somebody else's events are still in the buffers.
    #[error(
        "the global trace holds {events} events of another program; to discard them, `echo > {}/trace`",
        root.display()
    )]
    HoldsEvents {
        /// The root of the tracing file system.
        root: PathBuf,
        /// How many.
        events: u64,
    },
    /// There is no private directory for the note of how far a command has come.
    #[error("{cause}")]
    NoPlace {
        /// What is wrong with each. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: impl Into<io::Error>) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause: cause.into() }
    }
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
