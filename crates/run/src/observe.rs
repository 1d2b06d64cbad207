//! Which programs are observed: plain data, for all tests that observe other programs.

use serde::{Deserialize, Serialize};

/// Which programs to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// All processes.
    Everyone,
    /// The process with this id.
    Process(u32),
    /// The processes with this name.
    Name(String),
    /// A program that Roundtrip starts, and the processes that the program starts, until the
    /// program exits.
    Command(Vec<String>),
}

impl Subject {
    /// The subject without a process id, which differs in each run.
    pub(crate) fn anybody(&self) -> Self {
        match self {
            Self::Process(_) => Self::Process(0),
            other => other.clone(),
        }
    }
}

/// Whether a field is left out of JSON.
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A process, as it was when it was first observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its name; empty if it exited before its name was read.
    pub name: String,
}
