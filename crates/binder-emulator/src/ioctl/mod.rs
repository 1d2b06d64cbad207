//! A thread in the driver: one `BINDER_WRITE_READ`, its commands (`write`), then its returns
//! (`read`, `deliver`), or another ioctl.

mod deliver;
mod out;
mod read;
mod write;

use std::os::fd::{BorrowedFd, OwnedFd};

use roundtrip_vocabulary::InheritBy;
use rustix::io::Errno;

use crate::descriptors::{Descriptors, Wanted};
use crate::lock::Guard;
use crate::node::Strength;
use crate::records::{CONTEXT_MANAGER, Id, Process, Thread, node, reference};
use roundtrip_binder_driver::uapi::{BINDER_TYPE_BINDER, FlatBinderObject};
use roundtrip_binder_driver::{Profile, ReadableMemory};

/// A thread in the driver.
pub(crate) struct Ioctl<'a> {
    pub(crate) guard: Guard<'a>,
    pub(crate) process: Id<Process>,
    pub(crate) thread: Id<Thread>,
    pub(crate) profile: Profile,
    /// How a real-time priority is inherited from this process's calls.
    pub(crate) inherit_by: InheritBy,
    /// The memory that commands may name.
    pub(crate) memory: ReadableMemory<'a>,
    /// The real process that is calling.
    pub(crate) sender: u32,
    /// The user of this process when it joined, or at its last call.
    pub(crate) euid: u32,
    pub(crate) descriptors: &'a Descriptors,
    /// The descriptors of the transaction that is being sent.
    pub(crate) sending: Vec<BorrowedFd<'a>>,
    /// What must be requested before a transaction can be sent or delivered.
    pub(crate) wanted: Option<Wanted>,
    /// This process's own inbox is not available.
    pub(crate) inbox_missing: bool,
    /// The descriptors to close after the unlock.
    pub(crate) closing: Vec<OwnedFd>,
}

impl Ioctl<'_> {
    /// `BINDER_SET_CONTEXT_MGR_EXT`.
    pub(crate) fn become_context_manager(&mut self, flags: u32) -> Result<(), Errno> {
        if self.guard.context_manager().is_some() {
            return Err(Errno::BUSY);
        }
        let object = FlatBinderObject { kind: BINDER_TYPE_BINDER, flags, binder: 0, cookie: 0 };
        // The process may already have sent a node with that name.
        let own = match self.guard.find_node(self.process, 0) {
            Some(known) => known,
            None => self.guard.new_node(self.process, &object)?,
        };
        self.guard.add(own, node::LOCAL_WEAK, 1);
        self.guard.add(own, node::LOCAL_STRONG, 1);
        self.guard.set(own, node::HAS_WEAK, true);
        self.guard.set(own, node::HAS_STRONG, true);
        self.guard.set_word(CONTEXT_MANAGER, own.index() as u64);
        Ok(())
    }

    /// `BINDER_GET_NODE_INFO_FOR_REF`.
    pub(crate) fn node_counts(&self, handle: u32) -> Result<(u32, u32), Errno> {
        let guard = &self.guard;
        let manager = guard.context_manager().ok_or(Errno::PERM)?;
        if guard.get(manager, node::PROCESS) != Some(self.process) {
            return Err(Errno::PERM);
        }
        let held = guard.find_ref(self.process, handle.into(), Strength::Strong).ok_or(Errno::INVAL)?;
        let target = guard.get(held, reference::NODE).ok_or(Errno::INVAL)?;
        let strong =
            guard.get(target, node::LOCAL_STRONG).saturating_add(guard.get(target, node::INTERNAL_STRONG));
        Ok((strong, guard.get(target, node::LOCAL_WEAK)))
    }

    /// How many strong and weak references the calling process has on a handle; for tests.
    pub(crate) fn handle_counts(&self, handle: u32) -> Option<(u32, u32)> {
        let held = self.guard.find_ref(self.process, handle.into(), Strength::Weak)?;
        Some((self.guard.get(held, reference::STRONG), self.guard.get(held, reference::WEAK)))
    }
}
