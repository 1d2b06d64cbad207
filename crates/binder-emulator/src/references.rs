//! References: the handles that a process holds on others' nodes, counted as by the kernel's
//! `binder_ref` functions (`binder.c`).

use rustix::io::Errno;

use crate::lock::Guard;
use crate::node::Strength;
use crate::records::{HANDLES, Id, Node, Process, Ref, Thread, handle_word, node, process, reference};

impl Guard<'_> {
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
        // The lowest free handle. Handle 0 is only for the context manager, once per process.
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
}
