//! Work that waits for a thread, as returns, in the order of the kernel's `binder_thread_read`
//! (`binder.c`).

use rustix::io::Errno;

use super::Ioctl;
use super::out::Out;
use crate::queue::Kind;
use crate::records::{
    Buffer, Field, Id, Node, Thread, Transaction, Work, buffer, node, process, thread, transaction, work,
};
use roundtrip_binder_driver::uapi::{
    BR_ACQUIRE, BR_CLEAR_DEATH_NOTIFICATION_DONE, BR_CLEAR_FREEZE_NOTIFICATION_DONE, BR_DEAD_BINDER,
    BR_DEAD_REPLY, BR_DECREFS, BR_FAILED_REPLY, BR_FROZEN_BINDER, BR_FROZEN_REPLY, BR_INCREFS,
    BR_ONEWAY_SPAM_SUSPECT, BR_RELEASE, BR_REPLY, BR_TRANSACTION, BR_TRANSACTION_COMPLETE,
    BR_TRANSACTION_PENDING_FROZEN, FrozenStateInfo, PtrCookie, TF_ONE_WAY, TransactionData,
};

impl Ioctl<'_> {
    /// Delivers what there is. True if some is left because the room is full.
    pub(super) fn drain(&mut self, for_process: bool, out: &mut Out<'_>) -> Result<bool, Errno> {
        loop {
            let own = self.guard.front(thread::TODO.queue(self.thread));
            let shared = || self.guard.front(process::TODO.queue(self.process)).filter(|_| for_process);
            let Some(entry) = self.guard.step(own.or_else(shared)) else {
                // Set without work, this flag would keep the thread from sleeping.
                if own.is_none() && self.guard.get(self.thread, thread::HAS_WORK) {
                    self.guard.set(self.thread, thread::HAS_WORK, false);
                }
                return if self.guard.is_tired() { Err(Errno::PROTO) } else { Ok(false) };
            };
            // The largest return must fit, as in the kernel, whichever comes next.
            if out.left() < 4 + TransactionData::SIZE + 8 {
                return Ok(true);
            }
            let mark = self.guard.mark();
            self.guard.unqueue(entry);
            if self.guard.front(thread::TODO.queue(self.thread)).is_none() {
                self.guard.set(self.thread, thread::HAS_WORK, false);
            }
            let last = self.deliver(entry, out);
            if self.wanted.is_some() {
                // Its descriptors are not available yet. It is delivered again when they are.
                self.guard.rollback_to(mark);
                self.inbox_missing = self.fetch_wanted().is_err();
                continue;
            }
            // Asked again for the next transaction: this read may last, and the limit may be raised
            // meanwhile.
            self.inbox_missing = false;
            self.guard.commit();
            if last {
                return Ok(false);
            }
        }
    }

    /// Turns an entry into returns. True if nothing may follow them in this read.
    fn deliver(&mut self, entry: Id<Work>, out: &mut Out<'_>) -> bool {
        let kind = self.guard.kind(entry);
        let payload = self.guard.get(entry, work::PAYLOAD);
        match kind {
            Some(Kind::Transaction) => {
                let t = self.guard.transaction_of(entry);
                self.guard.free(entry);
                t.is_some_and(|t| self.deliver_transaction(t, out))
            }
            Some(
                kind @ (Kind::Complete
                | Kind::CompleteSuspect
                | Kind::CompletePending
                | Kind::ReturnError
                | Kind::ReplyError),
            ) => {
                let word = self.outcome(kind);
                self.guard.free(entry);
                out.put(word, &[]);
                false
            }
            Some(Kind::Node) => {
                self.guard.free(entry);
                if let Some(own) = Id::<Node>::new(payload) {
                    self.deliver_counts(own, out);
                }
                false
            }
            Some(Kind::DeadBinder | Kind::DeadBinderAndClear) => {
                out.put(BR_DEAD_BINDER, &payload.to_ne_bytes());
                self.guard.push(process::DELIVERED.queue(self.process), entry);
                // Its handler may make calls, whose reads must not find other returns.
                true
            }
            Some(Kind::ClearDeath) => {
                out.put(BR_CLEAR_DEATH_NOTIFICATION_DONE, &payload.to_ne_bytes());
                self.guard.free(entry);
                false
            }
            Some(Kind::FrozenBinder) => {
                let is_frozen = self.guard.get(entry, work::IS_FROZEN).into();
                let info = FrozenStateInfo { cookie: payload, is_frozen, reserved: 0 };
                out.put(BR_FROZEN_BINDER, &info.to_bytes());
                self.guard.push(process::FREEZE_DELIVERED.queue(self.process), entry);
                // As for a death.
                true
            }
            Some(Kind::ClearFreeze) => {
                out.put(BR_CLEAR_FREEZE_NOTIFICATION_DONE, &payload.to_ne_bytes());
                self.guard.free(entry);
                false
            }
            None => false,
        }
    }

    /// The result of a transaction or a command of this thread, as a return.
    #[inline]
    fn outcome(&mut self, kind: Kind) -> u32 {
        match kind {
            Kind::CompleteSuspect if self.guard.get(self.process, process::TELL_SPAM) => {
                BR_ONEWAY_SPAM_SUSPECT
            }
            Kind::CompletePending => BR_TRANSACTION_PENDING_FROZEN,
            Kind::ReturnError => self.take_error(thread::RETURN_ERROR),
            Kind::ReplyError => self.take_error(thread::REPLY_ERROR),
            _ => BR_TRANSACTION_COMPLETE,
        }
    }

    /// The error noted for this thread, which is reported once. Other values are dropped.
    fn take_error(&mut self, noted: Field<Thread, u32>) -> u32 {
        let error = self.guard.get(self.thread, noted);
        self.guard.set(self.thread, noted, 0);
        let known = matches!(error, BR_DEAD_REPLY | BR_FROZEN_REPLY | BR_TRANSACTION_COMPLETE);
        if known { error } else { BR_FAILED_REPLY }
    }

    /// Reports to a node's owner which references others hold now.
    fn deliver_counts(&mut self, own: Id<Node>, out: &mut Out<'_>) {
        let guard = &mut self.guard;
        guard.set(own, node::WORK, None);
        let strong = guard.get(own, node::INTERNAL_STRONG) != 0 || guard.get(own, node::LOCAL_STRONG) != 0;
        let weak = strong || guard.get(own, node::REFS).is_some() || guard.get(own, node::LOCAL_WEAK) != 0;
        let (had_strong, had_weak) = (guard.get(own, node::HAS_STRONG), guard.get(own, node::HAS_WEAK));
        let named =
            PtrCookie { ptr: guard.get(own, node::PTR), cookie: guard.get(own, node::COOKIE) }.to_bytes();
        if weak && !had_weak {
            guard.set(own, node::HAS_WEAK, true);
            guard.set(own, node::PENDING_WEAK, true);
            guard.add(own, node::LOCAL_WEAK, 1);
            out.put(BR_INCREFS, &named);
        }
        if strong && !had_strong {
            guard.set(own, node::HAS_STRONG, true);
            guard.set(own, node::PENDING_STRONG, true);
            guard.add(own, node::LOCAL_STRONG, 1);
            out.put(BR_ACQUIRE, &named);
        }
        if !strong && had_strong {
            guard.set(own, node::HAS_STRONG, false);
            out.put(BR_RELEASE, &named);
        }
        if !weak && had_weak {
            guard.set(own, node::HAS_WEAK, false);
            out.put(BR_DECREFS, &named);
        }
        if !weak && !strong {
            guard.unlist_node(self.process, own);
            guard.free(own);
        }
    }

    fn deliver_transaction(&mut self, t: Id<Transaction>, out: &mut Out<'_>) -> bool {
        let Some(held) = self.guard.get(t, transaction::BUFFER) else {
            self.guard.drop_transaction(t);
            return false;
        };
        if self.guard.get(t, transaction::FDS) != 0 && !self.receive_descriptors(t, held) {
            return self.wanted.is_some() || self.give_up(t, held, out);
        }
        let guard = &mut self.guard;
        let flags = guard.get(t, transaction::FLAGS);
        let oneway = flags & TF_ONE_WAY != 0;
        let mut data = TransactionData {
            code: guard.get(t, transaction::CODE),
            flags,
            sender_euid: guard.get(t, transaction::SENDER_EUID),
            data_size: guard.get(held, buffer::DATA_SIZE),
            offsets_size: guard.get(held, buffer::OFFSETS_SIZE),
            ..TransactionData::default()
        };
        let area = guard.get(self.process, process::AREA_ADDRESS);
        // Any value is safe here: `received` only returns data in the own area.
        data.buffer = area.wrapping_add(guard.get(held, buffer::OFFSET));
        data.offsets = area.wrapping_add(guard.offsets_at(held));
        if guard.get(t, transaction::FROM).is_some() {
            data.sender_pid = guard.get(t, transaction::SENDER_PID);
        }
        let target = guard.get(held, buffer::TARGET);
        guard.set(held, buffer::USER_MAY_FREE, true);
        if let Some(target) = target {
            data.target = guard.get(target, node::PTR);
            data.cookie = guard.get(target, node::COOKIE);
            let node_flags = guard.get(target, node::FLAGS);
            guard.inherit_priority(self.profile, t, node_flags, self.thread);
            out.put(BR_TRANSACTION, &data.to_bytes());
        } else {
            out.put(BR_REPLY, &data.to_bytes());
        }
        if target.is_some() && !oneway {
            let stack = guard.get(self.thread, thread::STACK);
            guard.set(t, transaction::TO_PARENT, stack);
            guard.set(t, transaction::TO_THREAD, Some(self.thread));
            guard.set(self.thread, thread::STACK, Some(t));
            guard.learn_boost(self.thread);
        } else {
            guard.detach_buffer(t);
            guard.free(t);
        }
        true
    }

    /// This process cannot get the transaction's descriptors: its sender gets `BR_FAILED_REPLY`,
    /// or, for a reply, this thread. True if nothing may follow in this read.
    fn give_up(&mut self, t: Id<Transaction>, held: Id<Buffer>, out: &mut Out<'_>) -> bool {
        let guard = &mut self.guard;
        let reply = guard.get(held, buffer::TARGET).is_none();
        let oneway = guard.get(t, transaction::FLAGS) & TF_ONE_WAY != 0;
        let offset = guard.get(held, buffer::OFFSET);
        guard.detach_buffer(t);
        if reply || oneway {
            guard.drop_transaction(t);
        } else {
            guard.fail_caller(t, BR_FAILED_REPLY);
        }
        guard.set(held, buffer::USER_MAY_FREE, true);
        guard.user_frees_buffer(self.process, offset);
        if reply {
            out.put(BR_FAILED_REPLY, &[]);
        }
        reply
    }
}
