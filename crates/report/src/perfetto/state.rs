//! Encodes the state of a sleeping thread as a number. The bits of the kernel's `prev_state` differ
//! between versions, and Perfetto interprets them by the trace's kernel release. Must not know
//! anything else about a switch.

use roundtrip_tracefs::TaskState;

/// The bits of a kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Linux 4.14 and later (`TASK_STATE_MAX` and `TASK_REPORT` of its `sched.h`).
    Modern,
    /// The bits of Linux 4.4, which Perfetto assumes if there is no release.
    Old,
}

impl Coding {
    /// The bits that Perfetto expects for this release. If Perfetto cannot parse a release, the
    /// trace must not contain it.
    pub(super) fn of(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (4, 14) => Self::Modern,
            _ => Self::Old,
        }
    }

    /// A state encoded in these bits.
    pub(super) fn number(self, state: TaskState) -> u32 {
        const PARKED: TaskState = TaskState(0x40);
        const IDLE: TaskState = TaskState(0x80);
        match (self, state) {
            (Self::Modern, TaskState::PREEMPTED) => 0x100,
            (Self::Old, TaskState::PREEMPTED) => 0x800,
            (Self::Old, PARKED) => 0x200,
            // Linux 4.4 had no such state. It used `D` (2) with the flag `TASK_NOLOAD` (0x400).
            (Self::Old, IDLE) => 0x402,
            (_, TaskState(bits)) => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_distinguished_as_in_perfetto() {
        for release in ["4.14", "4.19.3-android", "5.10.1", "6.18.2-rt1", "10.0"] {
            assert_eq!(Coding::of(release), Coding::Modern, "{release}");
        }
        for release in ["", "4.13.9", "3.18", "custom-6.1", "6"] {
            assert_eq!(Coding::of(release), Coding::Old, "{release}");
        }
    }
}
