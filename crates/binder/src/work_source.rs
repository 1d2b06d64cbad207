//! For whom a thread works: the uid that its calls name in their interface tokens, so that a
//! service can charge the right application for what it does. Knows no parcels.

use std::cell::Cell;

/// `IPCThreadState::kUnsetWorkSource`: on nobody else's account.
pub(crate) const UNSET: u32 = u32::MAX;

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(UNSET) };
}

/// What this thread's calls name.
#[inline]
pub(crate) fn current() -> u32 {
    CURRENT.get()
}

/// As [`WorkSource::set`], for anything that a word can hold.
pub(crate) fn replace(uid: u32) -> WorkSource {
    WorkSource { outer: CURRENT.replace(uid), of_this_thread: std::marker::PhantomData }
}

/// While it lives, this thread's calls say that they are made on behalf of an application
/// (`setCallingWorkSourceUid`). They end one inside the other. Calls that this thread serves
/// meanwhile begin without.
#[derive(Debug)]
#[must_use = "the work source is what it was as soon as this is dropped"]
pub struct WorkSource {
    outer: u32,
    of_this_thread: std::marker::PhantomData<*const ()>,
}

impl WorkSource {
    /// From now on, calls of this thread are made on behalf of `uid`.
    pub fn set(uid: u32) -> Self {
        replace(uid)
    }

    /// From now on, calls of this thread are made on nobody else's behalf
    /// (`clearCallingWorkSource`).
    pub fn clear() -> Self {
        replace(UNSET)
    }
}

impl Drop for WorkSource {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}
