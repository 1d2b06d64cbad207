//! A thread's work source: the uid that its calls contain in their interface tokens. A service uses
//! it to attribute its work to the right application. This file knows nothing about parcels.

use std::cell::Cell;

/// `IPCThreadState::kUnsetWorkSource`: no work source.
pub(crate) const UNSET: u32 = u32::MAX;

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(UNSET) };
}

/// This thread's work source.
#[inline]
pub(crate) fn current() -> u32 {
    CURRENT.get()
}

/// Like [`WorkSource::set`], but also accepts [`UNSET`].
pub(crate) fn replace(uid: u32) -> WorkSource {
    WorkSource { outer: CURRENT.replace(uid), of_this_thread: std::marker::PhantomData }
}

/// While this value exists, this thread's calls are made on behalf of an application
/// (`setCallingWorkSourceUid`). Drop nested values in reverse order. A call that this thread serves
/// meanwhile starts without a work source.
#[derive(Debug)]
#[must_use = "dropping this restores the previous work source"]
pub struct WorkSource {
    outer: u32,
    of_this_thread: std::marker::PhantomData<*const ()>,
}

impl WorkSource {
    /// From now on, this thread's calls are made on behalf of `uid`.
    pub fn set(uid: u32) -> Self {
        replace(uid)
    }

    /// From now on, this thread's calls have no work source (`clearCallingWorkSource`).
    pub fn clear() -> Self {
        replace(UNSET)
    }
}

impl Drop for WorkSource {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}
