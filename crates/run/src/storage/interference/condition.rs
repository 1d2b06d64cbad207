//! The conditions under which a writer is compared: background load, limits, and other settings of
//! the machine or ways to write. Names only. Must not know how they are produced.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::plan_fault::Unknown;

/// A condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// No change: the control, which shows how much two equal halves differ.
    Alone,
    /// A CPU hog on each CPU that the writer may use.
    HogSame,
    /// A CPU hog on a CPU that the writer may not use.
    HogOther,
    /// A CPU hog on every CPU.
    HogAll,
    /// Timers that expire at a high rate, on the CPU that handles the device's interrupt.
    Timers,
    /// Packets to this machine, on the CPU that handles the device's interrupt.
    Network,
    /// A process that creates, renames and removes small files in the same file system.
    Files,
    /// A process that makes and syncs small writes in the same file system.
    Fsync,
    /// A process that allocates and frees memory.
    Memory,
    /// A limit on the bytes per second that the writer's control group may write.
    IoLimit,
    /// Completions are handled on any CPU.
    RqAffinity0,
    /// Completions are handled near the submitting CPU.
    RqAffinity1,
    /// Completions are handled on the submitting CPU.
    RqAffinity2,
    /// The frequency governor `performance` on all CPUs.
    Performance,
    /// The governor `powersave`.
    Powersave,
    /// The governor `schedutil`.
    Schedutil,
    /// The governor `ondemand`.
    Ondemand,
    /// Polling for the completion (io_uring, `O_DIRECT`), compared with the same writes without
    /// polling.
    Polled,
}

impl Condition {
    /// All conditions, in the order of the table.
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

    /// The name in options, tables and files.
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

    /// Whether the condition is a process that only computes and does no I/O, as in the study.
    #[must_use]
    pub fn is_hog(self) -> bool {
        matches!(self, Self::HogSame | Self::HogOther | Self::HogAll)
    }

    /// The units of work that the load counts, in the plural; `None` if it counts nothing.
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

    /// The value that the condition sets for the queue's `rq_affinity`
    /// (Documentation/ABI/stable/sysfs-block).
    #[must_use]
    pub fn rq_affinity(self) -> Option<u32> {
        match self {
            Self::RqAffinity0 => Some(0),
            Self::RqAffinity1 => Some(1),
            Self::RqAffinity2 => Some(2),
            _ => None,
        }
    }

    /// Whether the condition is a frequency governor. Its name is then the governor's name.
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
