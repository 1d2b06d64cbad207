//! Background scheduling: a thread that serves a background caller runs as background while it
//! does.
//!
//! The driver lends the caller's nice value but not its scheduling class; Android's binder library
//! adds the class for a nice value of 10 and above (`ANDROID_PRIORITY_BACKGROUND`). Without its
//! cgroups that class is `SCHED_BATCH`, as in `libcutils`. It costs an ordinary call one
//! `getpriority`: nothing else says what was lent.

use crate::sched::{self, Policy};

/// From this nice value on a caller is in the background: Android's `ANDROID_PRIORITY_BACKGROUND`.
const BACKGROUND_NICE: i32 = 10;

/// This thread runs as background.
pub(crate) struct Background(());

impl Background {
    /// Makes this thread run as background if it has been lent a background caller's nice value. A
    /// real-time thread stays what it is: nice values mean nothing to it.
    pub(crate) fn enter() -> Option<Self> {
        let nice = rustix::process::getpriority_process(None).ok()?;
        if nice < BACKGROUND_NICE || sched::policy()? != Policy::Other {
            return None;
        }
        sched::set_policy(Policy::Batch).then_some(Self(()))
    }

    /// Makes it run as before, once the reply is sent and the driver has taken back what it lent.
    pub(crate) fn leave(self) {
        if sched::policy() == Some(Policy::Batch) {
            sched::set_policy(Policy::Other);
        }
    }
}
