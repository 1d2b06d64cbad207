//! What binder and hwbinder are found to be, side by side: plain data, stored in run directories.
//! Must not know how it was found out.

use latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Stack};
use crate::plan_fault::{Counted, PlanFault};
use crate::scheduling::Scheduling;

/// The most calls that are timed.
const MAX_CALLS: u64 = 10_000_000;

/// What to find out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraitsPlan {
    /// The driver.
    pub driver: DriverPlan,
    /// How many of the smallest calls are timed on each stack, 1 to 10 million.
    pub calls: u64,
}

impl Default for TraitsPlan {
    fn default() -> Self {
        Self { driver: DriverPlan::default(), calls: 5000 }
    }
}

impl TraitsPlan {
    /// Refuses what takes no measurement or no end.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] says what, and what there is instead.
    pub fn check(&self) -> Result<()> {
        if (1..=MAX_CALLS).contains(&self.calls) {
            return Ok(());
        }
        Err(PlanFault::OutOfRange { what: Counted::Calls, number: self.calls, most: MAX_CALLS }.into())
    }
}

/// The table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraitsResult {
    /// What was asked for.
    pub plan: TraitsPlan,
    /// The driver below both stacks.
    pub backend: Backend,
    /// One for each aspect, in the order of [`Aspect::ALL`].
    pub rows: Vec<Row>,
}

/// One aspect of both stacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    pub aspect: Aspect,
    /// What binder does.
    pub binder: Finding,
    /// What hwbinder does.
    pub hwbinder: Finding,
}

impl Row {
    /// What one of the stacks does.
    #[must_use]
    pub fn of(&self, stack: Stack) -> &Finding {
        match stack {
            Stack::Binder => &self.binder,
            Stack::Hwbinder => &self.hwbinder,
        }
    }
}

/// An aspect in which the stacks may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// What it is for.
    Purpose,
    /// What it was made for.
    Property,
    /// How the driver is told of a call's arguments.
    ArgumentPassing,
    /// How often a payload is copied on its way to the server.
    RequestCopies,
    /// How often a payload is copied on its way back.
    ReplyCopies,
    /// Whether a real-time caller lends its policy and priority.
    RealtimeInheritance,
    /// Whether a node's least policy and priority hold for an ordinary caller.
    LeastPolicy,
    /// Whether a caller lends a nice value of 10.
    NiceRaised,
    /// Whether a caller lends a nice value of −10.
    NiceLowered,
    /// Whether a background caller (nice 10) is served as background.
    BackgroundPolicy,
    /// What the smallest call takes.
    RoundTrip,
}

impl Aspect {
    /// Every aspect, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Purpose,
        Self::Property,
        Self::ArgumentPassing,
        Self::RequestCopies,
        Self::ReplyCopies,
        Self::RealtimeInheritance,
        Self::LeastPolicy,
        Self::NiceRaised,
        Self::NiceLowered,
        Self::BackgroundPolicy,
        Self::RoundTrip,
    ];
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// Nothing that can be measured: Android's words.
    Words {
        /// The words.
        text: String,
    },
    /// What the driver was told of a call with a payload, read from the command that was sent.
    Arguments {
        /// Whether it was a scatter-gather command (`BC_TRANSACTION_SG`).
        scatter_gather: bool,
        /// Buffers that the driver takes from where they lie (`BINDER_TYPE_PTR`).
        buffers: u64,
        /// Whether the payload is one of them, at the caller's own address.
        payload_in_place: bool,
    },
    /// Copies of each payload byte in one direction.
    Copies {
        /// The payload of the calls that were counted, in bytes.
        payload_bytes: u64,
        /// By the stack, in user space: counted where it copies.
        stack: f64,
        /// By the driver, from the sender into the receiver's area: what the command told it to
        /// copy.
        driver: f64,
    },
    /// How a call was served for a caller that is scheduled in some way.
    Served {
        /// Whether the aspect held in every call.
        holds: bool,
        /// How many calls were made, and in how many of them it held.
        calls: u32,
        /// See `calls`.
        held: u32,
        /// The caller.
        caller: Scheduling,
        /// The least policy and priority of the node, if they were set.
        least: Option<Scheduling>,
        /// The serving thread before the calls.
        at_rest: Scheduling,
        /// The serving thread during the last call.
        serving: Scheduling,
        /// The serving thread after the calls.
        afterwards: Scheduling,
    },
    /// What each call took.
    RoundTrip {
        /// All timed calls.
        latency: Histogram,
    },
    /// The serving thread was lent its caller's priority through a priority-inheriting futex, as
    /// the driver counts: it ran at that, and its policy does not show it.
    LentUnseen {
        /// In so many calls, which are all that were made.
        calls: u32,
        /// The caller.
        caller: Scheduling,
        /// The serving thread's policy and priority during the last call, as the kernel tells them.
        shown: Scheduling,
    },
    /// It could not be tried.
    NotTried {
        /// Who forbids it, and how to mend it.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_without_calls_or_without_end_is_refused() {
        let check = |calls| TraitsPlan { calls, ..TraitsPlan::default() }.check();
        assert!(check(1).is_ok() && check(0).is_err());
        assert!(check(u64::MAX).unwrap_err().to_string().contains("10000000"));
    }
}
