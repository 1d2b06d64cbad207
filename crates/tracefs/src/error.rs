//! Everything that can go wrong with tracefs and with recordings, as one enum whose variants name
//! the operation and the path. Must not know what a recording is for.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be recorded, stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A description of the recording's layout (`format`, `header_page`, `header_event`) that is
    /// not valid.
    #[error("{file}: {what}; is it a copy of the recording kernel's file of that name?")]
    Format {
        /// The file, relative to `events` in tracefs.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// Pages of a big-endian machine.
    #[error("pages of CPU {cpu}: recorded on a big-endian machine, which this program does not read")]
    BigEndian {
        /// The CPU.
        cpu: u32,
    },
    /// The pages of one CPU were given twice.
    #[error("pages of CPU {cpu}: given twice; join the pieces in the order in which they were recorded")]
    CpuTwice {
        /// The CPU.
        cpu: u32,
    },
    /// More undecoded events than one trace can hold (4 GiB).
    #[error(
        "more than 4 GiB of events other than scheduler, interrupt and system call ones; record for a shorter time"
    )]
    TooLarge,
    /// More events, names or bytes than the caller's budget.
    #[error("{0}: record for a shorter time, or fewer kinds of events")]
    TooMany(roundtrip_files::Exceeded),
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// The verb: "read", "write", "create".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// This process cannot use any tracefs.
    #[error("the kernel's trace cannot be used: {reason}")]
    NotAvailable {
        /// Why, and what to do.
        reason: String,
    },
    /// The kernel lacks an event that every explanation needs.
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
        /// What is wrong, and how to fix it.
        reason: String,
    },
    /// This program has already started the global trace.
    #[error("a trace was already started in {}", root.display())]
    AlreadyStarted {
        /// The root of tracefs.
        root: PathBuf,
    },
    /// Another process of this program is starting or stopping the global trace.
    #[error("another process is starting or stopping the trace")]
    Busy,
    /// Another program has set a tracer.
    #[error("another program uses the global trace: {}/current_tracer is {tracer}; to end that, write nop to \
             it", root.display())]
    TracerInUse {
        /// The root of tracefs.
        root: PathBuf,
        /// The tracer.
        tracer: String,
    },
    /// Another program has enabled events.
    #[error(
        "another program uses the global trace: {events} events are on in {}, {first} among them; to switch \
         them off, `echo > {}/set_event`",
        root.display(),
        root.display()
    )]
    EventsInUse {
        /// The root of tracefs.
        root: PathBuf,
        /// How many are enabled.
        events: usize,
        /// One of them.
        first: String,
    },
    /// Events of another program are still in the buffers.
    #[error(
        "the global trace holds {events} events of another program; to discard them, `echo > {}/trace`",
        root.display()
    )]
    HoldsEvents {
        /// The root of tracefs.
        root: PathBuf,
        /// How many.
        events: u64,
    },
    /// There is no private directory for the state file.
    #[error("{cause}")]
    NoPlace {
        /// What is wrong with each candidate. Not the error's `source`, because the message already
        /// contains it.
        cause: io::Error,
    },
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: impl Into<io::Error>) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause: cause.into() }
    }
}

/// The result of every fallible function in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
