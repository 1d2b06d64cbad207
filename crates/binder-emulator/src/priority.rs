//! The priority of a server thread during a call: the rules of two kernels.
//!
//! ACK (Android's common kernel, `binder_transaction_priority`): the sender sets the receiver's
//! policy and priority before the wake-up. Mainline (`binder_thread_read`): the receiver takes over
//! the sender's nice value once it runs. After its reply the server returns to its own priority. A
//! real-time priority that may not be set is inherited through a PI futex (`reply_lock.rs`). Any
//! other priority is then not inherited, which is counted.

use std::sync::atomic::Ordering::Relaxed;

use roundtrip_vocabulary::InheritBy;
use rustix::io::Errno;

use crate::inheritance;
use crate::lock::Guard;
use crate::mutex::own_tid;
use crate::queue::Kind;
use crate::records::{Id, POLICY_SET_LAST, Process, Thread, Transaction, process, thread, transaction, work};
use crate::region::Region;
use crate::sched::{self, BATCH, FIFO, OTHER, Priority, RR};
use crate::thread::{LOOPER_ENTERED, LOOPER_EXITED, LOOPER_INVALID, LOOPER_REGISTERED};
use roundtrip_binder_driver::Profile;
use roundtrip_binder_driver::uapi::{
    FLAT_BINDER_FLAG_INHERIT_RT, FLAT_BINDER_FLAG_PRIORITY_MASK, FLAT_BINDER_FLAG_SCHED_POLICY_MASK,
    FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT,
};

/// The priority that a transaction of the calling thread carries.
pub(crate) fn of_caller(profile: Profile) -> Option<Priority> {
    let now = sched::get(0).ok()?;
    match profile {
        Profile::Ack => matches!(now.policy, OTHER | BATCH | FIFO | RR).then_some(now),
        // The nice value is used, also for a real-time thread.
        Profile::Mainline if now.level >= 100 => Some(Priority::nice(now.level.saturating_sub(120))),
        Profile::Mainline => rustix::process::getpriority_process(None).ok().map(Priority::nice),
    }
}

/// ACK: the priority that the server should run at. `None`: no change.
fn ack(caller: Priority, flags: u32, server: Priority) -> Option<Priority> {
    let mut wanted = caller;
    if wanted.is_realtime() && flags & FLAT_BINDER_FLAG_INHERIT_RT == 0 {
        wanted = Priority::nice(0);
    }
    let least = least_of(flags);
    if least.level < wanted.level || (least.level == wanted.level && least.policy == FIFO) {
        wanted = least;
    }
    // A thread that is real-time by itself is raised, never lowered.
    let lowered = server.is_realtime() && server.level <= wanted.level;
    (wanted != server && !lowered).then_some(wanted)
}

/// The minimum policy and priority that a node's flags ask for (ACK).
fn least_of(flags: u32) -> Priority {
    let number = i32::from((flags & FLAT_BINDER_FLAG_PRIORITY_MASK) as u8 as i8);
    match (flags & FLAT_BINDER_FLAG_SCHED_POLICY_MASK) >> FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT {
        policy @ (FIFO | RR) => Priority { policy, level: 99_i32.saturating_sub(number.clamp(1, 99)) },
        policy => Priority { policy, ..Priority::nice(number) },
    }
}

/// Mainline: the nice value that the server should run at. `None`: no change.
fn mainline(caller: Priority, flags: u32, server: Priority, oneway: bool) -> Option<Priority> {
    let least = 120_i32.saturating_add((flags & FLAT_BINDER_FLAG_PRIORITY_MASK) as i32);
    let level = if caller.level < least && !oneway {
        caller.level
    } else if !oneway || server.level > least {
        least
    } else {
        return None;
    };
    (level != server.level).then(|| Priority::nice(level.saturating_sub(120)))
}

impl Guard<'_> {
    /// Thread `to` inherits the priority of transaction `t`, for a node with `flags`, unless it
    /// already has. For the ACK profile the sender calls this for the thread that it chose;
    /// otherwise the receiver calls it for itself.
    pub(crate) fn inherit_priority(
        &mut self,
        profile: Profile,
        t: Id<Transaction>,
        flags: u32,
        to: Id<Thread>,
    ) {
        if self.get(t, transaction::PRIORITY_SET) {
            return;
        }
        self.set(t, transaction::PRIORITY_SET, true);
        if profile == Profile::Mainline {
            self.learn_nice(to);
        }
        let now = self.get(to, thread::PRIORITY);
        // A thread that is about to wait, or that was boosted early, may still have a caller's
        // priority.
        let comes = profile == Profile::Ack && self.get(to, thread::STACK).is_none();
        let server = if comes { self.get(to, thread::OWN_PRIORITY) } else { now };
        self.set(t, transaction::SAVED_PRIORITY, server);
        let oneway = self.get(t, transaction::FLAGS) & roundtrip_binder_driver::uapi::TF_ONE_WAY != 0;
        let (Some(caller), Some(server)) =
            (Priority::from_word(self.get(t, transaction::PRIORITY)), Priority::from_word(server))
        else {
            return;
        };
        let wanted = match profile {
            Profile::Ack => ack(caller, flags, server),
            Profile::Mainline => mainline(caller, flags, server, oneway),
        };
        let wanted = wanted.or((server.to_word() != now).then_some(server));
        if let Some(wanted) = wanted.filter(|wanted| wanted.to_word() != now) {
            self.inherit(profile, t, flags, to, wanted);
        }
    }

    /// ACK: transaction `t` of a real-time caller, to a node with `flags`, is queued for process
    /// `owner`, where no thread waits. A looper inherits its priority if it has answered its last
    /// call, has no other, and is about to wait. At its own priority it might not get there while
    /// threads of higher priority run, and the caller would wait for them.
    pub(crate) fn boost_looper_early(&mut self, t: Id<Transaction>, flags: u32, owner: Id<Process>) {
        let Some(caller) = Priority::from_word(self.get(t, transaction::PRIORITY)) else { return };
        if !caller.is_realtime() {
            return;
        }
        let mut next = self.get(owner, process::THREADS_HEAD);
        while let Some(id) = self.step(next) {
            next = self.get(id, thread::NEXT);
            let state = self.get(id, thread::LOOPER);
            let serves = state & (LOOPER_ENTERED | LOOPER_REGISTERED) != 0
                && state & (LOOPER_EXITED | LOOPER_INVALID) == 0
                && self.get(id, thread::STACK).is_none()
                && !self.has_call(id);
            let own = Priority::from_word(self.get(id, thread::OWN_PRIORITY));
            let now = Priority::from_word(self.get(id, thread::PRIORITY));
            let (Some(own), Some(now)) = (own.filter(|_| serves), now) else { continue };
            if let Some(wanted) = ack(caller, flags, own).filter(|wanted| wanted.level < now.level) {
                return self.inherit(Profile::Ack, t, flags, id, wanted);
            }
        }
    }

    /// Whether a sender has chosen this thread for a call that it has not taken yet. It is as busy
    /// as a serving thread: that call's priority is already set, and another one set now would
    /// remain. For a transaction in the process's queue, the Android kernel boosts no thread
    /// until one takes it (`binder_proc_transaction`, `binder_thread_read`).
    fn has_call(&mut self, of: Id<Thread>) -> bool {
        let mut next = self.front(thread::TODO.queue(of));
        while let Some(entry) = self.step(next) {
            if self.kind(entry) == Some(Kind::Transaction) {
                return true;
            }
            next = self.get(entry, work::NEXT);
        }
        false
    }

    /// Thread `to` inherits `wanted`, for transaction `t` to a node with `flags`: by its policy, or
    /// through a PI futex. Only a real-time caller's own priority can be inherited through that,
    /// not a node's minimum.
    fn inherit(
        &mut self,
        profile: Profile,
        t: Id<Transaction>,
        flags: u32,
        to: Id<Thread>,
        wanted: Priority,
    ) {
        let owner = self.get(to, thread::PROCESS);
        let may_hold = profile == Profile::Ack
            && flags & FLAT_BINDER_FLAG_INHERIT_RT != 0
            && Priority::from_word(self.get(t, transaction::PRIORITY)) == Some(wanted)
            && wanted.is_realtime();
        let way = match inheritance::inherit_by(self.get(t, transaction::INHERIT_BY)) {
            InheritBy::Auto if !may_hold => InheritBy::Policy,
            // A thread that is boosted already need not be refused again.
            InheritBy::Auto if self.get(t, transaction::INHERITED_BY) == Some(to) => InheritBy::PiFutex,
            InheritBy::Auto if owner.is_some_and(|owner| self.was_refused(owner)) => InheritBy::PiFutex,
            InheritBy::PiFutex if !may_hold => InheritBy::Policy,
            way => way,
        };
        if way == InheritBy::PiFutex {
            return self.boost_by_lock(t, to, wanted);
        }
        match (self.try_priority(profile, to, wanted), owner) {
            (Err(Errno::PERM), Some(owner)) if may_hold && way == InheritBy::Auto => {
                self.remember_refusal(owner);
                self.boost_by_lock(t, to, wanted);
            }
            (Err(_), Some(owner)) => self.count_denied(owner),
            _ => {}
        }
    }

    /// The priority to set for the calling thread so that it has `saved` again: after a reply, the
    /// one it had before it served.
    pub(crate) fn priority_to_restore(
        &mut self,
        profile: Profile,
        by: Id<Thread>,
        saved: u64,
    ) -> Option<Priority> {
        if profile == Profile::Mainline {
            self.learn_nice(by);
        }
        (saved != 0 && saved != self.get(by, thread::PRIORITY)).then(|| Priority::from_word(saved)).flatten()
    }

    /// The priority to set for the calling thread before it waits for work of the process: its own,
    /// which a oneway transaction may have changed; with the mainline kernel, the nice value that
    /// the opener of the device had then.
    pub(crate) fn priority_to_wait_at(&mut self, profile: Profile, by: Id<Thread>) -> Option<Priority> {
        let own = match (profile, self.get(by, thread::PROCESS)) {
            (Profile::Mainline, Some(owner)) => self.get(owner, process::DEFAULT_PRIORITY),
            _ => self.get(by, thread::OWN_PRIORITY),
        };
        self.priority_to_restore(profile, by, own)
    }

    /// Mainline: reads the calling thread's nice value, which it may have changed since. For a
    /// real-time thread too, where it has no effect now.
    fn learn_nice(&mut self, own: Id<Thread>) {
        let nice =
            rustix::process::getpriority_process(None).map_or(0, |nice| Priority::nice(nice).to_word());
        if self.get(own, thread::PRIORITY) != nice {
            self.set(own, thread::PRIORITY, nice);
        }
    }

    /// Sets a thread's policy and priority, under the lock: after the unlock, the thread could
    /// already have replied and restored its own.
    pub(crate) fn set_priority(&mut self, profile: Profile, of: Id<Thread>, to: Priority) {
        if self.try_priority(profile, of, to).is_err()
            && let Some(owner) = self.get(of, thread::PROCESS)
        {
            self.count_denied(owner);
        }
    }

    fn try_priority(&mut self, profile: Profile, of: Id<Thread>, to: Priority) -> Result<(), Errno> {
        match profile {
            // Sets the calling thread's nice value, whatever its policy.
            Profile::Mainline => rustix::process::setpriority_process(None, to.level.saturating_sub(120))?,
            Profile::Ack => {
                // If the calling thread is killed before it commits, the journal does not cover the
                // policy.
                self.region().words()[POLICY_SET_LAST].store(of.index() as u64, Relaxed);
                Region::order();
                sched::set(self.tid_to_set(of)?, to)?;
            }
        }
        self.set(of, thread::PRIORITY, to.to_word());
        Ok(())
    }

    /// The thread's id, if it belongs to a participant. No other thread's policy is set, whatever
    /// the record says.
    fn tid_to_set(&self, of: Id<Thread>) -> Result<i32, Errno> {
        let tid = self.get(of, thread::TID);
        let owner = self.get(of, thread::PROCESS).ok_or(Errno::SRCH)?;
        let own = tid == own_tid().cast_signed();
        (own || self.region().registry().is_thread_of(owner, tid)).then_some(tid).ok_or(Errno::PERM)
    }

    /// After the operation of a dead process was undone: also restores the policy of the thread
    /// that it may have changed.
    pub(crate) fn undo_last_policy(&mut self) {
        let last = self.region().words()[POLICY_SET_LAST].swap(0, Relaxed);
        let Some(last) = Id::<Thread>::new(last) else { return };
        if let Some(before) = Priority::from_word(self.get(last, thread::PRIORITY)) {
            // Without permission this stays until the thread next waits.
            let _ = self.tid_to_set(last).and_then(|tid| sched::set(tid, before));
        }
    }

    fn count_denied(&mut self, owner: Id<Process>) {
        let denied = self.get(owner, process::DENIED).saturating_add(1);
        self.set(owner, process::DENIED, denied);
    }
}

#[cfg(test)]
mod tests;
