//! File descriptors in transactions: how they get from one process to another.
//!
//! Each process that gets some has an *inbox* (`inbox.rs`): a pair of Unix sockets, made by the
//! keeper when it is first needed. A sender puts its descriptors into the receiver's inbox
//! (`SCM_RIGHTS`, unix(7)), labelled with the number of the transaction, as the last thing before
//! it queues that transaction; the receiver takes them out when it delivers it. Why so:
//!
//! - In between, the kernel itself holds the open files. So they outlive their sender, appear in
//!   the receiver's table only when it reads (as with the kernel's driver), and go with the inbox
//!   when the receiver dies.
//! - No number of another process is ever used, no right to trace it is needed (`pidfd_getfd` needs
//!   one, and a sender that still lives), and the sockets have no name.
//! - The keeper takes no part in a transfer: it hands each sender the end of an inbox once. Nothing
//!   here is reached by a call without descriptors.
//!
//! Both steps are taken under the context's lock, so a label that names no undelivered transaction
//! is that of one that was undone (its sender was killed, or could not finish) or superseded.
//! Whoever meets such a message drops it, and the keeper looks for them when a process has died or
//! asks for it: a kill at any instruction leaves no file open.
//!
//! Limits that the kernel's driver does not have: an inbox holds some hundred undelivered
//! transactions, a user some descriptors in flight (`RLIMIT_NOFILE`, unix(7)), and an `io_uring`
//! cannot be sent. What exceeds them is refused.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock};

use binder_driver::ReceivedFds;
use rustix::io::Errno;

use crate::inbox::{Inbox, Label, Outbox};
use crate::keeper_line::{Request, ToKeeper, ask, locked};
use crate::records::{Id, Process};

/// What a thread needs before it can go on, and must ask the keeper for without holding the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The own inbox.
    Inbox,
    /// The end that is written to of the inbox of the process that has this generation of a slot.
    Outbox(Id<Process>, u64),
}

/// What a process knows of inboxes and of the descriptors that it was given, in its own memory.
#[derive(Debug)]
pub(crate) struct Descriptors {
    keeper: ToKeeper,
    inbox: OnceLock<Inbox>,
    /// By slot: the generation of the process in it, and the way into its inbox.
    outboxes: Mutex<HashMap<usize, (u64, Outbox)>>,
    /// What was opened for this process: the numbers in the area may be anything. Buffers are named
    /// by their offset there.
    pub(crate) received: ReceivedFds,
}

impl Descriptors {
    pub(crate) fn new(keeper: ToKeeper) -> Self {
        Self { keeper, inbox: OnceLock::new(), outboxes: Mutex::default(), received: ReceivedFds::default() }
    }

    /// Asks the keeper. Must not be called under the context's lock: the keeper may be waiting for
    /// that.
    pub(crate) fn ask(&self, wanted: Wanted) -> Result<(), Errno> {
        let mut ends = match wanted {
            Wanted::Inbox => ask(&self.keeper, Request::Inbox, 0)?,
            Wanted::Outbox(slot, _) => ask(&self.keeper, Request::Outbox, slot.index() as u8)?,
        }
        .into_iter();
        match (wanted, ends.next(), ends.next()) {
            // Another thread may have been faster; both got the same.
            (Wanted::Inbox, Some(read), Some(write)) => drop(self.inbox.set(Inbox::of(read, write))),
            (Wanted::Outbox(slot, generation), Some(write), _) => {
                locked(&self.outboxes).insert(slot.index(), (generation, Outbox::of(write)));
            }
            // This process or the keeper has too many descriptors open, or the other process has
            // just gone.
            _ => return Err(Errno::MFILE),
        }
        Ok(())
    }

    /// Asks the keeper to drop what nobody will take out of the inbox of `slot`.
    pub(crate) fn ask_to_sweep(&self, slot: Id<Process>) {
        // Without a keeper there is no context any more, and its inboxes go with it.
        let _ = locked(&self.keeper).write_all(&[Request::Sweep as u8, slot.index() as u8]);
    }

    /// Puts a transaction's descriptors into an inbox. `Ok(false)` when the way into it must be
    /// asked for first.
    ///
    /// # Errors
    /// ENOSPC when the inbox is full, else as sendmsg(2). Some may be in it then: it must be swept.
    pub(crate) fn post(
        &self,
        slot: Id<Process>,
        generation: u64,
        label: Label,
        fds: &[BorrowedFd<'_>],
    ) -> Result<bool, Errno> {
        let outboxes = locked(&self.outboxes);
        match outboxes.get(&slot.index()) {
            Some((known, outbox)) if *known == generation => outbox.post(label, fds).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The own inbox, once it was asked for.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.get()
    }
}
