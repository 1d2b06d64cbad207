//! How a sleeping thread's state is written as a number: the kernel's `prev_state` changed its bits
//! over the versions, and Perfetto reads them by the release that the trace names. Must not know
//! anything else of a switch.

use tracefs::TaskState;

/// The bits of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Linux 4.14 and later (`TASK_STATE_MAX` and `TASK_REPORT` of its `sched.h`).
    Modern,
    /// What Perfetto takes for granted without a release: Linux 4.4's.
    Old,
}

impl Coding {
    /// The bits that Perfetto expects of a trace that names this release. One that it cannot read
    /// must not be named.
    pub(super) fn of(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (4, 14) => Self::Modern,
            _ => Self::Old,
        }
    }

    /// A state in these bits.
    pub(super) fn number(self, state: TaskState) -> u32 {
        const PARKED: TaskState = TaskState(0x40);
        const IDLE: TaskState = TaskState(0x80);
        match (self, state) {
            (Self::Modern, TaskState::PREEMPTED) => 0x100,
            (Self::Old, TaskState::PREEMPTED) => 0x800,
            (Self::Old, PARKED) => 0x200,
            // It had no state of its own, but was `D` (2) that does not count as load (0x400).
            (Self::Old, IDLE) => 0x402,
            (_, TaskState(bits)) => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart_as_perfetto_does() {
        for release in ["4.14", "4.19.3-android", "5.10.1", "6.18.2-rt1", "10.0"] {
            assert_eq!(Coding::of(release), Coding::Modern, "{release}");
        }
        for release in ["", "4.13.9", "3.18", "custom-6.1", "6"] {
            assert_eq!(Coding::of(release), Coding::Old, "{release}");
        }
    }
}
