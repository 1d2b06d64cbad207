//! The descriptors of one transaction: sent with it, received with it, closed with its buffer.
//!
//! The order of checks follows the kernel's `binder_translate_fd` and `binder_apply_fd_fixups`
//! (`binder.c`). `descriptors` has the way they travel, `objects` the places of their numbers in
//! the data.

use std::os::fd::AsRawFd as _;

use rustix::io::Errno;

use crate::descriptors::Wanted;
use crate::inbox::Label;
use crate::ioctl::Ioctl;
use crate::records::{Buffer, Id, Process, Transaction, buffer, process, thread, transaction};
use crate::{objects, raw};

impl Ioctl<'_> {
    /// Adds descriptor `number` of this process to the transaction that is being sent.
    ///
    /// # Errors
    /// EPERM if its receiver accepts none, EBADF if it is not a valid descriptor.
    pub(crate) fn pass(&mut self, number: u32, accepted: bool) -> Result<(), Errno> {
        if !accepted {
            return Err(Errno::PERM);
        }
        self.sending.push(raw::borrow(number)?);
        Ok(())
    }

    /// Puts the descriptors of a complete transaction into its receiver's inbox. Nothing after this
    /// may fail.
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

    /// Asks the supervisor for what was found missing, if anything. True if another try makes
    /// sense: it is there now, or is no longer missing. Releases the lock meanwhile.
    pub(crate) fn fetch_wanted(&mut self) -> Result<bool, Errno> {
        let Some(wanted) = self.wanted.take() else { return Ok(false) };
        self.guard.unlock();
        let asked = self.descriptors.ask(wanted);
        self.guard.relock();
        match (asked, wanted) {
            (Err(_), Wanted::Outbox(receiver, generation)) if !self.guard.is_live(receiver, generation) => {
                // The next try reports that the receiver is dead.
                Ok(true)
            }
            (asked, _) => asked.map(|()| true),
        }
    }

    /// Opens a transaction's descriptors in this process, and writes their numbers into its buffer.
    /// False if that is impossible, or, if something is [`wanted`](Ioctl::wanted), not possible
    /// yet.
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
            // Inside the area, or it would not be among the places.
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

    /// The buffer at `offset` has been freed: its arrays' descriptors are closed after the unlock,
    /// and the thread then returns to its program, as with the kernel's driver.
    pub(crate) fn close_array_of(&mut self, offset: u64) {
        let ended = self.descriptors.received.take_array(offset);
        if !ended.is_empty() {
            self.closing.extend(ended);
            self.guard.set(self.thread, thread::NEED_RETURN, true);
        }
    }

    /// Does what is left to do after the unlock.
    pub(crate) fn finish(&mut self) {
        for slot in self.guard.take_sweeps() {
            self.descriptors.ask_to_sweep(slot);
        }
        self.closing.clear();
    }
}
