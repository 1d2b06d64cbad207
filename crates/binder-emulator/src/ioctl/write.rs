//! The commands of one `BINDER_WRITE_READ`, in the order of the kernel's `binder_thread_write`
//! (`binder.c`).

use rustix::io::Errno;

use super::Ioctl;
use crate::node::Strength;
use crate::records::{node, process, thread};
use crate::thread::{LOOPER_ENTERED, LOOPER_EXITED, LOOPER_INVALID, LOOPER_REGISTERED};
use roundtrip_binder_driver::uapi::{PtrCookie, TransactionData, TransactionDataSg};
use roundtrip_binder_driver::{Command, Commands};

impl Ioctl<'_> {
    /// Carries out the pending commands. Stops at a refused one until the thread has read the
    /// refusal.
    pub(crate) fn write(&mut self, commands: &mut Commands) -> Result<(), Errno> {
        while !commands.is_empty() && self.guard.get(self.thread, thread::RETURN_ERROR) == 0 {
            let pending = commands.pending();
            let (command, size) = Command::parse(pending).ok_or_else(|| Command::refusal(pending))?;
            self.execute(command)?;
            commands.consume(size);
            self.guard.commit();
        }
        Ok(())
    }

    fn execute(&mut self, command: Command) -> Result<(), Errno> {
        match command {
            Command::Transaction(data) => self.transaction(&without_buffers(data)),
            Command::TransactionSg(data) => self.transaction(&data),
            Command::Reply(data) => self.reply(&without_buffers(data)),
            Command::ReplySg(data) => self.reply(&data),
            Command::FreeBuffer(address) => {
                let area = self.guard.get(self.process, process::AREA_ADDRESS);
                let offset = address.wrapping_sub(area);
                if self.guard.user_frees_buffer(self.process, offset) {
                    self.close_array_of(offset);
                }
            }
            Command::Increfs(handle) => self.count_handle(handle, Strength::Weak, true)?,
            Command::Acquire(handle) => self.count_handle(handle, Strength::Strong, true)?,
            Command::Release(handle) => self.count_handle(handle, Strength::Strong, false)?,
            Command::Decrefs(handle) => self.count_handle(handle, Strength::Weak, false)?,
            Command::IncrefsDone(named) => self.count_done(named, Strength::Weak),
            Command::AcquireDone(named) => self.count_done(named, Strength::Strong),
            Command::RegisterLooper => {
                let requested = self.guard.get(self.process, process::REQUESTED);
                let wrong =
                    self.guard.get(self.thread, thread::LOOPER) & LOOPER_ENTERED != 0 || requested == 0;
                if !wrong {
                    self.guard.add(self.process, process::REQUESTED, -1);
                    self.guard.add(self.process, process::STARTED, 1);
                }
                self.enter(LOOPER_REGISTERED, wrong);
            }
            Command::EnterLooper => {
                let wrong = self.guard.get(self.thread, thread::LOOPER) & LOOPER_REGISTERED != 0;
                self.enter(LOOPER_ENTERED, wrong);
            }
            Command::ExitLooper => self.enter(LOOPER_EXITED, false),
            Command::RequestDeathNotification(target) => {
                self.guard.request_death(self.process, target.handle, target.cookie)?;
            }
            Command::ClearDeathNotification(target) => {
                self.guard.clear_death(self.thread, self.process, target.handle, target.cookie);
            }
            Command::DeadBinderDone(cookie) => self.guard.death_done(self.thread, self.process, cookie),
            Command::RequestFreezeNotification(target) => {
                self.guard.request_freeze(self.process, target.handle, target.cookie)?;
            }
            Command::ClearFreezeNotification(target) => {
                self.guard.clear_freeze(self.process, target.handle, target.cookie)?;
            }
            Command::FreezeNotificationDone(cookie) => self.guard.freeze_done(self.process, cookie)?,
        }
        Ok(())
    }

    fn enter(&mut self, state: u32, wrong: bool) {
        let looper =
            self.guard.get(self.thread, thread::LOOPER) | state | if wrong { LOOPER_INVALID } else { 0 };
        self.guard.set(self.thread, thread::LOOPER, looper);
        self.guard.learn_own_priority(self.thread);
    }

    /// Changes a count on a handle. Wrong handles are ignored, as in the kernel, but the manager
    /// must not count references on handle 0.
    fn count_handle(&mut self, handle: u32, strength: Strength, up: bool) -> Result<(), Errno> {
        let mark = self.guard.mark();
        let manager = (handle == 0 && up).then(|| self.guard.context_manager()).flatten();
        if manager.is_some_and(|manager| self.guard.get(manager, node::PROCESS) == Some(self.process)) {
            return Err(Errno::INVAL);
        }
        let held = self.guard.find_ref(self.process, handle.into(), Strength::Weak);
        let done = match (manager, held) {
            // The current manager, even if the process has a dead earlier one as handle 0.
            (Some(manager), _) => {
                self.guard.inc_ref_for_node(self.process, manager, strength, None).map(drop)
            }
            (None, Some(held)) if up => self.guard.inc_ref(held, strength, None),
            (None, Some(held)) => self.guard.dec_ref(held, strength),
            (None, None) => Ok(()),
        };
        if done.is_err() {
            self.guard.rollback_to(mark);
        }
        Ok(())
    }

    /// The owner of a node has carried out `BR_INCREFS` or `BR_ACQUIRE`.
    fn count_done(&mut self, named: PtrCookie, strength: Strength) {
        let Some(own) = self.guard.find_node(self.process, named.ptr) else { return };
        let pending = match strength {
            Strength::Strong => node::PENDING_STRONG,
            Strength::Weak => node::PENDING_WEAK,
        };
        let mark = self.guard.mark();
        let due = self.guard.get(own, node::COOKIE) == named.cookie && self.guard.get(own, pending);
        let mut done = Ok(());
        if due {
            self.guard.set(own, pending, false);
            done = self.guard.dec_node(own, strength, false);
        }
        if done.and_then(|()| self.guard.put_node(own)).is_err() {
            self.guard.rollback_to(mark);
        }
    }
}

fn without_buffers(data: TransactionData) -> TransactionDataSg {
    TransactionDataSg {
        target: data.target,
        cookie: data.cookie,
        code: data.code,
        flags: data.flags,
        sender_pid: data.sender_pid,
        sender_euid: data.sender_euid,
        data_size: data.data_size,
        offsets_size: data.offsets_size,
        buffer: data.buffer,
        offsets: data.offsets,
        buffers_size: 0,
    }
}
