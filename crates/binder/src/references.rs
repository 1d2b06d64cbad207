//! References on other processes' objects, as commands for the driver: taken, given back, and asked
//! to be told about. It knows handles and cookies only.

use binder_driver::Command;
use binder_driver::uapi::HandleCookie;

use crate::thread::ThreadState;

/// The handle at which every process finds its context's manager.
pub(crate) const CONTEXT_MANAGER: u32 = 0;

impl ThreadState {
    /// Takes a weak and a strong reference.
    pub(crate) fn take_references(&self, handle: u32) {
        self.push(Command::Increfs(handle));
        self.push(Command::Acquire(handle));
    }

    /// Gives back what [`ThreadState::take_references`] took.
    pub(crate) fn give_references(&self, handle: u32) {
        self.push(Command::Release(handle));
        self.push(Command::Decrefs(handle));
    }

    /// Has the driver forget that it was asked for a death.
    pub(crate) fn clear_death(&self, handle: u32, cookie: u64) {
        self.push(Command::ClearDeathNotification(HandleCookie { handle, cookie }));
        self.release_manager(handle);
    }

    /// Has the driver forget that it was asked for an owner's state.
    pub(crate) fn clear_frozen(&self, handle: u32, cookie: u64) {
        self.push(Command::ClearFreezeNotification(HandleCookie { handle, cookie }));
        self.release_manager(handle);
    }

    /// Gives up the references that came with the asking, if it was for the context manager's death
    /// or state.
    pub(crate) fn release_manager(&self, handle: u32) {
        if handle == CONTEXT_MANAGER {
            self.give_references(handle);
        }
    }
}
