//! Sending: a transaction or reply, from the sender's memory into the receiver's area and its
//! queue.
//!
//! The order of checks and the returns of each refusal follow the kernel's `binder_transaction`
//! (`binder.c`).

mod fill;
mod refusal;
mod reply;

use rustix::io::Errno;

use crate::ioctl::Ioctl;
use crate::node::Strength;
use crate::queue::Kind;
use crate::records::{
    Buffer, Id, Node, Process, Thread, Transaction, Work, buffer, node, process, reference, thread,
    transaction,
};
use crate::{inheritance, priority};
use fill::{Filled, Target};
pub(crate) use refusal::Refusal;
use roundtrip_binder_driver::Profile;
use roundtrip_binder_driver::uapi::{
    FLAT_BINDER_FLAG_ACCEPTS_FDS, FLAT_BINDER_FLAG_TXN_SECURITY_CTX, TF_ONE_WAY, TF_UPDATE_TXN,
    TransactionDataSg,
};

impl Ioctl<'_> {
    /// `BC_TRANSACTION[_SG]`.
    pub(crate) fn transaction(&mut self, data: &TransactionDataSg) {
        let number = self.begin();
        while let Err(refusal) = self.try_transaction(data, number) {
            let refusal = match self.fetch_wanted() {
                Ok(true) => continue,
                Ok(false) => refusal,
                Err(errno) => errno.into(),
            };
            self.guard.note_refusal(self.thread, number, refusal);
            return self.refuse(refusal.number);
        }
    }

    /// Begins a transaction: returns its number, and clears the thread's extended error of the one
    /// before.
    pub(super) fn begin(&mut self) -> u64 {
        let number = self.guard.next_number();
        // Not journalled: a dead thread's extended error is never read.
        self.guard.init(self.thread, thread::ERROR_NUMBER, number);
        if self.guard.get(self.thread, thread::ERROR_RETURN) != 0 {
            self.guard.init(self.thread, thread::ERROR_RETURN, 0);
            self.guard.init(self.thread, thread::ERROR_PARAM, 0);
        }
        number
    }

    pub(super) fn refuse(&mut self, error: u32) {
        self.guard.set(self.thread, thread::RETURN_ERROR, error);
        self.guard.push_error(self.thread, Kind::ReturnError);
    }

    fn try_transaction(&mut self, data: &TransactionDataSg, number: u64) -> Result<(), Refusal> {
        let oneway = data.flags & TF_ONE_WAY != 0;
        let target = self.resolve(data)?;
        // The node must outlive the call: the buffer holds a strong count on it.
        let mark = self.guard.mark();
        let filled = match self.fill(target, data, oneway) {
            Ok(filled) => filled,
            Err(refusal) => {
                self.guard.rollback_to(mark);
                return Err(refusal);
            }
        };
        let mark = self.guard.mark();
        let sent = self.send(target, filled, data, number, oneway);
        if let Err(refusal) = sent {
            self.guard.rollback_to(mark);
            self.guard.release_buffer(target.process, filled.buffer);
            if refusal == Refusal::FROZEN {
                self.guard.set(target.process, process::CALLS_REFUSED, true);
            }
        }
        sent
    }

    /// The target of a transaction.
    fn resolve(&self, data: &TransactionDataSg) -> Result<Target, Refusal> {
        let guard = &self.guard;
        let handle = data.target & 0xffff_ffff;
        let target = if handle == 0 {
            guard.context_manager().ok_or(Refusal::dead(Errno::INVAL))?
        } else {
            let held = guard.find_ref(self.process, handle, Strength::Strong).ok_or(Errno::INVAL)?;
            guard.get(held, reference::NODE).ok_or(Errno::INVAL)?
        };
        let owner = guard.get(target, node::PROCESS).ok_or(Refusal::dead(Errno::INVAL))?;
        if handle == 0 && owner == self.process {
            return Err(Errno::INVAL.into());
        }
        let mut thread = None;
        if data.flags & TF_ONE_WAY == 0 {
            // A call while a transaction waits to be read would deadlock.
            let first = guard.front(thread::TODO.queue(self.thread));
            if first.is_some_and(|first| guard.kind(first) == Some(Kind::Transaction)) {
                return Err(Errno::PROTO.into());
            }
            thread = self.waiting_caller(owner)?;
        }
        let flags = guard.get(target, node::FLAGS);
        if flags & FLAT_BINDER_FLAG_TXN_SECURITY_CTX != 0 {
            // As in a kernel where no security module names its callers
            // (`security_secid_to_secctx`).
            return Err(Errno::OPNOTSUPP.into());
        }
        let accepts_descriptors = flags & FLAT_BINDER_FLAG_ACCEPTS_FDS != 0;
        Ok(Target { process: owner, thread, node: Some(target), accepts_descriptors })
    }

    /// The thread of `owner` that waits, directly or not, for the calling thread: a nested call
    /// goes back to it.
    fn waiting_caller(&self, owner: Id<Process>) -> Result<Option<Id<Thread>>, Refusal> {
        let guard = &self.guard;
        let Some(top) = guard.get(self.thread, thread::STACK) else { return Ok(None) };
        if guard.get(top, transaction::TO_THREAD) != Some(self.thread) {
            return Err(Errno::PROTO.into());
        }
        let mut next = Some(top);
        while let Some(t) = guard.step(next) {
            if let Some(from) = guard.get(t, transaction::FROM)
                && guard.get(from, thread::PROCESS) == Some(owner)
            {
                return Ok(Some(from));
            }
            next = guard.get(t, transaction::FROM_PARENT);
        }
        Ok(None)
    }

    /// Translates the objects and queues the transaction.
    fn send(
        &mut self,
        target: Target,
        filled: Filled,
        data: &TransactionDataSg,
        number: u64,
        oneway: bool,
    ) -> Result<(), Refusal> {
        self.translate_filled(target, filled, data)?;
        let node = target.node.ok_or(Errno::INVAL)?;
        // Asked again: the waiting thread may have left while the data was copied outside the lock.
        let waiting = if target.thread.is_some() { self.waiting_caller(target.process)? } else { None };
        let t = self.new_transaction(target.process, filled.buffer, data)?;
        let complete = self.guard.new_work(self.completion(target.process, filled.buffer, oneway), 0)?;
        let call = self.guard.new_work(Kind::Transaction, t.index() as u64)?;
        self.guard.init(t, transaction::NEED_REPLY, !oneway);
        if !oneway && self.guard.get(target.process, process::FROZEN) {
            return Err(Refusal::FROZEN);
        }
        self.post_descriptors(target.process, t, number)?;
        if oneway {
            self.guard.push_thread_work(self.thread, complete);
            self.deliver_oneway(node, target.process, t, call);
            return Ok(());
        }
        if let Some(own) = priority::of_caller(self.profile) {
            let inherited = inheritance::serves_at().filter(|inherited| inherited.level < own.level);
            self.guard.init(t, transaction::PRIORITY, inherited.unwrap_or(own).to_word());
            self.guard.init(t, transaction::INHERIT_BY, self.inherit_by as u32);
            if self.profile == Profile::Ack {
                // What this thread runs at now, should a nested call come back to it.
                self.guard.set(self.thread, thread::PRIORITY, own.to_word());
            }
        }
        // Deferred: the sender reads it together with the reply.
        self.guard.push(thread::TODO.queue(self.thread), complete);
        let parent = self.guard.get(self.thread, thread::STACK);
        self.guard.init(t, transaction::FROM, Some(self.thread));
        self.guard.init(t, transaction::FROM_PARENT, parent);
        self.guard.set(self.thread, thread::STACK, Some(t));
        match waiting.or_else(|| self.guard.select_thread(target.process)) {
            Some(server) => {
                if self.profile == Profile::Ack {
                    let flags = self.guard.get(node, node::FLAGS);
                    self.guard.inherit_priority(self.profile, t, flags, server);
                }
                self.guard.push_thread_work(server, call);
                self.guard.wake_here_later(server);
            }
            None => {
                self.guard.push(process::TODO.queue(target.process), call);
                self.guard.wake_pollers(target.process);
                if self.profile == Profile::Ack {
                    let flags = self.guard.get(node, node::FLAGS);
                    self.guard.boost_looper_early(t, flags, target.process);
                }
            }
        }
        Ok(())
    }

    /// The return for the sender of an accepted transaction.
    fn completion(&self, receiver: Id<Process>, filled: Id<Buffer>, oneway: bool) -> Kind {
        match oneway {
            true if self.guard.get(receiver, process::FROZEN) => Kind::CompletePending,
            true if self.guard.get(filled, buffer::SUSPECT) => Kind::CompleteSuspect,
            _ => Kind::Complete,
        }
    }

    /// A oneway transaction: one at a time for each node, in their order.
    fn deliver_oneway(&mut self, node: Id<Node>, owner: Id<Process>, t: Id<Transaction>, call: Id<Work>) {
        let default = self.guard.get(owner, process::DEFAULT_PRIORITY);
        self.guard.init(t, transaction::PRIORITY, default);
        let frozen = self.guard.get(owner, process::FROZEN);
        if frozen {
            self.guard.set(owner, process::ONEWAY_KEPT, true);
        }
        if self.guard.get(node, node::HAS_ASYNC) {
            if frozen && self.guard.get(t, transaction::FLAGS) & TF_UPDATE_TXN != 0 {
                self.guard.drop_outdated(owner, node, t);
            }
            self.guard.push(node::ASYNC_TODO.queue(node), call);
            return;
        }
        self.guard.set(node, node::HAS_ASYNC, true);
        match self.guard.select_thread(owner) {
            Some(server) => {
                self.guard.push_thread_work(server, call);
                self.guard.wake_later(server);
            }
            None => {
                self.guard.push(process::TODO.queue(owner), call);
                self.guard.wake_pollers(owner);
            }
        }
    }

    pub(super) fn new_transaction(
        &mut self,
        receiver: Id<Process>,
        filled: Id<Buffer>,
        data: &TransactionDataSg,
    ) -> Result<Id<Transaction>, Errno> {
        let guard = &mut self.guard;
        let t = guard.alloc::<Transaction>()?;
        let pid = guard.get(self.process, process::PID);
        guard.init(t, transaction::SENDER_PID, pid);
        guard.init(t, transaction::SENDER_EUID, self.euid);
        guard.init(t, transaction::TO_PROCESS, Some(receiver));
        guard.init(t, transaction::CODE, data.code);
        guard.init(t, transaction::FLAGS, data.flags);
        guard.init(t, transaction::BUFFER, Some(filled));
        guard.set(filled, buffer::TRANSACTION, Some(t));
        Ok(t)
    }
}
