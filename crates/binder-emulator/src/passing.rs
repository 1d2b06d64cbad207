//! Descriptors of one transaction: sent along with it, received with it, closed with its buffer.
//!
//! The order of checks follows the kernel's `binder_translate_fd` and `binder_apply_fd_fixups`
//! (`binder.c`). How descriptors travel is `descriptors`'s business, where their numbers stand in
//! the data `objects`'s.

use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

use crate::descriptors::Wanted;
use crate::inbox::Label;
use crate::ioctl::Ioctl;
use crate::records::{Buffer, Id, Process, Transaction, buffer, process, thread, transaction};
use crate::{objects, raw};

impl Ioctl<'_> {
    /// The transaction that is being sent carries the descriptor `number` of this process.
    ///
    /// # Errors
    /// EPERM when its receiver accepts none, EBADF when it is none.
    pub(crate) fn pass(&mut self, number: u32, accepted: bool) -> Result<(), Errno> {
        if !accepted {
            return Err(Errno::PERM);
        }
        self.sending.push(raw::borrow(number)?);
        Ok(())
    }

    /// Puts the descriptors of a transaction that is ready into its receiver's inbox. What follows
    /// must not fail.
    pub(crate) fn post_descriptors(
        &mut self,
        receiver: Id<Process>,
        t: Id<Transaction>,
        number: u64,
    ) -> Result<(), Errno> {
        if self.sending.is_empty() {
            return Ok(());
        }
        let generation = self.guard.get(receiver, process::GENERATION);
        self.guard.set(t, transaction::FDS, self.sending.len() as u32);
        self.guard.set(t, transaction::FDS_NUMBER, number);
        match self.descriptors.post(receiver, generation, Label::of(number, t), &self.sending) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.wanted = Some(Wanted::Outbox(receiver, generation));
                Err(Errno::AGAIN)
            }
            Err(errno) => {
                self.guard.sweep_later(receiver);
                Err(errno)
            }
        }
    }

    /// Asks the keeper for what was found to be missing, if anything was. True when it is worth
    /// another try: it is there now, or is not missed any more. Lets go of the lock.
    pub(crate) fn fetch_wanted(&mut self) -> Result<bool, Errno> {
        let Some(wanted) = self.wanted.take() else { return Ok(false) };
        self.guard.unlock();
        let asked = self.descriptors.ask(wanted);
        self.guard.relock();
        match (asked, wanted) {
            (Err(_), Wanted::Outbox(receiver, generation)) if !self.guard.is_live(receiver, generation) => {
                // Whoever tries again is told that it is dead.
                Ok(true)
            }
            (asked, _) => asked.map(|()| true),
        }
    }

    /// Opens a transaction's descriptors in this process, and writes their numbers into its buffer.
    /// False when that cannot be, or, with something [`wanted`](Ioctl::wanted), not yet.
    pub(crate) fn receive_descriptors(&mut self, t: Id<Transaction>, held: Id<Buffer>) -> bool {
        let label = Label::of(self.guard.get(t, transaction::FDS_NUMBER), t);
        let Some(inbox) = self.descriptors.inbox() else {
            self.wanted = (!self.inbox_missing).then_some(Wanted::Inbox);
            return false;
        };
        let places = objects::descriptor_places(&self.guard, self.process, held);
        let count = self.guard.get(t, transaction::FDS) as usize;
        if places.len() != count {
            return false;
        }
        let Ok(fds) = inbox.take(&self.guard, label, count) else { return false };
        self.guard.set(t, transaction::FDS_NUMBER, 0);
        let mut ending_with_buffer = Vec::new();
        for (fd, place) in fds.into_iter().zip(places) {
            // Inside the area, or there would not have been as many places.
            let bytes = fd.as_raw_fd().to_ne_bytes();
            let _ = self.guard.region().write_area(self.process.index(), place.at, (&bytes).into());
            if place.in_array {
                ending_with_buffer.push(fd);
            } else {
                self.descriptors.received.add(fd);
            }
        }
        self.descriptors.received.add_array(self.guard.get(held, buffer::OFFSET), ending_with_buffer);
        true
    }

    /// The buffer at `offset` is free again: its arrays' descriptors end after the unlock, and the
    /// thread then goes back to its program, as with the kernel's driver.
    pub(crate) fn close_array_of(&mut self, offset: u64) {
        let ended = self.descriptors.received.take_array(offset);
        if !ended.is_empty() {
            self.closing.extend(ended);
            self.guard.set(self.thread, thread::NEED_RETURN, true);
        }
    }

    /// What is left to do when the lock is free.
    pub(crate) fn finish(&mut self) {
        for slot in self.guard.take_sweeps() {
            self.descriptors.ask_to_sweep(slot);
        }
        self.closing.clear();
    }
}
