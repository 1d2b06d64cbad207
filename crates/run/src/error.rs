//! What can be wrong with a plan, or with a run's files: one enum whose variants name the operation
//! and the path.

use std::io;
use std::path::{Path, PathBuf};

use crate::label_fault::LabelFault;
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
    /// Runs that cannot be merged.
    #[error("{0}: show them one by one")]
    NotMerged(MergeFault),
    /// A run whose figures JSON cannot hold.
    #[error("the run cannot be written as JSON: {reason}")]
    NotJson {
        /// What the writer of JSON said.
        reason: String,
    },
    /// A label that cannot be stored.
    #[error(transparent)]
    Label(#[from] LabelFault),
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

/// Why runs cannot be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeFault {
    /// Results of this kind never can.
    #[error("{what} cannot be merged")]
    Never {
        /// "recordings of writes".
        what: &'static str,
    },
    /// They differ in what must be the same.
    #[error("runs of different {what} cannot be merged")]
    Different {
        /// "plans".
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause }
    }
}

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
