//! Frozen processes (`BINDER_FREEZE`, `BINDER_GET_FROZEN_INFO`), the notifications of them
//! (`BC_REQUEST_FREEZE_NOTIFICATION`), and the extended error of a thread's last transaction.
//!
//! As in the kernel's `binder_ioctl_freeze`, a process's queues are searched for unfinished
//! transactions only on request, so no transaction pays for a count.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::ioctl::Ioctl;
use crate::lock::Guard;
use crate::node::Strength;
use crate::process::LIVE;
use crate::queue::Kind;
use crate::records::{
    Id, Node, PROCESSES, Process, Queue, Thread, Work, node, process, reference, thread, transaction, work,
};
use roundtrip_binder_driver::uapi::{BR_OK, ExtendedError, FrozenStatusInfo};

/// How often a thread that freezes a process checks whether its transactions have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl Ioctl<'_> {
    /// `BINDER_FREEZE`, for all of the context's processes that process `pid` has opened.
    pub(crate) fn set_frozen(
        &mut self,
        pid: u32,
        frozen: bool,
        timeout_ms: u32,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        let targets = self.guard.processes_of(pid);
        if targets.is_empty() {
            return Err(Errno::INVAL);
        }
        for target in targets {
            self.guard.set(target, process::CALLS_REFUSED, false);
            self.guard.set(target, process::ONEWAY_KEPT, false);
            self.guard.set(target, process::FROZEN, frozen);
            // If this thread is killed before all are notified, its release thaws the process and
            // notifies them of that.
            self.guard.set(self.thread, thread::FREEZING, Some(target));
            let generation = self.guard.get(target, process::GENERATION);
            if frozen {
                self.wait_until_idle(target, timeout_ms, gone)?;
            }
            let lives = self.guard.is_live(target, generation);
            let busy = lives && frozen && self.guard.has_transactions(target);
            if busy {
                self.guard.set(target, process::FROZEN, false);
            } else if lives {
                self.guard.commit();
                self.guard.notify_freeze(target, frozen);
            }
            self.guard.set(self.thread, thread::FREEZING, None);
            if busy {
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    }

    /// Waits until `target` has no transaction to serve, at most `timeout_ms` milliseconds.
    fn wait_until_idle(
        &mut self,
        target: Id<Process>,
        timeout_ms: u32,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        let generation = self.guard.get(target, process::GENERATION);
        let (begin, most) = (Instant::now(), Duration::from_millis(timeout_ms.into()));
        while self.guard.has_unserved(target)
            && self.guard.get(target, process::GENERATION) == generation
            && begin.elapsed() < most
        {
            self.guard.unlock();
            std::thread::sleep(LOOK_AGAIN);
            self.guard.relock();
            if gone() {
                return Err(Errno::NODEV);
            }
        }
        Ok(())
    }

    /// `BINDER_GET_FROZEN_INFO`.
    pub(crate) fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Errno> {
        let targets = self.guard.processes_of(pid);
        if targets.is_empty() {
            return Err(Errno::INVAL);
        }
        let mut info = FrozenStatusInfo { pid, ..Default::default() };
        for target in targets {
            let refused = u32::from(self.guard.get(target, process::CALLS_REFUSED));
            info.sync_recv |= refused | u32::from(self.guard.has_transactions(target)) << 1;
            info.async_recv |= u32::from(self.guard.get(target, process::ONEWAY_KEPT));
        }
        Ok(info)
    }

    /// `BINDER_GET_EXTENDED_ERROR`: reports it once.
    pub(crate) fn extended_error(&mut self) -> ExtendedError {
        let guard = &mut self.guard;
        let command = match guard.get(self.thread, thread::ERROR_RETURN) {
            0 => BR_OK,
            error => error,
        };
        let id = guard.get(self.thread, thread::ERROR_NUMBER) as u32;
        let param = guard.get(self.thread, thread::ERROR_PARAM);
        guard.set(self.thread, thread::ERROR_NUMBER, 0);
        guard.set(self.thread, thread::ERROR_RETURN, 0);
        guard.set(self.thread, thread::ERROR_PARAM, 0);
        ExtendedError { id, command, param }
    }
}

impl Guard<'_> {
    /// Requests notification of whether the owner of the node behind `handle` is frozen: now, and
    /// on each change. A request for a dead node is accepted, but nothing follows.
    pub(crate) fn request_freeze(&mut self, by: Id<Process>, handle: u32, cookie: u64) -> Result<(), Errno> {
        let id = self.find_ref(by, handle.into(), Strength::Weak).ok_or(Errno::INVAL)?;
        if self.get(id, reference::FREEZE).is_some() {
            return Err(Errno::INVAL);
        }
        let entry = self.new_work(Kind::FrozenBinder, cookie)?;
        self.set(id, reference::FREEZE, Some(entry));
        let owner = self.get(id, reference::NODE).and_then(|target| self.get(target, node::PROCESS));
        if let Some(owner) = owner {
            let is_frozen = self.get(owner, process::FROZEN);
            self.set(entry, work::IS_FROZEN, is_frozen);
            self.push(process::TODO.queue(by), entry);
            self.wake_process(by);
        }
        Ok(())
    }

    /// Cancels such a request. One made with another cookie stays.
    pub(crate) fn clear_freeze(&mut self, by: Id<Process>, handle: u32, cookie: u64) -> Result<(), Errno> {
        let id = self.find_ref(by, handle.into(), Strength::Weak).ok_or(Errno::INVAL)?;
        let entry = self.get(id, reference::FREEZE).ok_or(Errno::INVAL)?;
        if self.get(entry, work::PAYLOAD) != cookie {
            return Err(Errno::INVAL);
        }
        self.set(id, reference::FREEZE, None);
        // A queued notification is turned into the confirmation that it was cleared.
        self.set(entry, work::KIND, Kind::ClearFreeze as u32);
        if self.get(entry, work::QUEUE) == 0 {
            self.push(process::TODO.queue(by), entry);
            self.wake_process(by);
        } else if self.is_delivered_freeze(by, entry) {
            self.set(entry, work::RESEND, true);
        }
        Ok(())
    }

    /// `BC_FREEZE_NOTIFICATION_DONE`. A change since the notification was delivered is reported
    /// now.
    pub(crate) fn freeze_done(&mut self, by: Id<Process>, cookie: u64) -> Result<(), Errno> {
        let mut next = self.front(process::FREEZE_DELIVERED.queue(by));
        while let Some(entry) = self.step(next) {
            if self.get(entry, work::PAYLOAD) == cookie {
                self.unqueue(entry);
                if self.get(entry, work::RESEND) {
                    self.set(entry, work::RESEND, false);
                    self.push(process::TODO.queue(by), entry);
                    self.wake_process(by);
                }
                return Ok(());
            }
            next = self.get(entry, work::NEXT);
        }
        Err(Errno::INVAL)
    }

    /// Whether a freeze notification was delivered and is not yet acknowledged.
    fn is_delivered_freeze(&self, to: Id<Process>, entry: Id<Work>) -> bool {
        self.get(entry, work::QUEUE) == process::FREEZE_DELIVERED.queue(to).0 as u64
    }

    /// Notifies all processes with a freeze notification for a node of `owner`, ordered by node,
    /// that it is frozen or thawed. Committed in steps, each of which can be repeated.
    pub(crate) fn notify_freeze(&mut self, owner: Id<Process>, is_frozen: bool) {
        let mut nodes = Vec::new();
        let mut next = self.get(owner, process::NODES);
        while let Some(id) = self.step(next) {
            next = self.get(id, node::NEXT);
            // Most nodes have no references.
            if self.get(id, node::REFS).is_some() {
                nodes.push(id);
            }
        }
        nodes.sort_by_key(|&id| self.get(id, node::PTR));
        for id in nodes {
            let mut next = self.get(id, node::REFS);
            while let Some(holder) = self.step(next) {
                next = self.get(holder, reference::NEXT);
                if let (Some(entry), Some(to)) =
                    (self.get(holder, reference::FREEZE), self.get(holder, reference::PROCESS))
                {
                    self.queue_freeze(to, entry, is_frozen);
                    self.commit();
                }
            }
        }
    }

    fn queue_freeze(&mut self, to: Id<Process>, entry: Id<Work>, is_frozen: bool) {
        let changed = self.get(entry, work::IS_FROZEN) != is_frozen;
        self.set(entry, work::IS_FROZEN, is_frozen);
        if self.get(entry, work::QUEUE) == 0 {
            self.push(process::TODO.queue(to), entry);
            self.wake_process(to);
        } else if changed && self.is_delivered_freeze(to, entry) {
            self.set(entry, work::RESEND, true);
        }
    }

    fn processes_of(&self, pid: u32) -> Vec<Id<Process>> {
        (1..PROCESSES as u64)
            .filter_map(Id::<Process>::new)
            .filter(|&slot| {
                self.get(slot, process::STATE) == LIVE && self.get(slot, process::PID) == pid.cast_signed()
            })
            .collect()
    }

    /// Whether a process has incoming transactions, or waits for a reply.
    fn has_transactions(&self, of: Id<Process>) -> bool {
        self.has_unserved(of) || self.any_thread(of, |id| self.get(id, thread::STACK).is_some())
    }

    /// Whether a process has transactions (including replies) that it has not served or read
    /// completely.
    fn has_unserved(&self, of: Id<Process>) -> bool {
        self.holds_transaction(process::TODO.queue(of))
            || self.any_thread(of, |id| self.holds_transaction(thread::TODO.queue(id)) || self.serves(id))
            || self.any_node(of, |id| self.holds_transaction(node::ASYNC_TODO.queue(id)))
    }

    fn any_thread(&self, of: Id<Process>, test: impl Fn(Id<Thread>) -> bool) -> bool {
        let mut next = self.get(of, process::THREADS_HEAD);
        while let Some(id) = self.step(next) {
            if test(id) {
                return true;
            }
            next = self.get(id, thread::NEXT);
        }
        false
    }

    fn any_node(&self, of: Id<Process>, test: impl Fn(Id<Node>) -> bool) -> bool {
        let mut next = self.get(of, process::NODES);
        while let Some(id) = self.step(next) {
            if test(id) {
                return true;
            }
            next = self.get(id, node::NEXT);
        }
        false
    }

    fn holds_transaction(&self, queue: Queue) -> bool {
        let mut next = self.front(queue);
        while let Some(entry) = self.step(next) {
            if self.kind(entry) == Some(Kind::Transaction) {
                return true;
            }
            next = self.get(entry, work::NEXT);
        }
        false
    }

    /// Whether a thread owes a reply, perhaps while waiting for a call of its own.
    fn serves(&self, id: Id<Thread>) -> bool {
        let mut next = self.get(id, thread::STACK);
        while let Some(t) = self.step(next) {
            if self.get(t, transaction::TO_THREAD) == Some(id) {
                return true;
            }
            next = self.get(t, transaction::FROM_PARENT);
        }
        false
    }
}
