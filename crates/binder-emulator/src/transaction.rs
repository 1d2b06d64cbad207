//! Sending: a transaction or reply, from the sender's memory into the receiver's area and its queue.
//!
//! The order of checks and the returns of each refusal follow the kernel's `binder_transaction` (`binder.c`).

use binder_driver::RawBytes;
use rustix::io::Errno;

use crate::allocation::Sizes;
use crate::ioctl::Ioctl;
use crate::lock::Guard;
use crate::node::Strength;
use crate::process::LIVE;
use crate::queue::Kind;
use crate::records::{
    Buffer, Id, Node, Process, Thread, Transaction, Work, buffer, node, process, reference, thread,
    transaction,
};
use crate::{inheritance, objects, priority};
use binder_driver::Profile;
use binder_driver::uapi::{
    BR_DEAD_REPLY, BR_FAILED_REPLY, BR_FROZEN_REPLY, BR_TRANSACTION_COMPLETE, FLAT_BINDER_FLAG_ACCEPTS_FDS,
    FLAT_BINDER_FLAG_TXN_SECURITY_CTX, TF_ACCEPT_FDS, TF_CLEAR_BUF, TF_ONE_WAY, TF_UPDATE_TXN,
    TransactionDataSg,
};

/// From this many bytes on, data is copied outside the lock, so that nobody waits for the copy.
const COPY_OUTSIDE_LOCK: u64 = 4096;

/// Why a transaction was not taken: what its sender (or, for a reply, the one that waits for it) is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// `BR_DEAD_REPLY`, `BR_FAILED_REPLY` or `BR_FROZEN_REPLY`.
    number: u32,
    /// What `BINDER_GET_EXTENDED_ERROR` tells besides: a negative errno, or 0 as the kernel's driver has it.
    param: i32,
}

impl Refusal {
    /// The target has gone, as is only found when the transaction is ready.
    pub(crate) const DEAD: Self = Self { number: BR_DEAD_REPLY, param: 0 };
    /// The target is frozen.
    const FROZEN: Self = Self { number: BR_FROZEN_REPLY, param: 0 };

    fn dead(errno: Errno) -> Self {
        Self { number: BR_DEAD_REPLY, param: errno.raw_os_error().wrapping_neg() }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self { number: BR_FAILED_REPLY, param: errno.raw_os_error().wrapping_neg() }
    }
}

/// Where a transaction goes.
#[derive(Clone, Copy)]
struct Target {
    process: Id<Process>,
    /// The thread that waits for the reply, or that a nested call goes back to.
    thread: Option<Id<Thread>>,
    /// None for a reply.
    node: Option<Id<Node>>,
    /// It may be sent descriptors.
    accepts_descriptors: bool,
}

/// A buffer that data was copied into.
#[derive(Clone, Copy)]
struct Filled {
    buffer: Id<Buffer>,
    /// The scatter-gather buffers could not be copied. Told only when nothing is wrong with the objects, as by the kernel.
    buffers_missing: bool,
}

impl<'a> Ioctl<'a> {
    /// `BC_TRANSACTION[_SG]`.
    pub(crate) fn transaction(&mut self, data: &TransactionDataSg) {
        let number = self.begin();
        while let Err(refusal) = self.try_transaction(data, number) {
            if self.fetch_wanted().is_ok_and(|fetched| fetched) {
                continue;
            }
            self.guard.note_refusal(self.thread, number, refusal);
            return self.refuse(refusal.number);
        }
    }

    /// `BC_REPLY[_SG]`.
    pub(crate) fn reply(&mut self, data: &TransactionDataSg) {
        let number = self.begin();
        let served = self.guard.get(self.thread, thread::STACK);
        let served = served.filter(|&t| self.guard.get(t, transaction::TO_THREAD) == Some(self.thread));
        let Some(answered) = served else {
            self.guard.note_refusal(self.thread, number, Errno::PROTO.into());
            return self.refuse(BR_FAILED_REPLY);
        };
        let saved = self.guard.get(answered, transaction::SAVED_PRIORITY);
        while let Err(refusal) = self.try_reply(answered, data, number) {
            if self.fetch_wanted().is_ok_and(|fetched| fetched) {
                continue;
            }
            let parent = self.guard.get(answered, transaction::TO_PARENT);
            self.guard.set(self.thread, thread::STACK, parent);
            self.refuse(BR_TRANSACTION_COMPLETE);
            if let Some(caller) = self.guard.get(answered, transaction::FROM)
                && self.guard.get(caller, thread::ERROR_RETURN) == 0
            {
                self.guard.note_refusal(caller, number, refusal);
            }
            self.guard.fail_caller(answered, refusal.number);
            break;
        }
        self.guard.learn_what_is_lent(self.thread);
        if let Some(own) = self.guard.priority_to_restore(self.profile, self.thread, saved) {
            // The caller wakes first; then this thread gives back what it was lent.
            self.guard.unlock();
            self.guard.relock();
            // Who calls meanwhile finds this thread at a caller's priority, or lends it its own: the next call goes on from there.
            if !self.keeps_priority() {
                self.guard.set_priority(self.profile, self.thread, own);
            }
        }
    }

    /// A transaction begins: gives its number, and forgets what the thread was to be told of the one before.
    fn begin(&mut self) -> u64 {
        let number = self.guard.next_number();
        // Not journalled: nobody asks for what a dead thread was to be told.
        self.guard.init(self.thread, thread::ERROR_NUMBER, number);
        if self.guard.get(self.thread, thread::ERROR_RETURN) != 0 {
            self.guard.init(self.thread, thread::ERROR_RETURN, 0);
            self.guard.init(self.thread, thread::ERROR_PARAM, 0);
        }
        number
    }

    fn refuse(&mut self, error: u32) {
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

    /// Whom a transaction is for.
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
            // As in a kernel where no security module names its callers (`security_secid_to_secctx`).
            return Err(Errno::OPNOTSUPP.into());
        }
        let accepts_descriptors = flags & FLAT_BINDER_FLAG_ACCEPTS_FDS != 0;
        Ok(Target { process: owner, thread, node: Some(target), accepts_descriptors })
    }

    /// The thread of `owner` that waits, directly or not, for the calling thread: a nested call goes back to it.
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

    /// Takes a buffer in the target's area and copies data, offsets, scatter-gather buffers and objects into it.
    /// On an error, what was changed since the last commit must be rolled back by the caller; what was committed is
    /// undone here.
    fn fill(&mut self, target: Target, data: &TransactionDataSg, oneway: bool) -> Result<Filled, Refusal> {
        let sizes = Sizes { data: data.data_size, offsets: data.offsets_size, extra: data.buffers_size };
        if self.guard.get(target.process, process::STATE) != LIVE {
            return Err(Refusal::dead(Errno::SRCH));
        }
        let filled = self.guard.alloc_buffer(target.process, sizes, oneway.then_some(self.sender))?;
        let offsets = self.lent.slice(data.offsets, data.offsets_size).ok_or(Errno::FAULT)?;
        if !data.offsets_size.is_multiple_of(8) || !data.buffers_size.is_multiple_of(8) {
            return Err(Errno::INVAL.into());
        }
        let own = self.lent.slice(data.buffer, data.data_size);
        // Objects are looked for in the caller's own memory only: what others may change is passed on as it is.
        let passed_on = || self.lent.bytes(data.buffer, data.data_size).filter(|_| offsets.is_empty());
        let bytes = own.map(RawBytes::from).or_else(passed_on).ok_or_else(|| {
            // The kernel copies up to the first object, and then looks for that.
            if offsets.get(..8) == Some(&[0; 8]) { Errno::INVAL } else { Errno::FAULT }
        })?;
        self.guard.init(filled, buffer::TARGET, target.node);
        self.guard.init(filled, buffer::CLEAR, data.flags & TF_CLEAR_BUF != 0);
        if let Some(node) = target.node {
            self.guard.inc_node(node, Strength::Strong, false, None)?;
        }
        let offset = self.guard.get(filled, buffer::OFFSET);
        let offsets_at = self.guard.offsets_at(filled);
        let slot = target.process.index();
        let region = self.guard.region();
        let lent = self.lent;
        let copy = || {
            let room = data.buffers_size;
            let whole = region.write_area(slot, offset, bytes)
                && (offsets.is_empty() || region.write_area(slot, offsets_at, offsets.into()));
            let objects = own.unwrap_or_default();
            let buffers =
                room == 0 || objects::copy_buffers(region, slot, offsets_at, objects, offsets, room, &lent);
            (whole, buffers)
        };
        let (whole, buffers) = if data.data_size.saturating_add(data.buffers_size) >= COPY_OUTSIDE_LOCK {
            self.guard.start_fill(self.thread, target.process, filled);
            self.guard.unlock();
            let copied = copy();
            self.guard.relock();
            self.guard.end_fill(self.thread, target.process, filled)?;
            if !copied.0 {
                self.guard.release_buffer(target.process, filled);
                // The first half was committed with the unlock: the caller's rollback must not undo this one alone.
                self.guard.commit();
            }
            copied
        } else {
            copy()
        };
        if !whole {
            return Err(Errno::FAULT.into());
        }
        Ok(Filled { buffer: filled, buffers_missing: !buffers })
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
        self.put_right(target, filled, data)?;
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
            let lent = inheritance::serves_at().filter(|lent| lent.level < own.level);
            self.guard.init(t, transaction::PRIORITY, lent.unwrap_or(own).to_word());
            self.guard.init(t, transaction::LENDING, self.lending as u32);
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
                    self.guard.lend_priority(self.profile, t, flags, server);
                }
                self.guard.push_thread_work(server, call);
                self.guard.wake_here_later(server);
            }
            None => {
                self.guard.push(process::TODO.queue(target.process), call);
                self.guard.wake_pollers(target.process);
                if self.profile == Profile::Ack {
                    let flags = self.guard.get(node, node::FLAGS);
                    self.guard.hurry_looper(t, flags, target.process);
                }
            }
        }
        Ok(())
    }

    /// Translates the objects of a buffer that is filled.
    fn put_right(&mut self, target: Target, filled: Filled, data: &TransactionDataSg) -> Result<(), Refusal> {
        if data.offsets_size != 0 {
            self.translate(target.process, filled.buffer, data, target.accepts_descriptors)?;
        }
        if filled.buffers_missing { Err(Errno::INVAL.into()) } else { Ok(()) }
    }

    /// What its sender is told of a transaction that was taken.
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

    fn try_reply(
        &mut self,
        answered: Id<Transaction>,
        data: &TransactionDataSg,
        number: u64,
    ) -> Result<(), Refusal> {
        let (target, caller) = self.resolve_reply(answered)?;
        let mark = self.guard.mark();
        let filled = match self.fill(target, data, false) {
            Ok(filled) => filled,
            Err(refusal) => {
                self.guard.rollback_to(mark);
                return Err(refusal);
            }
        };
        let mark = self.guard.mark();
        let sent = self.send_reply(answered, filled, data, number, target, caller);
        if sent.is_err() {
            self.guard.rollback_to(mark);
            self.guard.release_buffer(target.process, filled.buffer);
        }
        sent
    }

    fn resolve_reply(&self, answered: Id<Transaction>) -> Result<(Target, Id<Thread>), Refusal> {
        let caller = self.guard.get(answered, transaction::FROM).ok_or(Refusal::DEAD)?;
        if self.guard.get(caller, thread::STACK) != Some(answered) {
            return Err(Errno::PROTO.into());
        }
        let process = self.guard.get(caller, thread::PROCESS).ok_or(Refusal::DEAD)?;
        let accepts_descriptors = self.guard.get(answered, transaction::FLAGS) & TF_ACCEPT_FDS != 0;
        Ok((Target { process, thread: Some(caller), node: None, accepts_descriptors }, caller))
    }

    fn send_reply(
        &mut self,
        answered: Id<Transaction>,
        filled: Filled,
        data: &TransactionDataSg,
        number: u64,
        target: Target,
        caller: Id<Thread>,
    ) -> Result<(), Refusal> {
        // The caller may have died while the reply was copied outside the lock.
        if self.guard.get(answered, transaction::FROM) != Some(caller) {
            return Err(Refusal::DEAD);
        }
        self.put_right(target, filled, data)?;
        let t = self.new_transaction(target.process, filled.buffer, data)?;
        let complete = self.guard.new_work(Kind::Complete, 0)?;
        let reply = self.guard.new_work(Kind::Transaction, t.index() as u64)?;
        self.post_descriptors(target.process, t, number)?;
        self.guard.push_thread_work(self.thread, complete);
        let parent = self.guard.get(answered, transaction::TO_PARENT);
        self.guard.set(self.thread, thread::STACK, parent);
        let waiting_for = self.guard.get(answered, transaction::FROM_PARENT);
        self.guard.set(caller, thread::STACK, waiting_for);
        self.guard.push_thread_work(caller, reply);
        self.guard.wake_here_later(caller);
        self.guard.detach_buffer(answered);
        self.guard.free(answered);
        Ok(())
    }

    fn new_transaction(
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

impl Guard<'_> {
    /// Notes for `BINDER_GET_EXTENDED_ERROR` why transaction `number` was refused.
    fn note_refusal(&mut self, of: Id<Thread>, number: u64, refusal: Refusal) {
        self.set(of, thread::ERROR_NUMBER, number);
        self.set(of, thread::ERROR_RETURN, refusal.number);
        self.set(of, thread::ERROR_PARAM, refusal.param);
    }
}
