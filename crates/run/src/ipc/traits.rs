//! Properties of binder and hwbinder side by side: plain data, stored in run directories. Must not
//! know how they were tested.

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ipc::{Backend, DriverPlan, Stack};
use crate::plan_fault::{Counted, PlanFault};
use crate::scheduling::Scheduling;

/// The maximum number of timed calls.
const MAX_CALLS: u64 = 10_000_000;

/// What to test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraitsPlan {
    /// The driver.
    pub driver: DriverPlan,
    /// How many calls of the smallest size are timed on each stack, 1 to 10 million.
    pub calls: u64,
}

impl Default for TraitsPlan {
    fn default() -> Self {
        Self { driver: DriverPlan::default(), calls: 5000 }
    }
}

impl TraitsPlan {
    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error says what is possible instead.
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
    /// The plan.
    pub plan: TraitsPlan,
    /// The driver below both stacks.
    pub backend: Backend,
    /// One row for each aspect, in the order of [`Aspect::ALL`].
    pub rows: Vec<Row>,
}

/// One aspect of both stacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The aspect.
    pub aspect: Aspect,
    /// What binder does.
    pub binder: Finding,
    /// What hwbinder does.
    pub hwbinder: Finding,
}

impl Row {
    /// The finding for one of the stacks.
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
    /// What the stack is used for.
    Purpose,
    /// What the stack was designed for.
    Property,
    /// How the driver gets a call's arguments.
    ArgumentPassing,
    /// How often a payload is copied on the way to the server.
    RequestCopies,
    /// How often a payload is copied on the way back.
    ReplyCopies,
    /// Whether the server inherits a real-time caller's policy and priority.
    RealtimeInheritance,
    /// Whether a node's minimum policy and priority apply to calls from an ordinary caller.
    LeastPolicy,
    /// Whether the server inherits a nice value of 10.
    NiceRaised,
    /// Whether the server inherits a nice value of −10.
    NiceLowered,
    /// Whether a background caller (nice 10) is served with the background scheduling policy.
    BackgroundPolicy,
    /// The duration of the smallest call.
    RoundTrip,
}

impl Aspect {
    /// All aspects, in the order of reports.
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

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// Android's description of something that cannot be measured.
    Words {
        /// The description.
        text: String,
    },
    /// How the driver gets a call with a payload, according to the command that was sent.
    Arguments {
        /// Whether it was a scatter-gather command (`BC_TRANSACTION_SG`).
        scatter_gather: bool,
        /// Buffers that the driver copies from their original place (`BINDER_TYPE_PTR`).
        buffers: u64,
        /// Whether the payload is one of them, at the caller's own address.
        payload_in_place: bool,
    },
    /// Copies of each payload byte in one direction.
    Copies {
        /// The payload of each counted call, in bytes.
        payload_bytes: u64,
        /// Copies by the stack in user space, counted at each copy.
        stack: f64,
        /// Copies by the driver, from the sender into the receiver's area. Calculated from the
        /// sizes in the command.
        driver: f64,
    },
    /// How the server was scheduled for a caller with a given scheduling.
    Served {
        /// Whether the aspect held in every call.
        holds: bool,
        /// The number of calls.
        calls: u32,
        /// The number of calls in which the aspect held.
        held: u32,
        /// The caller.
        caller: Scheduling,
        /// The node's minimum policy and priority, if set.
        least: Option<Scheduling>,
        /// The serving thread before the calls.
        at_rest: Scheduling,
        /// The serving thread during the last call.
        serving: Scheduling,
        /// The serving thread after the calls.
        afterwards: Scheduling,
    },
    /// The duration of each call.
    RoundTrip {
        /// All timed calls.
        latency: Histogram,
    },
    /// The serving thread inherited its caller's priority through a PI futex, as the driver counts.
    /// It ran at that priority, but its policy does not show it.
    InheritedUnseen {
        /// The number of calls, all of which inherited.
        calls: u32,
        /// The caller.
        caller: Scheduling,
        /// The serving thread's policy and priority during the last call, as the kernel reports
        /// them.
        shown: Scheduling,
    },
    /// The aspect was not tested.
    NotTried {
        /// Why it is not permitted, and how to fix that.
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
