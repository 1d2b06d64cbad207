//! Processes: opened devices, and what becomes of everything when one closes or dies.

use rustix::io::Errno;

use super::lock::Guard;
use super::records::{
    Buffer, CONTEXT_MANAGER, Id, PROCESSES, Process, Record, STARTS, STARTS_AT, buffer, node, process, thread,
};
use super::wakeup;

/// The slot can be taken.
pub(super) const FREE: u32 = 0;
/// A process uses it.
pub(super) const LIVE: u32 = 1;
/// The process has gone; senders are still copying into its area, so the slot cannot be taken yet.
pub(super) const GONE: u32 = 2;
/// The process has closed it; its keeper will free it when the connection ends.
pub(super) const CLOSED: u32 = 3;

impl Guard<'_> {
    /// Takes a slot for a process.
    pub(super) fn new_process(&mut self, pid: i32, euid: u32) -> Result<Id<Process>, Errno> {
        let free = (1..PROCESSES as u64)
            .filter_map(Id::<Process>::new)
            .find(|&slot| self.get(slot, process::STATE) == FREE)
            .ok_or(Errno::USERS)?;
        let generation = self.get(free, process::GENERATION) + 1;
        for word in 1..Process::WORDS {
            self.set_word(Process::AT + free.index() * Process::WORDS + word, 0);
        }
        self.set(free, process::GENERATION, generation);
        self.set(free, process::PID, pid);
        self.set(free, process::EUID, euid);
        self.set(free, process::STATE, LIVE);
        Ok(free)
    }

    /// Lets go of everything that a process holds and that others hold of it: its threads, nodes, handles, buffers.
    /// Committed in steps that can each be repeated, so that a keeper that dies here leaves the rest to do.
    pub(super) fn release_process(&mut self, gone: Id<Process>, then: u32) {
        if self.get(gone, process::STATE) == LIVE {
            self.set(gone, process::STATE, GONE);
            if let Some(manager) = self.context_manager()
                && self.get(manager, node::PROCESS) == Some(gone)
            {
                self.set_word(CONTEXT_MANAGER, 0);
            }
            self.commit();
        }
        while let Some(id) = self.get(gone, process::THREADS_HEAD) {
            wakeup::kick(self.region(), id);
            self.release_thread(gone, id);
            self.commit();
        }
        while let Some(id) = self.get(gone, process::NODES) {
            self.release_node(gone, id);
            self.commit();
        }
        for handle in 0..self.get(gone, process::HANDLE_END) {
            if let Some(id) = self.find_ref(gone, handle, super::node::Strength::Weak) {
                // Only a full table can fail here; the reference is gone all the same.
                let _ = self.drop_ref(id);
                self.commit();
            }
        }
        self.release_queue(process::TODO.queue(gone));
        self.release_queue(process::DELIVERED.queue(gone));
        self.commit();
        let mut next = self.get(gone, process::BUFFERS);
        for _ in 0..STARTS {
            let Some(id) = next else { break };
            next = self.get(id, buffer::NEXT);
            self.forget_buffer(gone, id);
            self.set(gone, process::BUFFERS, next);
            self.commit();
        }
        let state = if self.get(gone, process::FILLS) == 0 { then } else { GONE };
        self.set(gone, process::STATE, state);
        self.commit();
    }

    /// A buffer of a process that is gone.
    fn forget_buffer(&mut self, gone: Id<Process>, id: Id<Buffer>) {
        let offset = self.get(id, buffer::OFFSET);
        self.set_word(STARTS_AT + gone.index() * STARTS + (offset / 8) as usize, 0);
        if let Some(t) = self.get(id, buffer::TRANSACTION) {
            self.detach_buffer(t);
        }
        // Its filler frees the record when it sees that the process has gone.
        if !self.get(id, buffer::FILLING) {
            self.free(id);
        }
    }

    /// Makes all threads of the context look for work again: after a death, wake-ups may be missing.
    pub(super) fn kick_everyone(&mut self) {
        for slot in (1..PROCESSES as u64).filter_map(Id::<Process>::new) {
            if self.get(slot, process::STATE) == LIVE {
                self.for_each_thread(slot, |guard, id| wakeup::kick(guard.region(), id));
            }
        }
    }

    /// Makes all threads of a process return from their waits.
    pub(super) fn interrupt(&mut self, owner: Id<Process>) {
        self.for_each_thread(owner, |guard, id| {
            guard.set(id, thread::NEED_RETURN, true);
            guard.stop_waiting(owner, id);
            guard.wake_later(id);
        });
    }
}
