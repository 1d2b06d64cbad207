//! Linux scheduling policies as values, with their numbers and names. Makes no system calls.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// `SCHED_RESET_ON_FORK`, which `sched_getscheduler(2)` reports as a bit of the policy.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// A scheduling policy, numbered as in the kernel's `include/uapi/linux/sched.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Policy {
    /// `SCHED_OTHER` (the kernel's `SCHED_NORMAL`), number 0: the fair class.
    #[default]
    Other,
    /// `SCHED_FIFO`, number 1: real time; a thread runs until it blocks.
    Fifo,
    /// `SCHED_RR`, number 2: real time with time slices.
    RoundRobin,
    /// `SCHED_BATCH`, number 3: the fair class, for non-interactive work.
    Batch,
    /// `SCHED_IDLE`, number 5: the fair class at its lowest weight.
    Idle,
    /// `SCHED_DEADLINE`, number 6.
    Deadline,
    /// An unknown policy, by its number.
    Unknown(u32),
}

/// Classes of policies. The kernel treats the policies of one class alike when it selects the next
/// task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyClass {
    /// `SCHED_OTHER`, `SCHED_BATCH` and `SCHED_IDLE`.
    Fair,
    /// `SCHED_FIFO` and `SCHED_RR`.
    RealTime,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// A policy of unknown class, by its number.
    Unknown(u32),
}

impl Policy {
    /// The policy with the kernel's number. Ignores the `SCHED_RESET_ON_FORK` bit.
    #[must_use]
    pub const fn from_kernel(number: u32) -> Self {
        match number & !RESET_ON_FORK {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            other => Self::Unknown(other),
        }
    }

    /// The kernel's number, as in `sched_setattr(2)`.
    #[must_use]
    pub const fn to_kernel(self) -> u32 {
        match self {
            Self::Other => 0,
            Self::Fifo => 1,
            Self::RoundRobin => 2,
            Self::Batch => 3,
            Self::Idle => 5,
            Self::Deadline => 6,
            Self::Unknown(number) => number,
        }
    }

    /// The name in `sched(7)`; `SCHED_UNKNOWN` for an unknown policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "SCHED_OTHER",
            Self::Fifo => "SCHED_FIFO",
            Self::RoundRobin => "SCHED_RR",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Unknown(_) => "SCHED_UNKNOWN",
        }
    }

    /// The policy's class.
    #[must_use]
    pub const fn class(self) -> PolicyClass {
        match self {
            Self::Other | Self::Batch | Self::Idle => PolicyClass::Fair,
            Self::Fifo | Self::RoundRobin => PolicyClass::RealTime,
            Self::Deadline => PolicyClass::Deadline,
            Self::Unknown(number) => PolicyClass::Unknown(number),
        }
    }

    /// Whether the policy has a real-time priority (1–99).
    #[must_use]
    pub const fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "SCHED_UNKNOWN({number})"),
            known => f.pad(known.name()),
        }
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const KNOWN: [Policy; 6] =
            [Policy::Other, Policy::Fifo, Policy::RoundRobin, Policy::Batch, Policy::Idle, Policy::Deadline];
        if let Some(policy) = KNOWN.into_iter().find(|policy| policy.name() == text) {
            return Ok(policy);
        }
        text.strip_prefix("SCHED_UNKNOWN(")
            .and_then(|rest| rest.strip_suffix(')'))
            .and_then(|number| number.parse().ok())
            .map(Self::from_kernel)
            .ok_or_else(|| Error::PolicyName(text.to_owned()))
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

impl TryFrom<String> for Policy {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_round_trips_through_its_number_and_name() {
        for number in 0..20 {
            let policy = Policy::from_kernel(number);
            assert_eq!(policy.to_kernel(), number);
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn reset_on_fork_is_not_part_of_the_policy() {
        assert_eq!(Policy::from_kernel(RESET_ON_FORK | 1), Policy::Fifo);
    }

    #[test]
    fn only_fifo_and_round_robin_are_realtime() {
        let realtime: Vec<u32> = (0..20).filter(|&n| Policy::from_kernel(n).is_realtime()).collect();
        assert_eq!(realtime, [1, 2]);
    }

    #[test]
    fn the_error_for_an_unknown_name_contains_it() {
        assert_eq!("FIFO".parse::<Policy>(), Err(Error::PolicyName("FIFO".into())));
        assert!(serde_json::from_str::<Policy>("\"SCHED_NOPE\"").is_err());
    }
}
