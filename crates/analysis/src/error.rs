//! Why a run cannot be explained.

use std::path::PathBuf;

/// Why a run cannot be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run's own files are not what they should be.
    #[error(transparent)]
    Run(#[from] run::Error),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] tracefs::Error),
    /// Pages of the recording are damaged.
    #[error(
        "{}: snapshot {snapshot} is damaged: pages of CPU {cpus} are missing; copy the recording again",
        directory.display()
    )]
    Damaged {
        /// The recording.
        directory: PathBuf,
        /// Which snapshot of it.
        snapshot: u32,
        /// Whose pages: "0, 3".
        cpus: String,
    },
    /// A file that another program wrote cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said. Not the error's `source`, for the message already has it.
        cause: std::io::Error,
    },
    /// More runs of one side than can be compared.
    #[error("a comparison takes up to {0} runs a side: name fewer")]
    TooManyRuns(usize),
    /// More than one snapshot is damaged or cannot be read.
    #[error("{first}; {more} more snapshots are damaged or cannot be read")]
    Several {
        /// What is wrong with the first.
        first: Box<Self>,
        /// How many others.
        more: usize,
    },
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
