//! Driver commands for references on remote objects and for notification requests. This file knows
//! only handles and cookies.

use roundtrip_binder_driver::Command;
use roundtrip_binder_driver::uapi::HandleCookie;

use crate::thread::ThreadState;

/// The context manager's handle, the same in every process.
pub(crate) const CONTEXT_MANAGER: u32 = 0;

impl ThreadState {
    /// Takes a weak and a strong reference.
    pub(crate) fn take_references(&self, handle: u32) {
        self.push(Command::Increfs(handle));
        self.push(Command::Acquire(handle));
    }

    /// Releases the references that [`ThreadState::take_references`] took.
    pub(crate) fn give_references(&self, handle: u32) {
        self.push(Command::Release(handle));
        self.push(Command::Decrefs(handle));
    }

    /// Clears a death notification.
    pub(crate) fn clear_death(&self, handle: u32, cookie: u64) {
        self.push(Command::ClearDeathNotification(HandleCookie { handle, cookie }));
        self.release_manager(handle);
    }

    /// Clears a freeze notification.
    pub(crate) fn clear_frozen(&self, handle: u32, cookie: u64) {
        self.push(Command::ClearFreezeNotification(HandleCookie { handle, cookie }));
        self.release_manager(handle);
    }

    /// Releases the references that a notification request for the context manager took. Does
    /// nothing for other handles.
    pub(crate) fn release_manager(&self, handle: u32) {
        if handle == CONTEXT_MANAGER {
            self.give_references(handle);
        }
    }
}
