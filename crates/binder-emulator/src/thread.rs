//! Threads: those that have used the driver, which of them wait for work, and what happens when one
//! leaves.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::mutex::own_tid;
use crate::queue::Kind;
use crate::records::{
    Id, Node, Process, Queue, THREADS, Thread, Transaction, Work, buffer, node, process, thread, transaction,
    work,
};
use crate::sched;
use crate::sleep;
use roundtrip_binder_driver::uapi::{BR_DEAD_REPLY, TF_ONE_WAY};

// The kernel's `BINDER_LOOPER_STATE_*`.
pub(crate) const LOOPER_REGISTERED: u32 = 0x01;
pub(crate) const LOOPER_ENTERED: u32 = 0x02;
pub(crate) const LOOPER_EXITED: u32 = 0x04;
pub(crate) const LOOPER_INVALID: u32 = 0x08;
/// Not stored: a thread's futex shows it.
pub(crate) const LOOPER_WAITING: u32 = 0x10;
/// It has polled.
pub(crate) const LOOPER_POLL: u32 = 0x20;

impl Guard<'_> {
    /// Makes the calling thread known. Its first ioctl never waits, as with the kernel's driver.
    pub(crate) fn new_thread(&mut self, owner: Id<Process>) -> Result<Id<Thread>, Errno> {
        let new = self.alloc::<Thread>()?;
        self.init(new, thread::PROCESS, Some(owner));
        self.init(new, thread::TID, own_tid() as i32);
        self.init(new, thread::NEED_RETURN, true);
        self.link_front(process::THREADS_HEAD.of(owner), new, thread::NEXT, thread::PREV);
        self.learn_own_priority(new);
        sleep::reset(self.region(), new);
        Ok(new)
    }

    /// Reads the calling thread's own priority. The driver does not see later changes: a looper
    /// that changes it must enter its loop again.
    pub(crate) fn learn_own_priority(&mut self, caller: Id<Thread>) {
        let now = sched::get(0).map_or(0, sched::Priority::to_word);
        self.set(caller, thread::OWN_PRIORITY, now);
        self.set(caller, thread::PRIORITY, now);
    }

    /// Gives a thread work that it must see at once.
    pub(crate) fn push_thread_work(&mut self, to: Id<Thread>, entry: Id<Work>) {
        self.push(thread::TODO.queue(to), entry);
        self.set(to, thread::HAS_WORK, true);
    }

    /// Takes the most recent waiting thread off the list.
    pub(crate) fn select_thread(&mut self, owner: Id<Process>) -> Option<Id<Thread>> {
        let chosen = self.get(owner, process::WAITING)?;
        self.stop_waiting(owner, chosen);
        Some(chosen)
    }

    /// Wakes one thread that waits for work of the process, or, when none does, all that poll.
    pub(crate) fn wake_process(&mut self, owner: Id<Process>) {
        match self.select_thread(owner) {
            Some(chosen) => self.wake_later(chosen),
            None => self.wake_pollers(owner),
        }
    }

    /// Wakes all polling threads of a process: each checks whether it may take the work.
    pub(crate) fn wake_pollers(&mut self, owner: Id<Process>) {
        if self.get(owner, process::POLLERS) != 0 {
            self.for_each_thread(owner, |guard, id| {
                if guard.get(id, thread::POLLS) {
                    guard.wake_later(id);
                }
            });
        }
    }

    /// Notes that a thread is about to sleep in a poll, or is back.
    pub(crate) fn set_polling(&mut self, owner: Id<Process>, id: Id<Thread>, polls: bool) {
        if self.get(id, thread::POLLS) != polls {
            self.set(id, thread::POLLS, polls);
            self.add(owner, process::POLLERS, if polls { 1 } else { -1 });
        }
    }

    /// Puts a thread on the list of those that wait for work of the process.
    pub(crate) fn start_waiting(&mut self, owner: Id<Process>, id: Id<Thread>) {
        if !self.get(id, thread::IS_WAITING) {
            self.link_front(process::WAITING.of(owner), id, thread::WAIT_NEXT, thread::WAIT_PREV);
            self.set(id, thread::IS_WAITING, true);
        }
    }

    /// Takes it off again.
    pub(crate) fn stop_waiting(&mut self, owner: Id<Process>, id: Id<Thread>) {
        if self.get(id, thread::IS_WAITING) {
            self.unlink(process::WAITING.of(owner), id, thread::WAIT_NEXT, thread::WAIT_PREV);
            self.set(id, thread::IS_WAITING, false);
        }
    }

    /// Calls `act` for each thread of a process.
    pub(crate) fn for_each_thread(&mut self, owner: Id<Process>, mut act: impl FnMut(&mut Self, Id<Thread>)) {
        let mut next = self.get(owner, process::THREADS_HEAD);
        for _ in 0..THREADS {
            let Some(id) = self.step(next) else { return };
            next = self.get(id, thread::NEXT);
            act(self, id);
        }
    }

    /// A thread leaves: a caller that waits for its reply gets `BR_DEAD_REPLY`, and its own calls
    /// are forgotten.
    pub(crate) fn release_thread(&mut self, owner: Id<Process>, id: Id<Thread>) {
        // It was killed before it had notified all: the process is thawed, as if a signal had ended
        // the wait. This is done first, because it is committed in steps: if this thread dies too,
        // the next one still finds the record.
        if let Some(frozen) = self.get(id, thread::FREEZING) {
            self.set(frozen, process::FROZEN, false);
            self.notify_freeze(frozen, false);
            self.set(id, thread::FREEZING, None);
        }
        self.release_queue(thread::TODO.queue(id));
        self.stop_waiting(owner, id);
        self.unlink(process::THREADS_HEAD.of(owner), id, thread::NEXT, thread::PREV);
        if let Some(filled) = self.get(id, thread::FILLING) {
            self.abandon_fill(id, filled);
        }
        let mut next = self.get(id, thread::STACK);
        let served = next.filter(|&t| self.get(t, transaction::TO_THREAD) == Some(id));
        while let Some(t) = self.step(next) {
            if self.get(t, transaction::TO_THREAD) == Some(id) {
                next = self.get(t, transaction::TO_PARENT);
                self.set(t, transaction::TO_THREAD, None);
                self.set(t, transaction::TO_PROCESS, None);
                self.detach_buffer(t);
            } else {
                next = self.get(t, transaction::FROM_PARENT);
                self.set(t, transaction::FROM, None);
            }
        }
        if let Some(t) = served {
            self.fail_caller(t, BR_DEAD_REPLY);
        }
        self.free(id);
    }

    /// Drops the entries of a queue whose reader is gone. Each is committed separately: there may
    /// be more than the journal can hold, and after a death another thread continues with the rest.
    pub(crate) fn release_queue(&mut self, queue: Queue) {
        while let Some(entry) = self.step(self.front(queue)) {
            self.unqueue(entry);
            match self.kind(entry) {
                Some(Kind::Transaction) => {
                    if let Some(t) = Id::new(self.get(entry, work::PAYLOAD)) {
                        self.drop_undelivered(t);
                    }
                    self.free(entry);
                }
                // The node's next notification gets its own entry.
                Some(Kind::Node) => {
                    if let Some(id) = Id::<Node>::new(self.get(entry, work::PAYLOAD)) {
                        self.set(id, node::WORK, None);
                    }
                    self.free(entry);
                }
                // Death and freeze notifications still own their entries.
                Some(Kind::DeadBinder | Kind::FrozenBinder) => {}
                _ => self.free(entry),
            }
            self.commit();
        }
    }

    fn drop_undelivered(&mut self, t: Id<Transaction>) {
        let call = self.get(t, transaction::NEED_REPLY) && self.get(t, transaction::FLAGS) & TF_ONE_WAY == 0;
        // As the kernel's driver does, and with it what the buffer names: it stays until the
        // receiving process ends.
        self.detach_buffer(t);
        if call {
            self.fail_caller(t, BR_DEAD_REPLY);
        } else {
            self.drop_transaction(t);
        }
    }

    /// Ends a transaction, perhaps with descriptors that were not taken.
    pub(crate) fn drop_transaction(&mut self, t: Id<Transaction>) {
        if self.get(t, transaction::FDS_NUMBER) != 0 {
            self.set(t, transaction::FDS_NUMBER, 0);
            if let Some(receiver) = self.get(t, transaction::TO_PROCESS) {
                self.sweep_later(receiver);
            }
        }
        self.free(t);
    }

    /// A transaction and its buffer part.
    pub(crate) fn detach_buffer(&mut self, t: Id<Transaction>) {
        if let Some(held) = self.get(t, transaction::BUFFER) {
            self.set(held, buffer::TRANSACTION, None);
            self.set(t, transaction::BUFFER, None);
        }
    }

    /// `t` will get no reply: reports that to the thread that waits for it, or else to the one that
    /// waits for *that*, and so on.
    pub(crate) fn fail_caller(&mut self, t: Id<Transaction>, error: u32) {
        let mut next = Some(t);
        while let Some(failed) = self.step(next) {
            let parent = self.get(failed, transaction::FROM_PARENT);
            let caller = self.get(failed, transaction::FROM);
            self.detach_buffer(failed);
            self.drop_transaction(failed);
            if let Some(caller) = caller {
                self.set(caller, thread::STACK, parent);
                if self.get(caller, thread::REPLY_ERROR) == 0 {
                    self.set(caller, thread::REPLY_ERROR, error);
                    self.push_error(caller, Kind::ReplyError);
                }
                self.wake_later(caller);
                return;
            }
            next = parent;
        }
    }

    /// Queues the return of an error that is noted in the thread.
    pub(crate) fn push_error(&mut self, to: Id<Thread>, kind: Kind) {
        // A full table leaves the error noted but unread; the thread then sees its next return
        // instead.
        if let Ok(entry) = self.new_work(kind, to.index() as u64) {
            self.push_thread_work(to, entry);
        }
    }
}
