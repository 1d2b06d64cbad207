//! The context's lock, and the journal that makes each operation under it all-or-nothing.
//!
//! One lock (`mutex.rs`) guards all control words of a context. Before a word changes, its old
//! value is entered in an undo journal in the shared memory; [`Guard::commit`] empties the journal.
//! A thread that takes the lock and finds entries knows that the last owner died during an
//! operation, and undoes it.
//!
//! Rules: records that an operation frees become free only at its commit, so undoing never meets a
//! record that was reused. The only system calls under the lock are those of `priority.rs`, and of
//! `inbox.rs` for descriptors. Wake-ups are collected and sent after the unlock.

pub(crate) mod wake;

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::thread::futex;

use crate::records::{
    Field, Id, JOURNAL_AT, JOURNAL_ENTRIES, JOURNAL_LENGTH, LAST_NUMBER, Process, Record, STEPS, Thread, Word,
};
use crate::region::{End, Region};
use wake::Wake;

/// Memory that guards reuse, so that nothing is allocated under the lock in the steady state.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    wakes: Vec<Wake>,
    frees: Vec<(usize, u32, usize)>,
    sweeps: Vec<Id<Process>>,
}

/// The lock while this thread owns it. All control words are read and written through it.
pub(crate) struct Guard<'a> {
    region: &'a Region,
    scratch: &'a mut Scratch,
    journal: usize,
    held: bool,
    /// False if the context ended while this thread waited. Its changes then have no effect on
    /// others.
    owned: bool,
    /// See [`Guard::step`].
    steps: Cell<u32>,
}

impl<'a> Guard<'a> {
    /// Takes the lock, and undoes what a dead owner left unfinished.
    pub(crate) fn lock(region: &'a Region, scratch: &'a mut Scratch) -> Self {
        scratch.wakes.clear();
        scratch.frees.clear();
        scratch.sweeps.clear();
        let mut guard = Self { region, scratch, journal: 0, held: false, owned: false, steps: Cell::new(0) };
        guard.relock();
        guard
    }

    /// Takes the lock again after [`Guard::unlock`].
    pub(crate) fn relock(&mut self) {
        let mut wait = Wait::default();
        self.owned = self.region.mutex().lock(|| wait.is_over(self.region));
        self.held = true;
        self.steps.set(STEPS);
        let left = self.region.words()[JOURNAL_LENGTH].load(Relaxed) as usize;
        if left != 0 {
            self.journal = left.min(JOURNAL_ENTRIES);
            self.rollback(0);
            self.undo_last_policy();
        }
    }

    /// Ends the operation, releases the lock, and wakes the threads that got work.
    pub(crate) fn unlock(&mut self) {
        self.commit();
        self.held = false;
        if self.owned {
            self.region.mutex().unlock();
        }
        for claimed in self.scratch.wakes.drain(..) {
            wake::wake(self.region, &claimed);
        }
    }

    /// The shared memory, for areas.
    pub(crate) fn region(&self) -> &'a Region {
        self.region
    }

    /// Wakes `thread` after the unlock, if it sleeps.
    pub(crate) fn wake_later(&mut self, thread: Id<Thread>) {
        let claimed = wake::claim(self, thread, false);
        self.scratch.wakes.extend(claimed);
    }

    /// Like [`Guard::wake_later`], but on this CPU if possible: the calling thread is about to wait
    /// for `thread`, or has just served it.
    pub(crate) fn wake_here_later(&mut self, thread: Id<Thread>) {
        let claimed = wake::claim(self, thread, true);
        self.scratch.wakes.extend(claimed);
    }

    /// After the unlock, ends the wait of `waiter` for the reply lock that the calling thread owns.
    pub(crate) fn give_back_later(&mut self, waiter: Id<Thread>) {
        self.scratch.wakes.push(wake::give_back(waiter));
    }

    /// Makes `thread` look for work again after the unlock, even if another thread has claimed its
    /// wake-up.
    pub(crate) fn kick_later(&mut self, thread: Id<Thread>) {
        let kick = wake::kick(self, thread);
        self.scratch.wakes.extend(kick);
    }

    /// Notes that messages in the inbox of `slot` are no longer wanted. The owner of the lock asks
    /// the supervisor after the unlock.
    pub(crate) fn sweep_later(&mut self, slot: Id<Process>) {
        if !self.scratch.sweeps.contains(&slot) {
            self.scratch.sweeps.push(slot);
        }
    }

    /// Takes the inboxes that were noted.
    pub(crate) fn take_sweeps(&mut self) -> Vec<Id<Process>> {
        std::mem::take(&mut self.scratch.sweeps)
    }

    /// A number for a transaction. Not journalled: a number is never used twice, even if its
    /// transaction is undone.
    pub(crate) fn next_number(&mut self) -> u64 {
        let word = &self.region.words()[LAST_NUMBER];
        let number = word.load(Relaxed).wrapping_add(1).max(1);
        word.store(number, Relaxed);
        number
    }

    /// The next element of a list. `None` at its end, or after more elements since the lock was
    /// taken than can exist: a list that a participant turned into a ring must not hold a thread
    /// forever.
    #[inline]
    pub(crate) fn step<R>(&self, next: Option<Id<R>>) -> Option<Id<R>> {
        let left = self.steps.get().checked_sub(1)?;
        if next.is_some() {
            self.steps.set(left);
        }
        next
    }

    /// Whether [`Guard::step`] has ended a list early.
    pub(crate) fn is_tired(&self) -> bool {
        self.steps.get() == 0
    }

    /// Reads a control word by its number. An invalid number, which a participant may have written,
    /// reads as 0.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.region.words().get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// Changes a control word by its number, and enters the old value in the journal.
    #[inline]
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        let words = self.region.words();
        let Some(word) = words.get(at) else { return };
        if self.journal >= JOURNAL_ENTRIES {
            // Only an operation on a list that a participant turned into a ring gets here; there is
            // no consistent state to restore then.
            self.journal = 0;
        }
        let Some([entry, old]) = entry(self.region, self.journal) else { return };
        entry.store(at as u64, Relaxed);
        old.store(word.load(Relaxed), Relaxed);
        Region::order();
        self.journal = self.journal.saturating_add(1);
        words[JOURNAL_LENGTH].store(self.journal as u64, Relaxed);
        Region::order();
        word.store(value, Relaxed);
    }

    /// Reads a field.
    #[inline]
    pub(crate) fn get<R: Record, T: Word>(&self, id: Id<R>, field: Field<R, T>) -> T {
        T::from_word(self.word(field.of(id)))
    }

    /// Changes a field.
    #[inline]
    pub(crate) fn set<R: Record, T: Word>(&mut self, id: Id<R>, field: Field<R, T>, value: T) {
        self.set_word(field.of(id), value.to_word());
    }

    /// Sets a field of a record that was free when this operation began. Not journalled: undoing
    /// frees the record again, and no code reads the fields of a free record.
    #[inline]
    pub(crate) fn init<R: Record, T: Word>(&mut self, id: Id<R>, field: Field<R, T>, value: T) {
        if let Some(word) = self.region.words().get(field.of(id)) {
            word.store(value.to_word(), Relaxed);
        }
    }

    /// Adds to a count and returns the new value.
    pub(crate) fn add<R: Record>(&mut self, id: Id<R>, field: Field<R, u32>, change: i32) -> u32 {
        let value = self.get(id, field).saturating_add_signed(change);
        self.set(id, field, value);
        value
    }

    /// A zeroed record, or ENOMEM when the table is full.
    pub(crate) fn alloc<R: Record>(&mut self) -> Result<Id<R>, Errno> {
        let id = match Id::<R>::new(self.word(R::HEAD)) {
            Some(id) => {
                let next = self.word(id.words().start);
                self.set_word(R::HEAD, next);
                id
            }
            None => {
                let fresh = self.word(R::UNUSED).max(1);
                let id = Id::new(fresh).ok_or(Errno::NOMEM)?;
                self.set_word(R::UNUSED, fresh.saturating_add(1));
                id
            }
        };
        // Not journalled, as in `init`. Word 0, its link in the free list, is kept.
        let record = self.region.words().get(id.words()).unwrap_or_default();
        for word in record.iter().skip(1) {
            word.store(0, Relaxed);
        }
        Ok(id)
    }

    /// Frees a record at the end of the operation.
    pub(crate) fn free<R: Record>(&mut self, id: Id<R>) {
        self.scratch.frees.push((R::HEAD, id.index() as u32, id.words().start));
    }

    /// The current position of the operation, for [`Guard::rollback_to`].
    pub(crate) fn mark(&self) -> Mark {
        Mark { journal: self.journal, frees: self.scratch.frees.len() }
    }

    /// Undoes everything since `mark`, except wake-ups: a wake-up without work is harmless.
    pub(crate) fn rollback_to(&mut self, mark: Mark) {
        self.scratch.frees.truncate(mark.frees);
        self.rollback(mark.journal);
    }

    fn rollback(&mut self, to: usize) {
        let words = self.region.words();
        while let Some(last) = self.journal.checked_sub(1).filter(|&last| last >= to) {
            let Some([entry, old]) = entry(self.region, last) else { return };
            // An entry that a participant has overwritten must not lead outside the control words.
            if let Some(word) = words.get(entry.load(Relaxed) as usize) {
                word.store(old.load(Relaxed), Relaxed);
            }
            Region::order();
            self.journal = last;
            words[JOURNAL_LENGTH].store(self.journal as u64, Relaxed);
        }
    }

    /// The state is consistent: nothing before this point can be undone any more.
    pub(crate) fn commit(&mut self) {
        while let Some((head, index, link)) = self.scratch.frees.pop() {
            let next = self.word(head);
            self.set_word(link, next);
            self.set_word(head, u64::from(index));
        }
        if self.journal != 0 {
            Region::order();
            self.journal = 0;
            self.region.words()[JOURNAL_LENGTH].store(0, Relaxed);
        }
    }
}

/// After so many checks without progress, the supervisor is asked to check too.
const LOOKS_BEFORE_ASKING: u32 = 5;
/// After so many of its own checks, the supervisor ends the context.
const LOOKS_BEFORE_ENDING: u32 = 50;

/// A long wait for the lock.
///
/// A dead owner is found at once (`mutex.rs`). If an owner is alive and keeps the lock, it is
/// stopped, or the word is garbage and names a wrong owner. The two cases cannot be distinguished,
/// so no participant takes the lock from the owner or kills it. But if the supervisor has checked
/// often enough and the owner has made no progress, the context ends for all participants. It
/// counts its own checks, not the time, so a machine or a group of processes that was stopped as a
/// whole can continue.
#[derive(Default)]
struct Wait {
    /// The state at the last check: owner, transaction number, journal's length, takeovers.
    seen: Option<[u64; 4]>,
    looks: u32,
}

impl Wait {
    /// Checks once more. True if there is nothing left to wait for.
    #[cold]
    fn is_over(&mut self, region: &Region) -> bool {
        if region.ended().is_some() {
            return true;
        }
        let mutex = region.mutex();
        let owner = mutex.owner.load(Relaxed) & !futex::WAITERS;
        let word = |at: &AtomicU64| at.load(Relaxed);
        let words = region.words();
        let takeovers = mutex.takeovers.load(Relaxed);
        let now = [owner.into(), word(&words[LAST_NUMBER]), word(&words[JOURNAL_LENGTH]), takeovers.into()];
        if self.seen != Some(now) {
            (self.seen, self.looks) = (Some(now), 0);
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        if region.wakers().is_supervisor() {
            if self.looks >= LOOKS_BEFORE_ENDING {
                region.end(End::Stuck);
            }
        } else if self.looks.is_multiple_of(LOOKS_BEFORE_ASKING) {
            region.wakers().say_stuck();
        }
        region.ended().is_some()
    }
}

/// The two words of an entry of the journal: which word was changed, and what it held.
#[inline]
fn entry(region: &Region, index: usize) -> Option<&[AtomicU64; 2]> {
    let (entries, _) = region.words().get(JOURNAL_AT..)?.as_chunks();
    entries.get(index).filter(|_| index < JOURNAL_ENTRIES)
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.held {
            if std::thread::panicking() {
                self.rollback(0);
                self.scratch.frees.clear();
            }
            self.unlock();
        }
    }
}

/// A point that an operation can be undone to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    journal: usize,
    frees: usize,
}

#[cfg(test)]
mod tests;
