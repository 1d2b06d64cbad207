//! What a writer is compared beside: neighbours that disturb it, limits, and other settings of the
//! machine or ways to write. Names only; must not know how any of them is brought about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan_fault::Unknown;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// Nothing: the control, which shows how far two equal halves lie apart.
    Alone,
    /// A process that only computes, on each CPU that the writer may use.
    HogSame,
    /// One on a CPU that the writer may not use.
    HogOther,
    /// One on every CPU.
    HogAll,
    /// Timers that run out at a high rate, on the CPU of the device's interrupt.
    Timers,
    /// Packets to this machine itself, on the CPU of the device's interrupt.
    Network,
    /// A process that makes, renames and removes small files in the same file system.
    Files,
    /// A process that makes its own small writes durable, in the same file system.
    Fsync,
    /// A process that fills and empties memory.
    Memory,
    /// The writer's control group may write this much a second only.
    IoLimit,
    /// Completions wherever the interrupt comes.
    RqAffinity0,
    /// Completions near the submitter.
    RqAffinity1,
    /// Completions on the submitter's CPU.
    RqAffinity2,
    /// All CPUs by the frequency governor `performance`.
    Performance,
    /// By `powersave`.
    Powersave,
    /// By `schedutil`.
    Schedutil,
    /// By `ondemand`.
    Ondemand,
    /// Polling for the completion (io_uring, `O_DIRECT`), against the same without polling.
    Polled,
}

impl Condition {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 18] = [
        Self::Alone,
        Self::HogSame,
        Self::HogOther,
        Self::HogAll,
        Self::Timers,
        Self::Network,
        Self::Files,
        Self::Fsync,
        Self::Memory,
        Self::IoLimit,
        Self::RqAffinity0,
        Self::RqAffinity1,
        Self::RqAffinity2,
        Self::Performance,
        Self::Powersave,
        Self::Schedutil,
        Self::Ondemand,
        Self::Polled,
    ];

    /// As options, tables and files say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::HogSame => "hog-same",
            Self::HogOther => "hog-other",
            Self::HogAll => "hog-all",
            Self::Timers => "timers",
            Self::Network => "network",
            Self::Files => "files",
            Self::Fsync => "fsync",
            Self::Memory => "memory",
            Self::IoLimit => "io-limit",
            Self::RqAffinity0 => "rq-affinity-0",
            Self::RqAffinity1 => "rq-affinity-1",
            Self::RqAffinity2 => "rq-affinity-2",
            Self::Performance => "performance",
            Self::Powersave => "powersave",
            Self::Schedutil => "schedutil",
            Self::Ondemand => "ondemand",
            Self::Polled => "polled",
        }
    }

    /// Whether it is a process that computes and does no I/O: the study's neighbour.
    #[must_use]
    pub fn is_hog(self) -> bool {
        matches!(self, Self::HogSame | Self::HogOther | Self::HogAll)
    }

    /// What a neighbour counts, in the plural; `None` where nothing is counted.
    #[must_use]
    pub fn counts(self) -> Option<&'static str> {
        Some(match self {
            Self::Timers => "timers",
            Self::Network => "packets",
            Self::Files => "file operations",
            Self::Fsync => "fsyncs",
            Self::Memory => "MiB filled",
            _ => return None,
        })
    }

    /// The value of the queue's `rq_affinity` (Documentation/ABI/stable/sysfs-block).
    #[must_use]
    pub fn rq_affinity(self) -> Option<u32> {
        match self {
            Self::RqAffinity0 => Some(0),
            Self::RqAffinity1 => Some(1),
            Self::RqAffinity2 => Some(2),
            _ => None,
        }
    }

    /// Whether it is a frequency governor, by its own name.
    #[must_use]
    pub fn is_governor(self) -> bool {
        matches!(self, Self::Performance | Self::Powersave | Self::Schedutil | Self::Ondemand)
    }
}

impl FromStr for Condition {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|condition| condition.name() == text)
            .ok_or_else(|| Unknown::new("condition", text, &Self::ALL.map(Self::name)[1..]).into())
    }
}

impl TryFrom<String> for Condition {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.name().to_owned()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_stored() {
        for condition in Condition::ALL {
            assert_eq!(condition.name().parse::<Condition>().unwrap(), condition);
            let stored = serde_json::to_value(condition).unwrap();
            assert_eq!(stored, condition.name());
            assert_eq!(serde_json::from_value::<Condition>(stored).unwrap(), condition);
        }
        let error = "rain".parse::<Condition>().unwrap_err().to_string();
        assert!(error.starts_with("unknown condition 'rain': choose from hog-same, hog-other"), "{error}");
    }
}
