//! Whom an observer looks at: plain data, shared by all that observe other people's programs.

use serde::{Deserialize, Serialize};

/// Whom to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Everybody's.
    Everyone,
    /// This process's.
    Process(u32),
    /// Those of processes of this name.
    Name(String),
    /// Those of a program that is started for it, and of what it starts, until it ends.
    Command(Vec<String>),
}

/// A process as it was when it was first seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name; empty where it had ended before anybody looked.
    pub name: String,
}
