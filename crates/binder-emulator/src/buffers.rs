//! Buffers in use: filled outside the lock, released with what they hold, freed by their receiver,
//! superseded by an update.
//!
//! Follows the kernel's `binder_free_buf` and `binder_transaction_buffer_release` (`binder.c`).
//! `allocation.rs` decides which part of an area a buffer gets.

use crate::lock::Guard;
use crate::node::Strength;
use crate::objects;
use crate::process::{FREE, LEFT, LIVE};
use crate::records::{
    Buffer, Id, Node, Process, Thread, Transaction, Work, buffer, node, process, thread, transaction, work,
};
use crate::transaction::Refusal;

impl Guard<'_> {
    /// The calling thread is about to write to a buffer without holding the lock.
    pub(crate) fn start_fill(&mut self, by: Id<Thread>, owner: Id<Process>, filled: Id<Buffer>) {
        self.set(by, thread::FILLING, Some(filled));
        self.set(filled, buffer::FILLING, true);
        self.add(owner, process::FILLS, 1);
    }

    /// The write has finished. `BR_DEAD_REPLY` if the receiver has gone meanwhile.
    pub(crate) fn end_fill(
        &mut self,
        by: Id<Thread>,
        owner: Id<Process>,
        filled: Id<Buffer>,
    ) -> Result<(), Refusal> {
        self.set(by, thread::FILLING, None);
        self.set(filled, buffer::FILLING, false);
        let left = self.add(owner, process::FILLS, -1);
        match self.get(owner, process::STATE) {
            LIVE => return Ok(()),
            LEFT => {
                self.free(filled);
                if left == 0 {
                    self.set(owner, process::STATE, FREE);
                }
            }
            // It died while closing; the supervisor has not reached this buffer yet.
            _ => {}
        }
        self.commit();
        Err(Refusal::DEAD)
    }

    /// The thread that was filling a buffer has died.
    pub(crate) fn abandon_fill(&mut self, by: Id<Thread>, filled: Id<Buffer>) {
        if let Some(owner) = self.get(filled, buffer::PROCESS)
            && self.end_fill(by, owner, filled).is_ok()
        {
            self.release_buffer(owner, filled);
        }
    }

    /// Drops what a buffer holds (its objects' references, the count on its target) and gives it
    /// back to the area.
    pub(crate) fn release_buffer(&mut self, owner: Id<Process>, returned: Id<Buffer>) {
        objects::release(self, owner, returned);
        if let Some(target) = self.get(returned, buffer::TARGET)
            && self.get(target, node::PROCESS).is_some()
        {
            // Only a full table can fail here; the owner then gets no notification.
            let _ = self.dec_node(target, Strength::Strong, false);
        }
        self.free_buffer(owner, returned);
    }

    /// Removes a queued oneway transaction to `node` that `newer` replaces: one from the same real
    /// process, with the same method and flags (the kernel's `binder_can_update_transaction`).
    pub(crate) fn drop_outdated(&mut self, owner: Id<Process>, node: Id<Node>, newer: Id<Transaction>) {
        let key = |guard: &Self, t: Id<Transaction>| {
            let sender = guard.get(t, transaction::BUFFER).map(|held| guard.get(held, buffer::SENDER));
            (guard.get(t, transaction::CODE), guard.get(t, transaction::FLAGS), sender)
        };
        let wanted = key(self, newer);
        let mut next = self.front(node::ASYNC_TODO.queue(node));
        while let Some(entry) = self.step(next) {
            next = self.get(entry, work::NEXT);
            let Some(t) = self.transaction_of(entry).filter(|&t| key(self, t) == wanted) else { continue };
            self.unqueue(entry);
            self.free(entry);
            let held = self.get(t, transaction::BUFFER);
            self.detach_buffer(t);
            self.drop_transaction(t);
            if let Some(held) = held {
                self.release_buffer(owner, held);
            }
            return;
        }
    }

    /// `BC_FREE_BUFFER`: also releases the next oneway transaction of its node. Does nothing and
    /// returns false if no delivered buffer has this address, which the kernel ignores too.
    pub(crate) fn user_frees_buffer(&mut self, owner: Id<Process>, offset: u64) -> bool {
        let Some(returned) = self.find_buffer(owner, offset) else { return false };
        if !self.get(returned, buffer::USER_MAY_FREE) {
            return false;
        }
        self.set(returned, buffer::USER_MAY_FREE, false);
        if let Some(t) = self.get(returned, buffer::TRANSACTION) {
            self.detach_buffer(t);
        }
        if let (true, Some(target)) =
            (self.get(returned, buffer::IS_ASYNC), self.get(returned, buffer::TARGET))
        {
            match self.front(node::ASYNC_TODO.queue(target)) {
                None => self.set(target, node::HAS_ASYNC, false),
                Some(next) => {
                    self.unqueue(next);
                    self.push(process::TODO.queue(owner), next);
                    self.wake_process(owner);
                }
            }
        }
        self.release_buffer(owner, returned);
        true
    }

    /// The entry's transaction.
    pub(crate) fn transaction_of(&self, entry: Id<Work>) -> Option<Id<Transaction>> {
        Id::new(self.get(entry, work::PAYLOAD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Sizes;
    use crate::lock::Scratch;
    use crate::region::Region;

    #[test]
    fn the_last_thread_that_fills_a_buffer_of_a_closed_process_frees_its_slot() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let owner = Id::<Process>::new(1).expect("a slot");
        let senders = [1, 2].map(|index| Id::<Thread>::new(index).expect("an index"));
        guard.open_area(owner, 64 << 10).expect("a buffer");
        guard.set(owner, process::STATE, LIVE);
        let filled = senders.map(|by| {
            let sizes = Sizes { data: 8192, offsets: 0, extra: 0 };
            let taken = guard.alloc_buffer(owner, sizes, None).expect("room");
            guard.start_fill(by, owner, taken);
            taken
        });
        assert!(guard.end_fill(senders[0], owner, filled[0]) == Ok(()));
        guard.start_fill(senders[0], owner, filled[0]);
        guard.set(owner, process::STATE, LEFT);
        assert!(guard.end_fill(senders[0], owner, filled[0]) == Err(Refusal::DEAD));
        assert_eq!(guard.get(owner, process::STATE), LEFT, "one still writes there");
        assert!(guard.end_fill(senders[1], owner, filled[1]) == Err(Refusal::DEAD));
        assert_eq!(guard.get(owner, process::STATE), FREE);
    }

    #[test]
    fn a_buffer_that_a_thread_was_filling_when_it_died_is_freed() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let owner = Id::<Process>::new(1).expect("a slot");
        let by = guard.alloc::<Thread>().expect("a record");
        guard.open_area(owner, 64 << 10).expect("a buffer");
        guard.set(owner, process::STATE, LIVE);
        let sizes = Sizes { data: 8192, offsets: 0, extra: 0 };
        let taken = guard.alloc_buffer(owner, sizes, None).expect("room");
        guard.start_fill(by, owner, taken);
        guard.unlock();
        guard.relock();
        assert_eq!(guard.free_bytes(owner), 56 << 10);
        guard.release_thread(Id::new(2).expect("a slot"), by);
        assert_eq!(guard.free_bytes(owner), 64 << 10);
        assert_eq!(guard.get(owner, process::FILLS), 0);
    }
}
