//! [`NodeOptions`]: a node's flags, by which the driver treats calls to it.

use roundtrip_binder_driver::uapi::{
    FLAT_BINDER_FLAG_ACCEPTS_FDS, FLAT_BINDER_FLAG_INHERIT_RT, FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT,
};

use crate::{Stability, Stack};

/// The minimum scheduling policy of a node's server threads. Android's kernels apply it; the
/// mainline kernel does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeastPolicy {
    /// `SCHED_OTHER`.
    #[default]
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
}

/// How the driver treats calls to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// The server thread inherits a real-time caller's policy and priority (Android's kernels).
    pub inherit_rt: bool,
    /// Calls may carry file descriptors.
    pub accept_fds: bool,
    /// The minimum policy of the server thread during a call.
    pub least_policy: LeastPolicy,
    /// With [`LeastPolicy::Other`]: the highest nice value that a server thread inherits, −20 to
    /// 19. (The mainline kernel reads a negative value as an unsigned one above 235.) With another
    /// policy: the minimum real-time priority, 1 to 99.
    pub least_priority: i8,
    /// The interface's stability. Only the binder stack sends it.
    pub stability: Stability,
}

impl NodeOptions {
    /// The options of Android's binder library (flags 0x113). A server thread inherits any nice
    /// value, so calls from the background are served in the background. It does not inherit
    /// real-time priorities.
    pub const BINDER: Self = Self {
        inherit_rt: false,
        accept_fds: true,
        least_policy: LeastPolicy::Other,
        least_priority: 19,
        stability: Stability::System,
    };

    /// The options of Android's hwbinder library (flags 0x900). A server thread inherits real-time
    /// priorities, and nice values up to 0.
    pub const HWBINDER: Self = Self { inherit_rt: true, least_priority: 0, ..Self::BINDER };

    /// Returns these options with or without real-time inheritance.
    #[must_use]
    pub const fn inherit_rt(self, inherit_rt: bool) -> Self {
        Self { inherit_rt, ..self }
    }

    /// The `FLAT_BINDER_FLAG_*` bits.
    #[must_use]
    pub fn flags(self) -> u32 {
        let policy = match self.least_policy {
            LeastPolicy::Other => 0,
            LeastPolicy::Fifo => 1,
            LeastPolicy::RoundRobin => 2,
        };
        u32::from(self.least_priority as u8)
            | policy << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT
            | if self.accept_fds { FLAT_BINDER_FLAG_ACCEPTS_FDS } else { 0 }
            | if self.inherit_rt { FLAT_BINDER_FLAG_INHERIT_RT } else { 0 }
    }
}

impl From<Stack> for NodeOptions {
    fn from(stack: Stack) -> Self {
        match stack {
            Stack::Binder => Self::BINDER,
            Stack::Hwbinder => Self::HWBINDER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_sends_the_flags_of_androids_library() {
        assert_eq!(NodeOptions::BINDER.flags(), 0x113);
        assert_eq!(NodeOptions::HWBINDER.flags(), 0x900);
        let least =
            NodeOptions { least_policy: LeastPolicy::Fifo, least_priority: 50, ..NodeOptions::BINDER };
        assert_eq!(least.flags(), 0x332);
        assert_eq!(NodeOptions { least_priority: -1, ..NodeOptions::BINDER }.flags(), 0x1ff);
    }
}
