//! Errors in a plan or in the files of a run: one enum, whose variants name the operation and the
//! path.

use std::io;
use std::path::{Path, PathBuf};

use crate::label_fault::LabelFault;
use crate::plan_fault::{PlanFault, TextFault, Unknown};

/// Why a plan is rejected, or a run cannot be read, written or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan that cannot be carried out on any machine.
    #[error(transparent)]
    Plan(#[from] PlanFault),
    /// An unknown word.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// An invalid background load.
    #[error("load '{text}': {fault}")]
    Load {
        /// The given text.
        text: String,
        /// What is wrong with it.
        fault: TextFault,
    },
    /// An invalid disturbance.
    #[error("disturbance '{text}': {fault}")]
    Disturbance {
        /// The given text.
        text: String,
        /// What is wrong with it.
        fault: TextFault,
    },
    /// Runs that cannot be merged.
    #[error("{0}: show them one by one")]
    NotMerged(MergeFault),
    /// A run with figures that JSON cannot represent.
    #[error("the run cannot be written as JSON: {reason}")]
    NotJson {
        /// The JSON writer's error.
        reason: String,
    },
    /// An invalid label.
    #[error(transparent)]
    Label(#[from] LabelFault),
    /// A file operation failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// The operation as a verb: "read", "create".
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error. Not the error's `source`, because the message already contains it.
        cause: io::Error,
    },
    /// A recorded run that this version cannot read.
    #[error("{}: {reason}", path.display())]
    NotARun {
        /// The file that was read.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        reason: String,
    },
}

/// Why runs cannot be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeFault {
    /// Results of this kind cannot be merged.
    #[error("{what} cannot be merged")]
    Never {
        /// The kind of results: "recordings of writes".
        what: &'static str,
    },
    /// The runs differ in something that must be equal.
    #[error("runs of different {what} cannot be merged")]
    Different {
        /// What differs: "plans".
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self::File { operation, path: path.as_ref().to_owned(), cause }
    }
}

/// The result of every fallible function in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
