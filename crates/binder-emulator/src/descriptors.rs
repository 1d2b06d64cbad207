//! File descriptors in transactions: how they travel from one process to another.
//!
//! Each process that receives some has an *inbox* (`inbox.rs`): a pair of Unix sockets, which the
//! supervisor makes on first use. Just before a sender queues a transaction, it puts the
//! descriptors into the receiver's inbox (`SCM_RIGHTS`, unix(7)), labelled with the transaction's
//! number. The receiver takes them out when it delivers the transaction. The reasons:
//!
//! - In between, the kernel itself holds the open files. So they outlive their sender, appear in
//!   the receiver's table only when it reads (as with the kernel's driver), and are closed with the
//!   inbox when the receiver dies.
//! - No process uses another's descriptor numbers or needs the right to trace it (`pidfd_getfd`
//!   needs that, and a sender that still lives). The sockets have no name.
//! - The supervisor takes no part in a transfer: it gives each sender the end of an inbox once. A
//!   call without descriptors runs none of this code.
//!
//! Both steps happen under the context's lock. So a label without an undelivered transaction
//! belongs to one that was undone (its sender was killed, or could not finish) or superseded. Any
//! reader that meets such a message drops it, and the supervisor looks for them when a process has
//! died or asks for it. A kill at any instruction therefore leaves no file open.
//!
//! Limits that the kernel's driver does not have: an inbox holds a few hundred undelivered
//! transactions, a user may have a limited number of descriptors in flight (`RLIMIT_NOFILE`,
//! unix(7)), and an `io_uring` cannot be sent. Anything beyond is refused.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock};

use roundtrip_binder_driver::ReceivedFds;
use rustix::io::Errno;

use crate::inbox::{Inbox, Label, Outbox};
use crate::records::{Id, Process};
use crate::supervisor_line::{Request, ToSupervisor, ask, locked};

/// What a thread must request from the supervisor, without holding the lock, before it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its own process's inbox.
    Inbox,
    /// The write end of the inbox of the process that has this generation of a slot.
    Outbox(Id<Process>, u64),
}

/// What a process knows of inboxes and of the descriptors that it has received, in its own memory.
#[derive(Debug)]
pub(crate) struct Descriptors {
    supervisor: ToSupervisor,
    inbox: OnceLock<Inbox>,
    /// By slot: the generation of the process in it, and the write end of its inbox.
    outboxes: Mutex<HashMap<usize, (u64, Outbox)>>,
    /// The descriptors opened for this process, by the offset of their buffer in the area. The
    /// numbers in the area itself cannot be trusted.
    pub(crate) received: ReceivedFds,
}

impl Descriptors {
    pub(crate) fn new(supervisor: ToSupervisor) -> Self {
        Self {
            supervisor,
            inbox: OnceLock::new(),
            outboxes: Mutex::default(),
            received: ReceivedFds::default(),
        }
    }

    /// Asks the supervisor. Must not be called under the context's lock, which the supervisor may
    /// be waiting for.
    pub(crate) fn ask(&self, wanted: Wanted) -> Result<(), Errno> {
        let mut ends = match wanted {
            Wanted::Inbox => ask(&self.supervisor, Request::Inbox, 0)?,
            Wanted::Outbox(slot, _) => ask(&self.supervisor, Request::Outbox, slot.index() as u8)?,
        }
        .into_iter();
        match (wanted, ends.next(), ends.next()) {
            // Another thread may have been faster; both got the same.
            (Wanted::Inbox, Some(read), Some(write)) => drop(self.inbox.set(Inbox::of(read, write))),
            (Wanted::Outbox(slot, generation), Some(write), _) => {
                locked(&self.outboxes).insert(slot.index(), (generation, Outbox::of(write)));
            }
            // This process or the supervisor has too many descriptors open, or the other process
            // has just gone.
            _ => return Err(Errno::MFILE),
        }
        Ok(())
    }

    /// Asks the supervisor to drop messages in the inbox of `slot` that no process will take.
    pub(crate) fn ask_to_sweep(&self, slot: Id<Process>) {
        // Without a supervisor the context has ended, and its inboxes with it.
        let _ = locked(&self.supervisor).write_all(&[Request::Sweep as u8, slot.index() as u8]);
    }

    /// Puts a transaction's descriptors into an inbox. `Ok(false)` if its write end must be
    /// requested first.
    ///
    /// # Errors
    /// ENOSPC when the inbox is full, else as sendmsg(2). Some descriptors may already be in it
    /// then, so it must be swept.
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

    /// This process's own inbox, if it was requested.
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.get()
    }
}
