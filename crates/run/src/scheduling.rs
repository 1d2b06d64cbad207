//! How threads are scheduled, in plans and results. Must not know how a policy is read or set.

use std::fmt;
use std::str::FromStr;

use roundtrip_latency::Policy;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan_fault::Unknown;

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// The scheduling policy.
    pub policy: Policy,
    /// Real-time priority: 1 to 99 for SCHED_FIFO and SCHED_RR, 0 for all others.
    pub priority: u8,
    /// Nice value, -20 to 19; meaningless for real-time threads.
    pub nice: i8,
}

impl Scheduling {
    /// SCHED_OTHER with the given nice value (-20 to 19).
    #[must_use]
    pub fn other(nice: i8) -> Self {
        Self { policy: Policy::Other, priority: 0, nice }
    }

    /// SCHED_FIFO with the given priority (1 to 99).
    #[must_use]
    pub fn fifo(priority: u8) -> Self {
        Self { policy: Policy::Fifo, priority, nice: 0 }
    }
}

impl fmt::Display for Scheduling {
    /// Formats the scheduling as [`FromStr`] parses it: "fifo:99", "rr:5", "nice:10", "other".
    /// Other policies are shown by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { policy: Policy::Fifo, priority, .. } => f.pad(&format!("fifo:{priority}")),
            Self { policy: Policy::RoundRobin, priority, .. } => f.pad(&format!("rr:{priority}")),
            Self { policy: Policy::Other, nice: 0, .. } => f.pad("other"),
            Self { policy: Policy::Other, nice, .. } => f.pad(&format!("nice:{nice}")),
            Self { policy, .. } => f.pad(policy.name()),
        }
    }
}

impl FromStr for Scheduling {
    type Err = Error;

    /// Parses "other", "nice:-20", "fifo:50", "rr:1".
    fn from_str(text: &str) -> Result<Self> {
        Ok(Self::read(text)?)
    }
}

impl Scheduling {
    /// Parses like [`FromStr`].
    pub(crate) fn read(text: &str) -> Result<Self, Unknown> {
        let wrong = || Unknown::new("policy", text, ["other", "nice:-20..19", "fifo:1..99", "rr:1..99"]);
        let number = |text: &str, range: std::ops::RangeInclusive<i8>| {
            text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
        };
        match text.split_once(':') {
            None if text == "other" => Ok(Self::other(0)),
            Some(("nice", nice)) => Ok(Self::other(number(nice, -20..=19)?)),
            Some(("fifo", priority)) => Ok(Self::fifo(number(priority, 1..=99)?.unsigned_abs())),
            Some(("rr", priority)) => {
                let priority = number(priority, 1..=99)?.unsigned_abs();
                Ok(Self { policy: Policy::RoundRobin, priority, nice: 0 })
            }
            _ => Err(wrong()),
        }
    }
}

/// Whether SCHED_FIFO is permitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "realtime", rename_all = "snake_case")]
pub enum RealtimePermission {
    /// SCHED_FIFO is permitted up to and including this priority (1 to 99).
    Allowed {
        /// The highest SCHED_FIFO priority that was accepted.
        max_priority: u8,
    },
    /// SCHED_FIFO is not permitted.
    Refused {
        /// Why it is not permitted, and how to fix that.
        reason: String,
    },
}

impl Default for RealtimePermission {
    /// The state before anything was tried.
    fn default() -> Self {
        Self::Refused { reason: "not tried".into() }
    }
}

impl RealtimePermission {
    /// The highest permitted SCHED_FIFO priority; `None` if there is none.
    #[must_use]
    pub fn max_priority(&self) -> Option<u8> {
        match self {
            Self::Allowed { max_priority } => Some(*max_priority),
            Self::Refused { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduling_is_written_as_it_is_read() {
        for text in ["other", "nice:-20", "nice:19", "fifo:1", "fifo:99", "rr:5"] {
            assert_eq!(text.parse::<Scheduling>().unwrap().to_string(), text);
        }
        for text in ["", "fifo", "fifo:0", "rr:100", "nice:20", "nice:x", "other:1", "idle"] {
            assert!(text.parse::<Scheduling>().unwrap_err().to_string().contains("choose from"), "{text}");
        }
    }
}
