//! [`NodeOptions`]: how the driver treats calls to an object, as flags for it.

use binder_driver::uapi::{
    FLAT_BINDER_FLAG_ACCEPTS_FDS, FLAT_BINDER_FLAG_INHERIT_RT, FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT,
};

use crate::{Stability, Stack};

/// The least scheduling policy of a node's server threads; Android's kernels honour it, the
/// mainline kernel does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeastPolicy {
    /// `SCHED_OTHER`: no more than anyone's.
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
    /// A real-time caller's policy and priority are lent to the server thread (Android's kernels).
    pub inherit_rt: bool,
    /// Calls may carry file descriptors.
    pub accept_fds: bool,
    /// The least policy of the server thread during a call.
    pub least_policy: LeastPolicy,
    /// With [`LeastPolicy::Other`]: the highest nice value that is lent, −20 to 19 (the mainline
    /// kernel takes a negative one for a number above 235). Otherwise the least real-time
    /// priority, 1 to 99.
    pub least_priority: i8,
    /// What its interface promises; only the binder stack's objects tell it.
    pub stability: Stability,
}

impl NodeOptions {
    /// What Android's binder library sends (0x113): any nice value is lent, so that a call from the
    /// background is served in the background; real-time priorities are not.
    pub const BINDER: Self = Self {
        inherit_rt: false,
        accept_fds: true,
        least_policy: LeastPolicy::Other,
        least_priority: 19,
        stability: Stability::System,
    };

    /// What Android's hwbinder library sends (0x900): real-time priorities are lent, and a nice
    /// value above 0 is not.
    pub const HWBINDER: Self = Self { inherit_rt: true, least_priority: 0, ..Self::BINDER };

    /// The same with or without real-time inheritance.
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
    fn each_stack_sends_the_flags_that_androids_library_sends() {
        assert_eq!(NodeOptions::BINDER.flags(), 0x113);
        assert_eq!(NodeOptions::HWBINDER.flags(), 0x900);
        let least =
            NodeOptions { least_policy: LeastPolicy::Fifo, least_priority: 50, ..NodeOptions::BINDER };
        assert_eq!(least.flags(), 0x332);
        assert_eq!(NodeOptions { least_priority: -1, ..NodeOptions::BINDER }.flags(), 0x1ff);
    }
}
