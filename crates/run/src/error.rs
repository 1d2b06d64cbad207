//! What can be wrong with a plan, or with a run's files: one enum whose variants name the operation and the path.

use std::io;
use std::path::{Path, PathBuf};

use crate::plan_fault::{PlanFault, TextFault, Unknown};

/// Why a plan is refused, or a run cannot be read, written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan that cannot be carried out on any machine.
    #[error(transparent)]
    Plan(#[from] PlanFault),
    /// A word that means nothing.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// A background load that means nothing.
    #[error("load '{text}': {fault}")]
    Load {
        /// What was given.
        text: String,
        /// What is wrong with it.
        fault: TextFault,
    },
    /// A disturbance that means nothing.
    #[error("disturbance '{text}': {fault}")]
    Disturbance {
        /// What was given.
        text: String,
        /// What is wrong with it.
        fault: TextFault,
    },
    /// A run that cannot be merged with another, or be written as JSON.
    #[error("{0}")]
    Unusable(String),
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// The verb: "read", "create".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said. Not the error's `source`, for the message already has it.
        cause: io::Error,
    },
    /// A recorded run that this version cannot read.
    #[error("{}: {reason}", path.display())]
    NotARun {
        /// The file that was read.
        path: PathBuf,
        /// What is wrong, and how to mend it.
        reason: String,
    },
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause }
    }
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
