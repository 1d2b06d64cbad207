//! The reason why a run cannot be explained.

use std::path::PathBuf;

/// The reason why a run cannot be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run's own files are not valid.
    #[error(transparent)]
    Run(#[from] roundtrip_run::Error),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] roundtrip_tracefs::Error),
    /// The recording has damaged pages.
    #[error(
        "{}: snapshot {snapshot} is damaged: pages of CPU {cpus} are missing; copy the recording again",
        directory.display()
    )]
    Damaged {
        /// The recording.
        directory: PathBuf,
        /// The snapshot.
        snapshot: u32,
        /// The CPUs with damaged pages, for example "0, 3".
        cpus: String,
    },
    /// A file from another program cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: std::io::Error,
    },
    /// Too many runs on one side of a comparison.
    #[error("a comparison takes up to {0} runs a side: name fewer")]
    TooManyRuns(usize),
    /// More than one snapshot is damaged or unreadable.
    #[error("{first}; {more} more snapshots are damaged or cannot be read")]
    Several {
        /// The first error.
        first: Box<Self>,
        /// The number of other errors.
        more: usize,
    },
}

/// The result of every fallible function in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
