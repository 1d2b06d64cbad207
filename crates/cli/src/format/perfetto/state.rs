//! How a sleeping thread's state is written as a number: the kernel's `prev_state` changed its bits over the versions,
//! and Perfetto reads them by the release that the trace names. Must not know anything else of a switch.

use tracefs::TaskState;

/// The bits of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coding {
    preempted: u32,
}

impl Coding {
    /// The bits that Perfetto expects of a trace that names this release, or none.
    pub(super) fn of(_release: Option<&str>) -> Self {
        Self { preempted: 0x100 }
    }

    /// A state in these bits.
    pub(super) fn number(self, state: TaskState) -> u32 {
        if state == TaskState::PREEMPTED { self.preempted } else { state.0 }
    }
}
