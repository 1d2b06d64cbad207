//! Background scheduling: a thread gets the background scheduling class while it serves a
//! background caller.
//!
//! A server thread inherits the caller's nice value from the driver, but not its scheduling class.
//! Android's binder library sets the class if the nice value is 10 or higher
//! (`ANDROID_PRIORITY_BACKGROUND`). Without Android's cgroups that class is `SCHED_BATCH`, as in
//! `libcutils`. Each call costs one `getpriority`, the only way to learn the inherited nice value.

use crate::sched::{self, Policy};

/// The lowest nice value of a background caller: Android's `ANDROID_PRIORITY_BACKGROUND`.
const BACKGROUND_NICE: i32 = 10;

/// The calling thread has the background scheduling class until [`Background::leave`].
pub(crate) struct Background(());

impl Background {
    /// Gives this thread the background class if it inherited a background caller's nice value. A
    /// real-time thread keeps its class, because nice values do not apply to it.
    pub(crate) fn enter() -> Option<Self> {
        let nice = rustix::process::getpriority_process(None).ok()?;
        if nice < BACKGROUND_NICE || sched::policy()? != Policy::Other {
            return None;
        }
        sched::set_policy(Policy::Batch).then_some(Self(()))
    }

    /// Restores `SCHED_OTHER`. Call this after the reply, when the driver has restored the thread's
    /// own priority.
    pub(crate) fn leave(self) {
        if sched::policy() == Some(Policy::Batch) {
            sched::set_policy(Policy::Other);
        }
    }
}
