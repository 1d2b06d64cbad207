//! Answering: from the server's memory into the area and the queue of the thread that waits.

use rustix::io::Errno;

use super::Refusal;
use super::fill::{Filled, Target};
use crate::ioctl::Ioctl;
use crate::queue::Kind;
use crate::records::{Id, Thread, Transaction, thread, transaction};
use roundtrip_binder_driver::uapi::{
    BR_FAILED_REPLY, BR_TRANSACTION_COMPLETE, TF_ACCEPT_FDS, TransactionDataSg,
};

impl Ioctl<'_> {
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
            let refusal = match self.fetch_wanted() {
                Ok(true) => continue,
                Ok(false) => refusal,
                Err(errno) => errno.into(),
            };
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
        self.guard.learn_boost(self.thread);
        if let Some(own) = self.guard.priority_to_restore(self.profile, self.thread, saved) {
            // The caller wakes first; then this thread restores its own priority.
            self.guard.unlock();
            self.guard.relock();
            // A call that arrives meanwhile finds this thread at its caller's priority, or boosts
            // it. This thread serves that call without changing its priority first.
            if !self.keeps_priority() {
                self.guard.set_priority(self.profile, self.thread, own);
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
        self.translate_filled(target, filled, data)?;
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
}
