//! The program that runs in a guest, and how it ended. Boots nothing.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::wire;

/// A program with its arguments, environment and files.
#[derive(Debug, Clone)]
pub struct Job {
    /// Programs with their arguments that run before it, in the same guest, one after the other. If
    /// one does not exit with 0, it is the last.
    pub earlier: Vec<(PathBuf, Vec<String>)>,
    /// A static program for the guest's architecture.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The environment of all programs, besides PATH, HOME and TMPDIR.
    pub environment: Vec<(String, String)>,
    /// Files that they find in their working directory, under their own names.
    pub files: Vec<PathBuf>,
    /// Where files that they leave in `/out` go; `None`: nowhere.
    pub out: Option<PathBuf>,
    /// How long all of them may take, by the host's clock: a guest's may be wrong.
    pub limit: Duration,
}

/// Splits a job's output into one text for each program, in order.
#[must_use]
pub fn outputs(written: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(written).split(wire::NEXT).map(str::to_owned).collect()
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exit(u8),
    /// This signal killed it.
    Signal(u8),
    /// It took longer than it was given.
    Limit,
    /// It could not be started.
    NotStarted(String),
}

impl End {
    /// Its exit status, as shells report it.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Exit(status) => *status,
            Self::Signal(signal) => signal.saturating_add(128),
            Self::Limit => 124,
            Self::NotStarted(_) => 127,
        }
    }

    /// Reads what the guest wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("exit", status)) => Some(Self::Exit(status.parse().ok()?)),
            Some(("signal", signal)) => Some(Self::Signal(signal.parse().ok()?)),
            Some(("error", why)) => Some(Self::NotStarted(why.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "exited with status {status}"),
            Self::Signal(signal) => write!(f, "was killed by signal {signal}"),
            Self::Limit => f.write_str("exceeded its time limit"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_wrote_is_divided_among_its_programs() {
        assert_eq!(outputs(b"a\nb\n"), ["a\nb\n"]);
        let written = ["a\n", "", "c"].join(wire::NEXT);
        assert_eq!(outputs(written.as_bytes()), ["a\n", "", "c"]);
    }

    #[test]
    fn every_reported_end_reads_back_and_anything_else_is_refused() {
        assert_eq!(End::parse("exit 3").map(|end| end.status()), Some(3));
        assert_eq!(End::parse("signal 9").map(|end| end.status()), Some(137));
        assert_eq!(End::parse("error no such file"), Some(End::NotStarted("no such file".into())));
        assert_eq!(End::parse("exit"), None);
        assert_eq!(End::parse("exit 300"), None);
    }
}
