//! Frozen processes (`BINDER_FREEZE`, `BINDER_GET_FROZEN_INFO`), and what a thread is told of its last transaction.
//!
//! As the kernel's `binder_ioctl_freeze`: whether a process has unfinished transactions is found by looking at its queues
//! when someone asks, so that no transaction pays for a count.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::ioctl::Ioctl;
use crate::lock::Guard;
use crate::process::LIVE;
use crate::queue::Kind;
use crate::records::{Id, Node, PROCESSES, Process, Queue, Thread, node, process, thread, transaction, work};
use binder_driver::uapi::{BR_OK, ExtendedError, FrozenStatusInfo};

/// How often a thread that freezes a process looks whether its transactions have ended.
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
            if !frozen {
                continue;
            }
            self.wait_until_idle(target, timeout_ms, gone)?;
            if self.guard.has_transactions(target) {
                self.guard.set(target, process::FROZEN, false);
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    }

    /// Waits until `target` has no transaction to serve, at most `timeout_ms` milliseconds. Should this thread be killed here,
    /// the process is not frozen any more, as if a signal had ended the kernel's wait.
    fn wait_until_idle(
        &mut self,
        target: Id<Process>,
        timeout_ms: u32,
        gone: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        let generation = self.guard.get(target, process::GENERATION);
        let (begin, most) = (Instant::now(), Duration::from_millis(timeout_ms.into()));
        self.guard.set(self.thread, thread::FREEZING, Some(target));
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
        self.guard.set(self.thread, thread::FREEZING, None);
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

    /// `BINDER_GET_EXTENDED_ERROR`: tells it once.
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
    fn processes_of(&self, pid: u32) -> Vec<Id<Process>> {
        (1..PROCESSES as u64)
            .filter_map(Id::<Process>::new)
            .filter(|&slot| {
                self.get(slot, process::STATE) == LIVE && self.get(slot, process::PID) == pid.cast_signed()
            })
            .collect()
    }

    /// Whether a process has transactions that came for it, or waits for a reply.
    fn has_transactions(&self, of: Id<Process>) -> bool {
        self.has_unserved(of) || self.any_thread(of, |id| self.get(id, thread::STACK).is_some())
    }

    /// Whether a process has transactions, which include replies, that it has not served or read to the end.
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

    /// Whether a thread owes a reply, perhaps below a call of its own.
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
