//! Processes: opened devices, and what happens to everything they hold when one closes or dies.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::records::{
    Buffer, CONTEXT_MANAGER, HANDLES, Id, PROCESSES, Process, buffer, node, process, start_word, thread,
};
use crate::sleep;

/// The slot can be taken.
pub(crate) const FREE: u32 = 0;
/// A process uses it.
pub(crate) const LIVE: u32 = 1;
/// The process is leaving, and releases what it holds.
pub(crate) const GONE: u32 = 2;
/// The process has closed, and has woken all threads that waited for it. The supervisor frees the
/// slot when the connection ends.
pub(crate) const CLOSED: u32 = 3;
/// The process has gone; senders are still copying into its area. The last of them frees the slot.
pub(crate) const LEFT: u32 = 4;

impl Guard<'_> {
    /// Takes a slot for a process.
    pub(crate) fn new_process(&mut self, pid: i32) -> Result<Id<Process>, Errno> {
        let free = (1..PROCESSES as u64)
            .filter_map(Id::<Process>::new)
            .find(|&slot| self.get(slot, process::STATE) == FREE)
            .ok_or(Errno::USERS)?;
        let generation = self.get(free, process::GENERATION).wrapping_add(1);
        for word in free.words().skip(1) {
            self.set_word(word, 0);
        }
        self.set(free, process::GENERATION, generation);
        self.set(free, process::PID, pid);
        self.set(free, process::STATE, LIVE);
        Ok(free)
    }

    /// Whether the process that has, or had, this generation of a slot still uses the context.
    pub(crate) fn is_live(&self, slot: Id<Process>, generation: u64) -> bool {
        self.get(slot, process::GENERATION) == generation && self.get(slot, process::STATE) == LIVE
    }

    /// Releases everything that a process holds and that others hold of it: its threads, nodes,
    /// handles, buffers. Committed in steps, each of which can be repeated: if the process dies
    /// here itself, the supervisor does the rest.
    pub(crate) fn release_process(&mut self, gone: Id<Process>) {
        if self.get(gone, process::STATE) == LIVE {
            self.set(gone, process::STATE, GONE);
            if let Some(manager) = self.context_manager()
                && self.get(manager, node::PROCESS) == Some(gone)
            {
                self.set_word(CONTEXT_MANAGER, 0);
            }
            self.commit();
        }
        while let Some(id) = self.step(self.get(gone, process::THREADS_HEAD)) {
            sleep::reset(self.region(), id);
            self.release_thread(gone, id);
            self.commit();
        }
        while let Some(id) = self.step(self.get(gone, process::NODES)) {
            self.release_node(gone, id);
            self.commit();
        }
        for handle in 0..self.get(gone, process::HANDLE_END).min(HANDLES as u64) {
            if let Some(id) = self.find_ref(gone, handle, super::node::Strength::Weak) {
                // Only a full table can fail here; the reference is gone all the same.
                let _ = self.drop_ref(id);
                self.commit();
            }
        }
        self.release_queue(process::TODO.queue(gone));
        self.release_queue(process::DELIVERED.queue(gone));
        self.release_queue(process::FREEZE_DELIVERED.queue(gone));
        self.commit();
        let mut next = self.get(gone, process::BUFFERS);
        while let Some(id) = self.step(next) {
            next = self.get(id, buffer::NEXT);
            self.forget_buffer(gone, id);
            self.set(gone, process::BUFFERS, next);
            self.commit();
        }
        if self.get(gone, process::FILLS) != 0 {
            self.set(gone, process::STATE, LEFT);
        }
        self.commit();
    }

    /// A process closes: it releases everything, and only then marks itself closed. If it
    /// dies before it has woken all threads that waited for it, the supervisor does the rest.
    pub(crate) fn close_process(&mut self, closing: Id<Process>) {
        let generation = self.get(closing, process::GENERATION);
        self.release_process(closing);
        self.unlock();
        self.relock();
        // The last sender that was copying into its area may have freed the slot meanwhile.
        if self.get(closing, process::GENERATION) == generation && self.get(closing, process::STATE) == GONE {
            self.set(closing, process::STATE, CLOSED);
        }
    }

    /// A process's connection has ended: none of its threads can touch the memory any more.
    pub(crate) fn bury_process(&mut self, dead: Id<Process>) {
        match self.get(dead, process::STATE) {
            FREE => {}
            CLOSED => self.set(dead, process::STATE, FREE),
            // Also one that died while closing, with part of the work done.
            _ => {
                self.release_process(dead);
                if self.get(dead, process::STATE) == GONE {
                    self.set(dead, process::STATE, FREE);
                }
                self.kick_everyone();
            }
        }
    }

    /// A buffer of a process that is gone.
    fn forget_buffer(&mut self, gone: Id<Process>, id: Id<Buffer>) {
        self.set_word(start_word(gone, self.get(id, buffer::OFFSET)), 0);
        if let Some(t) = self.get(id, buffer::TRANSACTION) {
            self.detach_buffer(t);
        }
        // The sender that fills it frees the record when it sees that the process has gone.
        if !self.get(id, buffer::FILLING) {
            self.free(id);
        }
    }

    /// Makes all threads of the context look for work again: after a death, wake-ups may be
    /// missing.
    pub(crate) fn kick_everyone(&mut self) {
        for slot in (1..PROCESSES as u64).filter_map(Id::<Process>::new) {
            if self.get(slot, process::STATE) == LIVE {
                self.for_each_thread(slot, Guard::kick_later);
            }
        }
    }

    /// Makes all threads of a process return from their waits. A polling thread stays asleep, and
    /// notices it later (`binder_deferred_flush`).
    pub(crate) fn interrupt(&mut self, owner: Id<Process>) {
        self.for_each_thread(owner, |guard, id| {
            guard.set(id, thread::NEED_RETURN, true);
            guard.stop_waiting(owner, id);
            if !guard.get(id, thread::POLLS) {
                guard.wake_later(id);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Scratch;
    use crate::records::Thread;
    use crate::region::Region;
    use crate::sleep_word::GOES_TO_SLEEP;

    #[test]
    fn a_process_that_closes_leaves_its_slot_to_the_supervisor() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let sleeps = |guard: &mut Guard<'_>, of: Id<Process>| {
            let sleeper = Id::<Thread>::new(9).expect("an index");
            guard.set(of, process::THREADS_HEAD, Some(sleeper));
            region.sleep_word(9).reset();
            region.sleep_word(9).set_out(GOES_TO_SLEEP);
        };
        let other = guard.new_process(1).expect("a slot");
        let closing = guard.new_process(2).expect("a slot");
        assert_ne!(closing, other);
        guard.open_area(closing, 4096).expect("a buffer");
        guard.close_process(closing);
        assert_eq!(guard.get(closing, process::STATE), CLOSED);
        sleeps(&mut guard, other);
        for _ in 0..2 {
            guard.bury_process(closing);
            assert_eq!(guard.get(closing, process::STATE), FREE);
            assert!(region.sleep_word(9).is_asleep(), "the closing process has woken all waiters itself");
        }
        // A sender still writes to its area.
        let next = guard.new_process(3).expect("a slot");
        assert_eq!(next, closing, "the first free one");
        guard.open_area(next, 4096).expect("a buffer");
        guard.set(next, process::FILLS, 1);
        guard.close_process(next);
        assert_eq!(guard.get(next, process::STATE), LEFT);
        guard.bury_process(next);
        assert_eq!(guard.get(next, process::STATE), LEFT, "its last writer frees it");
        // One that was killed: wake-ups may be missing.
        let killed = guard.new_process(4).expect("a slot");
        guard.open_area(killed, 4096).expect("a buffer");
        sleeps(&mut guard, other);
        guard.bury_process(killed);
        assert_eq!(guard.get(killed, process::STATE), FREE);
        assert!(!region.sleep_word(9).is_asleep(), "it looks for work");
    }

    #[test]
    fn a_slot_is_identified_by_its_generation() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let slot = guard.new_process(1).expect("a slot");
        let generation = guard.get(slot, process::GENERATION);
        guard.set(slot, process::MAX_THREADS, 7);
        assert!(guard.is_live(slot, generation) && !guard.is_live(slot, generation + 1));
        guard.set(slot, process::STATE, CLOSED);
        assert!(!guard.is_live(slot, generation));
        guard.set(slot, process::STATE, FREE);
        assert_eq!(guard.new_process(2), Ok(slot));
        assert_eq!(guard.get(slot, process::GENERATION), generation + 1);
        assert_eq!(guard.get(slot, process::MAX_THREADS), 0, "nothing of the last one");
        assert!(guard.is_live(slot, generation + 1) && !guard.is_live(slot, generation));
    }
}
