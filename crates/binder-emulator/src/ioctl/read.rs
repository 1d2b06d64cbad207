//! The returns of one `BINDER_WRITE_READ`: when a read waits (as in the kernel's
//! `binder_thread_read`, `binder.c`), and how.

use std::time::Instant;

use rustix::io::Errno;

use super::Ioctl;
use super::out::Out;
use crate::queue::Kind;
use crate::records::{process, thread, transaction};
use crate::sleep::{self, Slept};
use crate::thread::{LOOPER_ENTERED, LOOPER_POLL, LOOPER_REGISTERED};
use crate::{inheritance, pi_futex, sched};
use roundtrip_binder_driver::Profile;
use roundtrip_binder_driver::uapi::{BR_NOOP, BR_SPAWN_LOOPER};

impl Ioctl<'_> {
    /// Waits for returns, writes them to `room`, and returns their length. `gone` says when to stop
    /// waiting. Without `wait`, it fails with EAGAIN instead of waiting. If the room is smaller
    /// than the largest return, a `BR_NOOP` is written as soon as there is work, and the work
    /// stays; if there is no room, nothing is read (`binder_thread_read`,
    /// `binder_ioctl_write_read`). A signal ends the wait with EINTR (`binder_wait_for_work`); the
    /// commands were carried out before.
    pub(crate) fn read(
        &mut self,
        room: &mut [u8],
        wait: bool,
        gone: &dyn Fn() -> bool,
    ) -> Result<usize, Errno> {
        if room.is_empty() {
            return Ok(0);
        }
        if room.len() < 4 {
            return Err(Errno::INVAL);
        }
        let mut out = Out { room, used: 0 };
        out.put(BR_NOOP, &[]);
        loop {
            // Determined before the wait, as in the kernel: work that arrives for the process while
            // the thread waits for its own work is not for this thread.
            let for_process = self.may_take_process_work();
            if for_process
                && !self.keeps_priority()
                && let Some(own) = self.guard.priority_to_wait_at(self.profile, self.thread)
            {
                self.guard.set_priority(self.profile, self.thread, own);
            }
            while !self.has_work(for_process) {
                if !wait {
                    return Err(Errno::AGAIN);
                }
                // Under the lock: a thread that finds the supervisor gone sets this before it takes
                // the lock to wake all sleepers.
                if gone() {
                    return Err(Errno::NODEV);
                }
                if for_process {
                    self.guard.start_waiting(self.process, self.thread);
                }
                let traps = self.will_sleep(for_process);
                self.guard.unlock();
                let slept = sleep::sleep(self.guard.region(), self.thread, traps);
                inheritance::learn(self.guard.region(), self.thread);
                self.guard.relock();
                self.guard.stop_waiting(self.process, self.thread);
                if slept == Slept::Interrupted && !self.has_work(for_process) {
                    return Err(Errno::INTR);
                }
            }
            let full = self.drain(for_process, &mut out)?;
            if full || out.used > 4 || self.guard.get(self.thread, thread::NEED_RETURN) {
                break;
            }
        }
        self.ask_for_looper(&mut out);
        // Work that this thread leaves to others.
        if self.guard.front(process::TODO.queue(self.process)).is_some() {
            self.guard.wake_process(self.process);
        }
        Ok(out.used)
    }

    /// Whether a read would find something; waits for that until `deadline` (`binder_poll`). A
    /// signal ends the wait with EINTR. Flags for the next read are kept.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, gone: &dyn Fn() -> bool) -> Result<bool, Errno> {
        let looper = self.guard.get(self.thread, thread::LOOPER) | LOOPER_POLL;
        self.guard.set(self.thread, thread::LOOPER, looper);
        loop {
            let for_process = self.may_take_process_work();
            if self.has_work(for_process) {
                return Ok(true);
            }
            if gone() {
                return Err(Errno::NODEV);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(false);
            }
            if for_process && pi_futex::is_raised() {
                self.guard.is_boosted_no_longer(self.thread);
            }
            self.guard.set_polling(self.process, self.thread, true);
            sleep::will_poll(self.guard.region(), self.thread);
            self.guard.unlock();
            let slept = sleep::sleep_until(self.guard.region(), self.thread, deadline);
            inheritance::learn(self.guard.region(), self.thread);
            self.guard.relock();
            self.guard.set_polling(self.process, self.thread, false);
            if slept == Slept::Interrupted && !self.has_work(self.may_take_process_work()) {
                return Err(Errno::INTR);
            }
        }
    }

    /// Prepares this thread's sleep. True: it sleeps in seccomp.
    fn will_sleep(&mut self, for_process: bool) -> bool {
        if pi_futex::is_raised() {
            if for_process {
                self.guard.is_boosted_no_longer(self.thread);
            } else {
                self.guard.pass_on(self.thread);
            }
        }
        if !for_process && self.guard.will_boost(self.thread) {
            return false;
        }
        let runs_at = sched::Priority::from_word(self.guard.get(self.thread, thread::PRIORITY));
        let fair = !inheritance::avoids_seccomp() && !runs_at.is_some_and(sched::Priority::is_realtime);
        sleep::will_sleep(self.guard.region(), self.thread, fair)
    }

    /// Whether this thread keeps the priority that it inherited, because the next work of the
    /// process is a call that it can take. It serves that call at its caller's priority at once; at
    /// its own priority this thread might not get to run.
    pub(crate) fn keeps_priority(&self) -> bool {
        if self.profile != Profile::Ack || self.guard.get(self.thread, thread::STACK).is_some() {
            return false;
        }
        let next = self.guard.front(process::TODO.queue(self.process));
        let t = next.filter(|&next| self.guard.kind(next) == Some(Kind::Transaction));
        let t = t.and_then(|next| self.guard.transaction_of(next));
        t.is_some_and(|t| self.guard.get(t, transaction::NEED_REPLY))
    }

    fn may_take_process_work(&self) -> bool {
        self.guard.get(self.thread, thread::STACK).is_none()
            && self.guard.front(thread::TODO.queue(self.thread)).is_none()
    }

    fn has_work(&self, for_process: bool) -> bool {
        self.guard.get(self.thread, thread::HAS_WORK)
            || self.guard.get(self.thread, thread::NEED_RETURN)
            || (for_process && self.guard.front(process::TODO.queue(self.process)).is_some())
    }

    /// Writes `BR_SPAWN_LOOPER` in place of the first return, if no thread is left for the next
    /// transaction.
    fn ask_for_looper(&mut self, out: &mut Out<'_>) {
        let guard = &mut self.guard;
        let owner = self.process;
        if guard.get(owner, process::REQUESTED) == 0
            && guard.get(owner, process::WAITING).is_none()
            && guard.get(owner, process::STARTED) < guard.get(owner, process::MAX_THREADS)
            && guard.get(self.thread, thread::LOOPER) & (LOOPER_ENTERED | LOOPER_REGISTERED) != 0
        {
            guard.set(owner, process::REQUESTED, 1);
            out.replace_first(BR_SPAWN_LOOPER);
        }
    }
}
