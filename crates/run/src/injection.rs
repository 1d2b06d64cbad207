//! Disturbances in a plan, which make some round trips slow on purpose. Must not know how they are
//! produced.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cpus::list_within;
use crate::error::{Error, Result};
use crate::plan_fault::{TextFault, Unknown};
use crate::scheduling::Scheduling;

/// What causes the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The server's handler computes longer.
    Work,
    /// The handler sleeps.
    Sleep,
    /// The handler writes a file and syncs it.
    Fsync,
    /// The handler waits for a lock that another process holds.
    Lock,
    /// The handler waits for a lock whose holder was preempted by a hog.
    LockPreempted,
    /// Another process uses a CPU.
    Hog,
    /// A signal stops the server.
    Stop,
    /// Another process sends packets to this machine.
    Flood,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Work,
        Self::Sleep,
        Self::Fsync,
        Self::Lock,
        Self::LockPreempted,
        Self::Hog,
        Self::Stop,
        Self::Flood,
    ];

    /// The name in arguments and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Sleep => "sleep",
            Self::Fsync => "fsync",
            Self::Lock => "lock",
            Self::LockPreempted => "lock-preempted",
            Self::Hog => "hog",
            Self::Stop => "stop",
            Self::Flood => "flood",
        }
    }

    /// Whether the handler waits for a lock.
    #[must_use]
    pub fn takes_lock(self) -> bool {
        matches!(self, Self::Lock | Self::LockPreempted)
    }
}

/// A disturbance that is repeated during the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Injection {
    /// The cause.
    pub cause: Cause,
    /// The time from the start of one disturbance to the start of the next, in nanoseconds.
    pub every_ns: u64,
    /// The duration of each disturbance, in nanoseconds. Ignored for `Fsync`.
    pub for_ns: u64,
    /// How a hog is scheduled.
    pub scheduling: Scheduling,
    /// The CPUs for hogs and lock holders; `None` for the CPUs of the servers.
    pub cpus: Option<Vec<u32>>,
    /// The file that logs the disturbances as `cause,tid,begin_ns,end_ns`. Not stored.
    #[serde(skip)]
    pub log: Option<PathBuf>,
}

impl Injection {
    /// Whether the disturbance starts processes, to which its scheduling applies.
    #[must_use]
    pub fn starts_hogs(&self) -> bool {
        matches!(self.cause, Cause::Hog | Cause::LockPreempted)
    }
}

impl FromStr for Injection {
    type Err = Error;

    /// Parses `CAUSE[,every=TIME][,for=TIME][,policy=fifo:N|…][,cpus=LIST]`. In a CPU list, plus
    /// signs replace commas.
    fn from_str(text: &str) -> Result<Self> {
        Self::read(text).map_err(|fault| Error::Disturbance { text: text.to_owned(), fault })
    }
}

impl Injection {
    fn read(text: &str) -> Result<Self, TextFault> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        let cause = Cause::ALL.into_iter().find(|cause| cause.name() == name);
        let cause = cause.ok_or_else(|| Unknown::new("cause", name, Cause::ALL.map(Cause::name)))?;
        let mut injection = Self {
            cause,
            every_ns: 100_000_000,
            for_ns: 5_000_000,
            scheduling: Scheduling::fifo(50),
            cpus: None,
            log: None,
        };
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| TextFault::NotKeyValue { part: part.to_owned() })?;
            match key {
                "every" => injection.every_ns = time_ns(value)?,
                "for" => injection.for_ns = time_ns(value)?,
                "policy" => injection.scheduling = Scheduling::read(value)?,
                "cpus" => {
                    let wrong = || TextFault::NotCpus { value: value.to_owned() };
                    injection.cpus = Some(list_within(value).ok_or_else(wrong)?);
                }
                _ => return Err(Unknown::new("key", key, ["every", "for", "policy", "cpus"]).into()),
            }
        }
        if injection.for_ns * 2 > injection.every_ns {
            return Err(TextFault::LeavesTooLittle);
        }
        Ok(injection)
    }
}

/// Parses a time from 1 us to 1 h, such as `5ms`.
fn time_ns(text: &str) -> Result<u64, TextFault> {
    let wrong = || TextFault::NotATime { value: text.to_owned() };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).filter(|ns| (1_000..=3_600_000_000_000).contains(ns)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_is_read_from_its_text() {
        let injection: Injection = "hog,every=50ms,for=2ms,policy=nice:-20,cpus=0+2".parse().unwrap();
        assert_eq!((injection.every_ns, injection.for_ns), (50_000_000, 2_000_000));
        assert_eq!((injection.scheduling, injection.cpus), (Scheduling::other(-20), Some(vec![0, 2])));
        assert_eq!("sleep".parse::<Injection>().unwrap().cause, Cause::Sleep);
    }

    #[test]
    fn the_error_for_an_invalid_disturbance_says_what_is_valid() {
        for (text, hint) in [
            ("rain", "choose from work, sleep"),
            ("hog,5ms", "KEY=VALUE"),
            ("hog,for=5", "such as 5ms"),
            ("hog,for=99999999999999999s", "such as 5ms"),
            ("hog,for=80ms", "at most half of every"),
            ("hog,cpus=", "CPU list"),
            ("hog,policy=fifo:0", "fifo:1..99"),
            ("hog,size=1", "unknown key 'size'"),
        ] {
            let error = text.parse::<Injection>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
