//! Nodes and references: local objects, the handles that others hold on them, and who knows of whom.
//!
//! The counting follows the kernel's `binder_inc_node`, `binder_dec_node` and `binder_ref` functions (`binder.c`),
//! since the returns that an owner sees (`BR_INCREFS`, `BR_ACQUIRE`, …) depend on it.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::queue::Kind;
use crate::records::{
    CONTEXT_MANAGER, HANDLES, Id, Node, Process, Queue, Ref, Thread, Word, Work, handle_word, node,
    node_bucket, process, reference, thread, work,
};
use crate::thread::{LOOPER_ENTERED, LOOPER_REGISTERED};
use binder_driver::NodeInfo;
use binder_driver::uapi::FlatBinderObject;

/// Strong or weak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strength {
    Strong,
    Weak,
}

impl Guard<'_> {
    /// The context manager's node.
    pub(crate) fn context_manager(&self) -> Option<Id<Node>> {
        Id::new(self.word(CONTEXT_MANAGER))
    }

    /// The node that `owner` calls `ptr`.
    pub(crate) fn find_node(&self, owner: Id<Process>, ptr: u64) -> Option<Id<Node>> {
        let mut next = Id::<Node>::new(self.word(node_bucket(owner, ptr)));
        while let Some(found) = self.step(next) {
            if self.get(found, node::PTR) == ptr && self.get(found, node::PROCESS) == Some(owner) {
                return Some(found);
            }
            next = self.get(found, node::HASH_NEXT);
        }
        None
    }

    /// The node of `owner` with the least `ptr` above `after`.
    pub(crate) fn node_after(&self, owner: Id<Process>, after: u64) -> Option<NodeInfo> {
        let mut least: Option<NodeInfo> = None;
        let mut next = self.get(owner, process::NODES);
        while let Some(id) = self.step(next) {
            let ptr = self.get(id, node::PTR);
            if ptr > after && least.is_none_or(|least| ptr < least.ptr) {
                let (has_strong, has_weak) = (self.get(id, node::HAS_STRONG), self.get(id, node::HAS_WEAK));
                least = Some(NodeInfo { ptr, cookie: self.get(id, node::COOKIE), has_strong, has_weak });
            }
            next = self.get(id, node::NEXT);
        }
        least
    }

    /// A new node of `owner`, as the object describes it.
    pub(crate) fn new_node(
        &mut self,
        owner: Id<Process>,
        object: &FlatBinderObject,
    ) -> Result<Id<Node>, Errno> {
        let new = self.alloc::<Node>()?;
        self.init(new, node::PROCESS, Some(owner));
        self.init(new, node::PTR, object.binder);
        self.init(new, node::COOKIE, object.cookie);
        self.init(new, node::FLAGS, object.flags);
        let bucket = node_bucket(owner, object.binder);
        let first = Id::new(self.word(bucket));
        self.init(new, node::HASH_NEXT, first);
        self.set_word(bucket, new.index() as u64);
        self.link_front(process::NODES.of(owner), new, node::NEXT, node::PREV);
        Ok(new)
    }

    /// Takes a node out of its owner's tables. The record stays.
    pub(crate) fn unlist_node(&mut self, owner: Id<Process>, id: Id<Node>) {
        let mut at = node_bucket(owner, self.get(id, node::PTR));
        while let Some(found) = self.step(Id::<Node>::new(self.word(at))) {
            if found == id {
                let next = self.get(id, node::HASH_NEXT);
                self.set_word(at, next.to_word());
                break;
            }
            at = node::HASH_NEXT.of(found);
        }
        self.unlink(process::NODES.of(owner), id, node::NEXT, node::PREV);
    }

    /// One more count on a node. `internal`: for a reference of another process. `todo`: where to tell the owner, when
    /// that is the sender itself.
    pub(crate) fn inc_node(
        &mut self,
        id: Id<Node>,
        strength: Strength,
        internal: bool,
        todo: Option<Id<Thread>>,
    ) -> Result<(), Errno> {
        if strength == Strength::Strong {
            if internal {
                let manager = self.context_manager() == Some(id) && self.get(id, node::HAS_STRONG);
                if todo.is_none() && self.get(id, node::INTERNAL_STRONG) == 0 && !manager {
                    return Err(Errno::INVAL);
                }
                self.add(id, node::INTERNAL_STRONG, 1);
            } else {
                self.add(id, node::LOCAL_STRONG, 1);
            }
            if let (false, Some(teller)) = (self.get(id, node::HAS_STRONG), todo) {
                // Deferred: the owner, which is sending, reads it with its next real work.
                self.dequeue_node_work(id);
                self.queue_node_work(id, thread::TODO.queue(teller))?;
            }
        } else {
            if !internal {
                self.add(id, node::LOCAL_WEAK, 1);
            }
            if !self.get(id, node::HAS_WEAK) && self.get(id, node::WORK).is_none() {
                let teller = todo.ok_or(Errno::INVAL)?;
                self.queue_node_work(id, thread::TODO.queue(teller))?;
            }
        }
        Ok(())
    }

    /// One count less on a node; frees it when nobody knows it any more.
    pub(crate) fn dec_node(&mut self, id: Id<Node>, strength: Strength, internal: bool) -> Result<(), Errno> {
        if strength == Strength::Strong {
            let left = if internal {
                self.add(id, node::INTERNAL_STRONG, -1) | self.get(id, node::LOCAL_STRONG)
            } else {
                self.add(id, node::LOCAL_STRONG, -1) | self.get(id, node::INTERNAL_STRONG)
            };
            if left != 0 {
                return Ok(());
            }
        } else {
            if !internal {
                self.add(id, node::LOCAL_WEAK, -1);
            }
            if self.get(id, node::LOCAL_WEAK) != 0 || self.get(id, node::REFS).is_some() {
                return Ok(());
            }
        }
        let owner = self.get(id, node::PROCESS);
        if let Some(owner) = owner
            && (self.get(id, node::HAS_STRONG) || self.get(id, node::HAS_WEAK))
        {
            if self.get(id, node::WORK).is_none() {
                self.queue_node_work(id, process::TODO.queue(owner))?;
                self.wake_process(owner);
            }
            return Ok(());
        }
        if self.get(id, node::REFS).is_none()
            && self.get(id, node::LOCAL_STRONG) == 0
            && self.get(id, node::LOCAL_WEAK) == 0
        {
            self.dequeue_node_work(id);
            if let Some(owner) = owner {
                self.unlist_node(owner, id);
            }
            self.free(id);
        }
        Ok(())
    }

    /// Looks whether a node's owner is to be told of references that have ended, as the kernel does whenever it stops
    /// using a node for a moment. It may find nothing new to tell then, but the entry keeps its place in the queue.
    pub(crate) fn put_node(&mut self, id: Id<Node>) -> Result<(), Errno> {
        // Without these it may be free already.
        let told = self.get(id, node::HAS_STRONG) || self.get(id, node::HAS_WEAK);
        if told { self.dec_node(id, Strength::Weak, true) } else { Ok(()) }
    }

    /// Queues "tell the owner of this node's references".
    fn queue_node_work(&mut self, id: Id<Node>, queue: Queue) -> Result<(), Errno> {
        let entry = self.push_new(queue, Kind::Node, id.index() as u64)?;
        self.set(id, node::WORK, Some(entry));
        Ok(())
    }

    /// Forgets that the owner was to be told.
    pub(crate) fn dequeue_node_work(&mut self, id: Id<Node>) {
        if let Some(entry) = self.get(id, node::WORK) {
            self.unqueue(entry);
            self.free(entry);
            self.set(id, node::WORK, None);
        }
    }

    /// The reference behind a handle. With `Strength::Strong`, only one that has a strong count.
    pub(crate) fn find_ref(&self, owner: Id<Process>, handle: u64, need: Strength) -> Option<Id<Ref>> {
        if handle >= HANDLES as u64 {
            return None;
        }
        let found = Id::<Ref>::new(self.word(handle_word(owner, handle)))?;
        if self.get(found, reference::PROCESS) != Some(owner)
            || (need == Strength::Strong && self.get(found, reference::STRONG) == 0)
        {
            return None;
        }
        Some(found)
    }

    /// `owner`'s reference on a node, made when there is none, with one more count.
    pub(crate) fn inc_ref_for_node(
        &mut self,
        owner: Id<Process>,
        target: Id<Node>,
        strength: Strength,
        todo: Option<Id<Thread>>,
    ) -> Result<Id<Ref>, Errno> {
        let id = match self.ref_on_node(owner, target) {
            Some(id) => id,
            None => self.new_ref(owner, target)?,
        };
        self.inc_ref(id, strength, todo)?;
        Ok(id)
    }

    /// One more count on a reference.
    pub(crate) fn inc_ref(
        &mut self,
        id: Id<Ref>,
        strength: Strength,
        todo: Option<Id<Thread>>,
    ) -> Result<(), Errno> {
        let count = match strength {
            Strength::Strong => reference::STRONG,
            Strength::Weak => reference::WEAK,
        };
        if self.get(id, count) == 0
            && let Some(target) = self.get(id, reference::NODE)
        {
            self.inc_node(target, strength, true, todo)?;
        }
        self.add(id, count, 1);
        Ok(())
    }

    /// One count less on a reference; the handle goes with the last. Counts that are 0 stay 0.
    pub(crate) fn dec_ref(&mut self, id: Id<Ref>, strength: Strength) -> Result<(), Errno> {
        let count = match strength {
            Strength::Strong => reference::STRONG,
            Strength::Weak => reference::WEAK,
        };
        if self.get(id, count) == 0 {
            return Ok(());
        }
        if self.add(id, count, -1) == 0
            && strength == Strength::Strong
            && let Some(target) = self.get(id, reference::NODE)
        {
            self.dec_node(target, strength, true)?;
        }
        if self.get(id, reference::STRONG) == 0 && self.get(id, reference::WEAK) == 0 {
            self.drop_ref(id)?;
        }
        Ok(())
    }

    /// Takes a reference away, whatever its counts.
    pub(crate) fn drop_ref(&mut self, id: Id<Ref>) -> Result<(), Errno> {
        let handle = u64::from(self.get(id, reference::HANDLE));
        if let Some(owner) = self.get(id, reference::PROCESS) {
            self.set_word(handle_word(owner, handle), 0);
            if handle != 0 && handle < self.get(owner, process::HANDLE_HINT) {
                self.set(owner, process::HANDLE_HINT, handle);
            }
        }
        for asked in [reference::DEATH, reference::FREEZE] {
            if let Some(entry) = self.get(id, asked) {
                self.unqueue(entry);
                self.free(entry);
            }
        }
        if let Some(target) = self.get(id, reference::NODE) {
            // While the reference is still listed, losing the strong count cannot free the node.
            if self.get(id, reference::STRONG) != 0 {
                self.dec_node(target, Strength::Strong, true)?;
            }
            self.unlink(node::REFS.of(target), id, reference::NEXT, reference::PREV);
            self.dec_node(target, Strength::Weak, true)?;
        }
        self.free(id);
        Ok(())
    }

    fn ref_on_node(&self, owner: Id<Process>, target: Id<Node>) -> Option<Id<Ref>> {
        let mut next = self.get(target, node::REFS);
        while let Some(id) = self.step(next) {
            if self.get(id, reference::PROCESS) == Some(owner) {
                return Some(id);
            }
            next = self.get(id, reference::NEXT);
        }
        None
    }

    fn new_ref(&mut self, owner: Id<Process>, target: Id<Node>) -> Result<Id<Ref>, Errno> {
        // The lowest free handle; 0 is the context manager's for everybody, but not twice.
        let mut handle = 0;
        if self.context_manager() != Some(target) || self.word(handle_word(owner, 0)) != 0 {
            handle = self.get(owner, process::HANDLE_HINT).max(1);
            let is_free = |&handle: &u64| self.word(handle_word(owner, handle)) == 0;
            handle = (handle..HANDLES as u64).find(is_free).ok_or(Errno::NOMEM)?;
            self.set(owner, process::HANDLE_HINT, handle.saturating_add(1));
        }
        let id = self.alloc::<Ref>()?;
        self.init(id, reference::PROCESS, Some(owner));
        self.init(id, reference::NODE, Some(target));
        self.init(id, reference::HANDLE, handle as u32);
        self.link_front(node::REFS.of(target), id, reference::NEXT, reference::PREV);
        self.set_word(handle_word(owner, handle), id.index() as u64);
        if handle >= self.get(owner, process::HANDLE_END) {
            self.set(owner, process::HANDLE_END, handle.saturating_add(1));
        }
        Ok(id)
    }

    /// Asks to be told when the node behind `handle` dies. Ignored, as by the kernel, when that was asked already or
    /// there is no such handle.
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

    /// Takes such a request back.
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

    /// The owner of `id` has died: tells those who asked, and frees the node when nobody refers to it.
    pub(crate) fn release_node(&mut self, owner: Id<Process>, id: Id<Node>) {
        self.release_queue(node::ASYNC_TODO.queue(id));
        self.unlist_node(owner, id);
        self.dequeue_node_work(id);
        self.set(id, node::PROCESS, None);
        self.set(id, node::LOCAL_STRONG, 0);
        self.set(id, node::LOCAL_WEAK, 0);
        // What the owner was told stays noted, as in the kernel: whoever holds a weak handle may still pass it on.
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
