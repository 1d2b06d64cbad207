//! Nodes: local objects, and the counts that others hold on them.
//!
//! The counting follows the kernel's `binder_inc_node`, `binder_dec_node` and `binder_ref`
//! functions (`binder.c`), since the returns that an owner sees (`BR_INCREFS`, `BR_ACQUIRE`, …)
//! depend on it.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::queue::Kind;
use crate::records::{
    CONTEXT_MANAGER, Id, Node, Process, Queue, Thread, Word, node, node_bucket, process, thread,
};
use roundtrip_binder_driver::NodeInfo;
use roundtrip_binder_driver::uapi::FlatBinderObject;

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

    /// The node of `owner` with this `ptr`.
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

    /// The node of `owner` with the smallest `ptr` above `after`.
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

    /// Removes a node from its owner's tables. The record stays.
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

    /// Adds one count to a node. `internal`: for a reference of another process. `todo`: the queue
    /// to notify the owner through, if that is the sender itself.
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

    /// Removes one count from a node, and frees the node when nothing refers to it.
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

    /// Checks whether a node's owner must be notified of references that have ended, as the kernel
    /// does whenever it stops using a node for a moment. Even if nothing has changed, the entry
    /// keeps its place in the queue.
    pub(crate) fn put_node(&mut self, id: Id<Node>) -> Result<(), Errno> {
        // Without these it may already be free.
        let has_references = self.get(id, node::HAS_STRONG) || self.get(id, node::HAS_WEAK);
        if has_references { self.dec_node(id, Strength::Weak, true) } else { Ok(()) }
    }

    /// Queues the entry that reports this node's references to its owner.
    fn queue_node_work(&mut self, id: Id<Node>, queue: Queue) -> Result<(), Errno> {
        let entry = self.push_new(queue, Kind::Node, id.index() as u64)?;
        self.set(id, node::WORK, Some(entry));
        Ok(())
    }

    /// Removes the queued report to the owner.
    pub(crate) fn dequeue_node_work(&mut self, id: Id<Node>) {
        if let Some(entry) = self.get(id, node::WORK) {
            self.unqueue(entry);
            self.free(entry);
            self.set(id, node::WORK, None);
        }
    }
}

#[cfg(test)]
mod tests;
