//! The receiver's buffer: data, offsets and scatter-gather buffers, copied from the sender's
//! memory.

use rustix::io::Errno;

use super::Refusal;
use crate::allocation::Sizes;
use crate::ioctl::Ioctl;
use crate::node::Strength;
use crate::objects;
use crate::process::LIVE;
use crate::records::{Buffer, Id, Node, Process, Thread, buffer, process};
use roundtrip_binder_driver::RawBytes;
use roundtrip_binder_driver::uapi::{TF_CLEAR_BUF, TransactionDataSg};

/// From this many bytes on, data is copied outside the lock, so that no thread waits for the copy.
const COPY_OUTSIDE_LOCK: u64 = 4096;

/// Where a transaction goes.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) process: Id<Process>,
    /// The thread that waits for the reply, or that a nested call goes back to.
    pub(super) thread: Option<Id<Thread>>,
    /// None for a reply.
    pub(super) node: Option<Id<Node>>,
    /// It may be sent descriptors.
    pub(super) accepts_descriptors: bool,
}

/// A buffer that data was copied into.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) buffer: Id<Buffer>,
    /// The scatter-gather buffers could not be copied. Reported only if the objects are correct, as
    /// by the kernel.
    pub(super) buffers_missing: bool,
}

impl Ioctl<'_> {
    /// Takes a buffer in the target's area and copies data, offsets, scatter-gather buffers and
    /// objects into it. On an error, what was changed since the last commit must be rolled back
    /// by the caller; what was committed is undone here.
    pub(super) fn fill(
        &mut self,
        target: Target,
        data: &TransactionDataSg,
        oneway: bool,
    ) -> Result<Filled, Refusal> {
        let sizes = Sizes { data: data.data_size, offsets: data.offsets_size, extra: data.buffers_size };
        if self.guard.get(target.process, process::STATE) != LIVE {
            return Err(Refusal::dead(Errno::SRCH));
        }
        let filled = self.guard.alloc_buffer(target.process, sizes, oneway.then_some(self.sender))?;
        let offsets = self.memory.slice(data.offsets, data.offsets_size).ok_or(Errno::FAULT)?;
        if !data.offsets_size.is_multiple_of(8) || !data.buffers_size.is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        let own = self.memory.slice(data.buffer, data.data_size);
        // Objects are accepted only in the caller's own memory: data that others may change is
        // passed on unexamined.
        let passed_on = || self.memory.bytes(data.buffer, data.data_size).filter(|_| offsets.is_empty());
        let bytes = own.map(RawBytes::from).or_else(passed_on).ok_or_else(|| {
            // The kernel copies up to the first object, and then looks for that.
            if offsets.get(..8) == Some(&[0; 8]) { Errno::INVAL } else { Errno::FAULT }
        })?;
        self.guard.init(filled, buffer::TARGET, target.node);
        self.guard.init(filled, buffer::CLEAR, data.flags & TF_CLEAR_BUF != 0);
        if let Some(node) = target.node {
            self.guard.inc_node(node, Strength::Strong, false, None)?;
        }
        let offset = self.guard.get(filled, buffer::OFFSET);
        let offsets_at = self.guard.offsets_at(filled);
        let slot = target.process.index();
        let region = self.guard.region();
        let memory = self.memory;
        let copy = || {
            let room = data.buffers_size;
            let whole = region.write_area(slot, offset, bytes)
                && (offsets.is_empty() || region.write_area(slot, offsets_at, offsets.into()));
            let objects = own.unwrap_or_default();
            let buffers =
                room == 0 || objects::copy_buffers(region, slot, offsets_at, objects, offsets, room, &memory);
            (whole, buffers)
        };
        let (whole, buffers) = if data.data_size.saturating_add(data.buffers_size) >= COPY_OUTSIDE_LOCK {
            self.guard.start_fill(self.thread, target.process, filled);
            self.guard.unlock();
            let copied = copy();
            self.guard.relock();
            self.guard.end_fill(self.thread, target.process, filled)?;
            if !copied.0 {
                self.guard.release_buffer(target.process, filled);
                // The first half was committed with the unlock: the caller's rollback must not undo
                // this one alone.
                self.guard.commit();
            }
            copied
        } else {
            copy()
        };
        if !whole {
            return Err(Errno::FAULT.into());
        }
        Ok(Filled { buffer: filled, buffers_missing: !buffers })
    }

    /// Translates the objects of a buffer that is filled.
    pub(super) fn translate_filled(
        &mut self,
        target: Target,
        filled: Filled,
        data: &TransactionDataSg,
    ) -> Result<(), Refusal> {
        if data.offsets_size != 0 {
            self.translate(target.process, filled.buffer, data, target.accepts_descriptors)?;
        }
        if filled.buffers_missing { Err(Errno::INVAL.into()) } else { Ok(()) }
    }
}
