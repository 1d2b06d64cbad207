//! One `BINDER_WRITE_READ` of one thread: its commands, then its returns.
//!
//! The order of what is read, and when a read waits, follow the kernel's `binder_thread_write` and
//! `binder_thread_read` (`binder.c`).

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use crate::descriptors::{Descriptors, Wanted};
use crate::inheritance::{self, Lending};
use crate::lock::Guard;
use crate::node::Strength;
use crate::pi_futex;
use crate::queue::Kind;
use crate::records::{
    Buffer, CONTEXT_MANAGER, Id, Node, Process, Thread, Transaction, Work, buffer, node, process, reference,
    thread, transaction, work,
};
use crate::sched;
use crate::sleep::{self, Slept};
use crate::thread::{LOOPER_ENTERED, LOOPER_EXITED, LOOPER_INVALID, LOOPER_POLL, LOOPER_REGISTERED};
use binder_driver::uapi::*;
use binder_driver::{Command, Commands, Lent, Profile};

/// A thread in the driver.
pub(crate) struct Ioctl<'a> {
    pub(crate) guard: Guard<'a>,
    pub(crate) process: Id<Process>,
    pub(crate) thread: Id<Thread>,
    pub(crate) profile: Profile,
    /// How this process's calls lend a real-time priority.
    pub(crate) lending: Lending,
    /// The memory that commands may name.
    pub(crate) lent: Lent<'a>,
    /// The real process that is calling.
    pub(crate) sender: u32,
    /// The user that this process was when it joined, or at its last call.
    pub(crate) euid: u32,
    pub(crate) descriptors: &'a Descriptors,
    /// The descriptors of the transaction that is being sent.
    pub(crate) sending: Vec<BorrowedFd<'a>>,
    /// What must be asked for before a transaction can be sent or delivered.
    pub(crate) wanted: Option<Wanted>,
    /// This process's own inbox cannot be had.
    pub(crate) inbox_missing: bool,
    /// The descriptors to close after the unlock.
    pub(crate) closing: Vec<OwnedFd>,
}

impl Ioctl<'_> {
    /// Carries out the pending commands. A refused one stops it until the thread has read the refusal.
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

    /// A count on a handle. Wrong handles are ignored, as by the kernel, but its manager must not count on handle 0.
    fn count_handle(&mut self, handle: u32, strength: Strength, up: bool) -> Result<(), Errno> {
        let mark = self.guard.mark();
        let manager = (handle == 0 && up).then(|| self.guard.context_manager()).flatten();
        if manager.is_some_and(|manager| self.guard.get(manager, node::PROCESS) == Some(self.process)) {
            return Err(Errno::INVAL);
        }
        let held = self.guard.find_ref(self.process, handle.into(), Strength::Weak);
        let done = match (manager, held) {
            // The manager of now, though the process may know an earlier one, dead, by handle 0.
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

    /// Waits for returns and writes them to `room`; gives their length. `gone` says when to give up waiting. Without
    /// `wait`, EAGAIN takes the place of waiting. Room for less than the largest return brings a `BR_NOOP` as soon as
    /// there is work, which stays, and none reads nothing (`binder_thread_read`, `binder_ioctl_write_read`). A signal
    /// ends the wait with EINTR (`binder_wait_for_work`); commands were carried out before.
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
            // Fixed before the wait, as in the kernel: work that arrives for the process while the thread waits for
            // its own is not this thread's.
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
                // Under the lock: whoever finds the keeper gone says so before it takes that to wake all sleepers.
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
    /// signal ends the wait with EINTR. What is noted for the next read stays.
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
                self.guard.is_lent_no_longer(self.thread);
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

    /// How this thread is going to sleep. True: in the trap.
    fn will_sleep(&mut self, for_process: bool) -> bool {
        if pi_futex::is_raised() {
            if for_process {
                self.guard.is_lent_no_longer(self.thread);
            } else {
                self.guard.pass_on(self.thread);
            }
        }
        if !for_process && self.guard.will_lend(self.thread) {
            return false;
        }
        let runs_at = sched::Priority::from_word(self.guard.get(self.thread, thread::PRIORITY));
        let fair = !inheritance::avoids_trap() && !runs_at.is_some_and(sched::Priority::is_realtime);
        sleep::will_sleep(self.guard.region(), self.thread, fair)
    }

    /// Whether this thread gives back nothing that it was lent, since what comes next for the process is a call, which it can take:
    /// that is served at its caller's priority at once, and at its own this thread may not get that far.
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

    /// Delivers what there is. True when some is left for want of room.
    fn drain(&mut self, for_process: bool, out: &mut Out<'_>) -> Result<bool, Errno> {
        loop {
            let own = self.guard.front(thread::TODO.queue(self.thread));
            let shared = || self.guard.front(process::TODO.queue(self.process)).filter(|_| for_process);
            let Some(entry) = self.guard.step(own.or_else(shared)) else {
                // Set without work, it would keep this thread from sleeping.
                if own.is_none() && self.guard.get(self.thread, thread::HAS_WORK) {
                    self.guard.set(self.thread, thread::HAS_WORK, false);
                }
                return if self.guard.is_tired() { Err(Errno::PROTO) } else { Ok(false) };
            };
            // The largest return must fit, as in the kernel, whatever this one is.
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
                // Its descriptors cannot be had yet: it is delivered again when they can.
                self.guard.rollback_to(mark);
                self.inbox_missing = self.fetch_wanted().is_err();
                continue;
            }
            self.guard.commit();
            if last {
                return Ok(false);
            }
        }
    }

    /// Turns an entry into returns. True when nothing must follow them in this read.
    fn deliver(&mut self, entry: Id<Work>, out: &mut Out<'_>) -> bool {
        let kind = self.guard.kind(entry);
        let payload = self.guard.get(entry, work::PAYLOAD);
        match kind {
            Some(Kind::Transaction) => {
                let t = self.guard.transaction_of(entry);
                self.guard.free(entry);
                t.is_some_and(|t| self.deliver_transaction(t, out))
            }
            Some(Kind::Complete) => {
                self.guard.free(entry);
                out.put(BR_TRANSACTION_COMPLETE, &[]);
                false
            }
            Some(Kind::CompleteSuspect) => {
                self.guard.free(entry);
                let told = self.guard.get(self.process, process::TELL_SPAM);
                out.put(if told { BR_ONEWAY_SPAM_SUSPECT } else { BR_TRANSACTION_COMPLETE }, &[]);
                false
            }
            Some(Kind::CompletePending) => {
                self.guard.free(entry);
                out.put(BR_TRANSACTION_PENDING_FROZEN, &[]);
                false
            }
            Some(Kind::ReturnError | Kind::ReplyError) => {
                let noted =
                    if kind == Some(Kind::ReturnError) { thread::RETURN_ERROR } else { thread::REPLY_ERROR };
                let error = self.guard.get(self.thread, noted);
                self.guard.set(self.thread, noted, 0);
                self.guard.free(entry);
                let known = matches!(error, BR_DEAD_REPLY | BR_FROZEN_REPLY | BR_TRANSACTION_COMPLETE);
                out.put(if known { error } else { BR_FAILED_REPLY }, &[]);
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
                // Its handler may make calls, which must not find other returns in the way.
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

    /// Tells the owner of a node which references others hold now.
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
        // Wherever this leads: `received` gives what lies in the own area only.
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
            guard.lend_priority(self.profile, t, node_flags, self.thread);
            out.put(BR_TRANSACTION, &data.to_bytes());
        } else {
            out.put(BR_REPLY, &data.to_bytes());
        }
        if target.is_some() && !oneway {
            let stack = guard.get(self.thread, thread::STACK);
            guard.set(t, transaction::TO_PARENT, stack);
            guard.set(t, transaction::TO_THREAD, Some(self.thread));
            guard.set(self.thread, thread::STACK, Some(t));
            guard.learn_what_is_lent(self.thread);
        } else {
            guard.detach_buffer(t);
            guard.free(t);
        }
        true
    }

    /// A transaction whose descriptors this process cannot have: its sender gets `BR_FAILED_REPLY`, or, for a reply, this
    /// thread. True when nothing must follow in this read.
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

    /// `BR_SPAWN_LOOPER`, in place of the first return, when no thread is left for the next transaction.
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

    /// `BINDER_SET_CONTEXT_MGR_EXT`.
    pub(crate) fn become_context_manager(&mut self, flags: u32) -> Result<(), Errno> {
        if self.guard.context_manager().is_some() {
            return Err(Errno::BUSY);
        }
        let object = FlatBinderObject { kind: BINDER_TYPE_BINDER, flags, binder: 0, cookie: 0 };
        // The process may have sent a node of that name before.
        let own = match self.guard.find_node(self.process, 0) {
            Some(known) => known,
            None => self.guard.new_node(self.process, &object)?,
        };
        self.guard.add(own, node::LOCAL_WEAK, 1);
        self.guard.add(own, node::LOCAL_STRONG, 1);
        self.guard.set(own, node::HAS_WEAK, true);
        self.guard.set(own, node::HAS_STRONG, true);
        self.guard.set_word(CONTEXT_MANAGER, own.index() as u64);
        Ok(())
    }

    /// `BINDER_GET_NODE_INFO_FOR_REF`.
    pub(crate) fn node_counts(&self, handle: u32) -> Result<(u32, u32), Errno> {
        let guard = &self.guard;
        let manager = guard.context_manager().ok_or(Errno::PERM)?;
        if guard.get(manager, node::PROCESS) != Some(self.process) {
            return Err(Errno::PERM);
        }
        let held = guard.find_ref(self.process, handle.into(), Strength::Strong).ok_or(Errno::INVAL)?;
        let target = guard.get(held, reference::NODE).ok_or(Errno::INVAL)?;
        let strong =
            guard.get(target, node::LOCAL_STRONG).saturating_add(guard.get(target, node::INTERNAL_STRONG));
        Ok((strong, guard.get(target, node::LOCAL_WEAK)))
    }

    /// How many strong and weak references the calling process has on a handle; for tests.
    pub(crate) fn handle_counts(&self, handle: u32) -> Option<(u32, u32)> {
        let held = self.guard.find_ref(self.process, handle.into(), Strength::Weak)?;
        Some((self.guard.get(held, reference::STRONG), self.guard.get(held, reference::WEAK)))
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

/// The read side's room.
struct Out<'r> {
    room: &'r mut [u8],
    used: usize,
}

impl Out<'_> {
    fn left(&self) -> usize {
        self.room.len().saturating_sub(self.used)
    }

    fn put(&mut self, word: u32, payload: &[u8]) {
        debug_assert_eq!(payload_size(word), payload.len());
        self.append(&word.to_ne_bytes());
        self.append(payload);
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let end = self.used.saturating_add(bytes.len());
        if let Some(room) = self.room.get_mut(self.used..end) {
            room.copy_from_slice(bytes);
            self.used = end;
        }
    }

    fn replace_first(&mut self, word: u32) {
        if let Some(first) = self.room.first_chunk_mut() {
            *first = word.to_ne_bytes();
        }
    }
}
