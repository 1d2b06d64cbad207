//! Death notifications: their requests and delivery, and what remains of a dead process's nodes.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::node::Strength;
use crate::queue::Kind;
use crate::records::{Id, Node, Process, Thread, Work, node, process, reference, thread, work};
use crate::thread::{LOOPER_ENTERED, LOOPER_REGISTERED};

impl Guard<'_> {
    /// Requests a notification of the death of the node behind `handle`. Ignored, as in the kernel,
    /// if one was requested already or there is no such handle.
    pub(crate) fn request_death(
        &mut self,
        owner: Id<Process>,
        handle: u32,
        cookie: u64,
    ) -> Result<(), Errno> {
        let Some(id) = self.find_ref(owner, handle.into(), Strength::Weak) else { return Ok(()) };
        if self.get(id, reference::DEATH).is_some() {
            return Ok(());
        }
        let entry = self.new_work(Kind::DeadBinder, cookie)?;
        self.set(id, reference::DEATH, Some(entry));
        let dead =
            self.get(id, reference::NODE).is_none_or(|target| self.get(target, node::PROCESS).is_none());
        if dead {
            self.push(process::TODO.queue(owner), entry);
            self.wake_process(owner);
        }
        Ok(())
    }

    /// Cancels such a request.
    pub(crate) fn clear_death(&mut self, by: Id<Thread>, owner: Id<Process>, handle: u32, cookie: u64) {
        let Some(id) = self.find_ref(owner, handle.into(), Strength::Weak) else { return };
        let Some(entry) = self.get(id, reference::DEATH) else { return };
        if self.get(entry, work::PAYLOAD) != cookie {
            return;
        }
        self.set(id, reference::DEATH, None);
        if self.get(entry, work::QUEUE) == 0 {
            self.queue_cleared_death(by, owner, entry);
        } else {
            self.set(entry, work::KIND, Kind::DeadBinderAndClear as u32);
        }
    }

    /// `BC_DEAD_BINDER_DONE`.
    pub(crate) fn death_done(&mut self, by: Id<Thread>, owner: Id<Process>, cookie: u64) {
        let mut next = self.front(process::DELIVERED.queue(owner));
        while let Some(entry) = self.step(next) {
            if self.get(entry, work::PAYLOAD) == cookie {
                self.unqueue(entry);
                if self.kind(entry) == Some(Kind::DeadBinderAndClear) {
                    self.queue_cleared_death(by, owner, entry);
                }
                return;
            }
            next = self.get(entry, work::NEXT);
        }
    }

    fn queue_cleared_death(&mut self, by: Id<Thread>, owner: Id<Process>, entry: Id<Work>) {
        self.set(entry, work::KIND, Kind::ClearDeath as u32);
        if self.get(by, thread::LOOPER) & (LOOPER_ENTERED | LOOPER_REGISTERED) != 0 {
            self.push_thread_work(by, entry);
        } else {
            self.push(process::TODO.queue(owner), entry);
            self.wake_process(owner);
        }
    }

    /// The owner of `id` has died: notifies the processes that requested it, and frees the node if
    /// no reference to it is left.
    pub(crate) fn release_node(&mut self, owner: Id<Process>, id: Id<Node>) {
        self.release_queue(node::ASYNC_TODO.queue(id));
        self.unlist_node(owner, id);
        self.dequeue_node_work(id);
        self.set(id, node::PROCESS, None);
        self.set(id, node::LOCAL_STRONG, 0);
        self.set(id, node::LOCAL_WEAK, 0);
        // The counts reported to the owner are kept, as in the kernel: a process with a weak handle
        // may still pass it on.
        let mut next = self.get(id, node::REFS);
        if next.is_none() {
            self.free(id);
            return;
        }
        while let Some(holder) = self.step(next) {
            if let (Some(entry), Some(to)) =
                (self.get(holder, reference::DEATH), self.get(holder, reference::PROCESS))
                && self.get(entry, work::QUEUE) == 0
            {
                self.push(process::TODO.queue(to), entry);
                self.wake_process(to);
            }
            next = self.get(holder, reference::NEXT);
        }
    }
}
