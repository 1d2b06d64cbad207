//! How priorities are inherited over the emulated driver.

use serde::{Deserialize, Serialize};

/// How a server inherits a real-time caller's priority, under the priority rules of Android's
/// kernel.
///
/// The nice value of an ordinary caller is inherited by setting it, with any of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InheritBy {
    /// By setting the server thread's policy (sched_setattr(2)). Without permission for that
    /// (EPERM: neither `CAP_SYS_NICE` nor a sufficient `RLIMIT_RTPRIO` of the server's process),
    /// through a priority-inheriting futex. A thread that was refused tries again after a second.
    #[default]
    Auto = 0,
    /// By setting the policy. Without permission nothing is inherited.
    Policy = 1,
    /// Through a priority-inheriting futex (futex(2)). This needs no permission, and the server's
    /// policy does not show it.
    PiFutex = 2,
}

impl InheritBy {
    /// Whether this is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
