//! What priority a server thread runs at during a call: the rules of two kernels.
//!
//! ACK (Android's common kernel, `binder_transaction_priority`): the sender lends its policy and priority before the
//! wake-up. Mainline (`binder_thread_read`): the receiver takes over the sender's nice value once it runs.
//! The server's own priority comes back after its reply. A real-time priority that there is no permission to set is lent
//! through a futex (`hold.rs`). Without permission for another, nothing is lent, and that is counted.

use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use crate::inheritance::Lending;
use crate::lock::Guard;
use crate::mutex::own_tid;
use crate::queue::Kind;
use crate::records::{Id, LENT_LAST, Process, Thread, Transaction, process, thread, transaction, work};
use crate::region::Region;
use crate::sched::{self, BATCH, FIFO, OTHER, Priority, RR};
use crate::thread::{LOOPER_ENTERED, LOOPER_EXITED, LOOPER_INVALID, LOOPER_REGISTERED};
use binder_driver::Profile;
use binder_driver::uapi::{
    FLAT_BINDER_FLAG_INHERIT_RT, FLAT_BINDER_FLAG_PRIORITY_MASK, FLAT_BINDER_FLAG_SCHED_POLICY_MASK,
    FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT,
};

/// The priority that a transaction of the calling thread carries.
pub(crate) fn of_caller(profile: Profile) -> Option<Priority> {
    let now = sched::get(0).ok()?;
    match profile {
        Profile::Ack => matches!(now.policy, OTHER | BATCH | FIFO | RR).then_some(now),
        // The nice value counts, also that of a real-time thread.
        Profile::Mainline if now.level >= 100 => Some(Priority::nice(now.level.saturating_sub(120))),
        Profile::Mainline => rustix::process::getpriority_process(None).ok().map(Priority::nice),
    }
}

/// ACK: what the server should run at. `None`: as it does.
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

/// The least policy and priority that a node's flags ask for (ACK).
fn least_of(flags: u32) -> Priority {
    let number = i32::from((flags & FLAT_BINDER_FLAG_PRIORITY_MASK) as u8 as i8);
    match (flags & FLAT_BINDER_FLAG_SCHED_POLICY_MASK) >> FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT {
        policy @ (FIFO | RR) => Priority { policy, level: 99_i32.saturating_sub(number.clamp(1, 99)) },
        policy => Priority { policy, ..Priority::nice(number) },
    }
}

/// Mainline: the nice value that the server should run at. `None`: as it does.
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
    /// Lends the priority of transaction `t`, for a node with `flags`, to `to`, unless that was done already.
    /// For the ACK profile the sender calls this for the thread that it chose, else the receiver for itself.
    pub(crate) fn lend_priority(&mut self, profile: Profile, t: Id<Transaction>, flags: u32, to: Id<Thread>) {
        if self.get(t, transaction::PRIORITY_SET) {
            return;
        }
        self.set(t, transaction::PRIORITY_SET, true);
        if profile == Profile::Mainline {
            self.learn_nice(to);
        }
        let now = self.get(to, thread::PRIORITY);
        // One that comes to wait, or was hurried there, may still have a caller's.
        let comes = profile == Profile::Ack && self.get(to, thread::STACK).is_none();
        let server = if comes { self.get(to, thread::OWN_PRIORITY) } else { now };
        self.set(t, transaction::SAVED_PRIORITY, server);
        let oneway = self.get(t, transaction::FLAGS) & binder_driver::uapi::TF_ONE_WAY != 0;
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
            self.lend(profile, t, flags, to, wanted);
        }
    }

    /// ACK: transaction `t` of a real-time caller, to a node with `flags`, is queued for process `owner`, where no thread waits. Lends its
    /// priority to a looper that has answered its last call, was given no other, and is on its way to wait: that may not get there by itself
    /// as long as others compute at more than its own priority, and the caller would wait for them.
    pub(crate) fn hurry_looper(&mut self, t: Id<Transaction>, flags: u32, owner: Id<Process>) {
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
                return self.lend(Profile::Ack, t, flags, id, wanted);
            }
        }
    }

    /// Whether a sender has chosen this thread for a call that it has not taken yet. It is as busy as one that serves: that call's
    /// priority is set already, and whatever is set now would stay for it. The Android kernel raises nobody for a
    /// transaction that is queued for the process, only whoever takes it (`binder_proc_transaction`,
    /// `binder_thread_read`).
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

    /// Lends `wanted`, for transaction `t` to a node with `flags`, to thread `to`: by its policy, or through a futex. Only a
    /// real-time caller's own priority can be lent through that, not a node's least.
    fn lend(&mut self, profile: Profile, t: Id<Transaction>, flags: u32, to: Id<Thread>, wanted: Priority) {
        let owner = self.get(to, thread::PROCESS);
        let may_hold = profile == Profile::Ack
            && flags & FLAT_BINDER_FLAG_INHERIT_RT != 0
            && Priority::from_word(self.get(t, transaction::PRIORITY)) == Some(wanted)
            && wanted.is_realtime();
        let way = match Lending::from_word(self.get(t, transaction::LENDING)) {
            Lending::Auto if !may_hold => Lending::Policy,
            // Who is lent to already need not be refused once more.
            Lending::Auto if self.get(t, transaction::HELD_BY) == Some(to) => Lending::PiFutex,
            Lending::Auto if owner.is_some_and(|owner| self.was_refused(owner)) => Lending::PiFutex,
            Lending::PiFutex if !may_hold => Lending::Policy,
            way => way,
        };
        if way == Lending::PiFutex {
            return self.lend_by_hold(t, to, wanted);
        }
        match (self.try_priority(profile, to, wanted), owner) {
            (Err(Errno::PERM), Some(owner)) if may_hold && way == Lending::Auto => {
                self.remember_refusal(owner);
                self.lend_by_hold(t, to, wanted);
            }
            (Err(_), Some(owner)) => self.count_denied(owner),
            _ => {}
        }
    }

    /// What the calling thread must be set to, to have `saved` again: after a reply, what it had before it served.
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

    /// What the calling thread must be set to before it waits for work of the process: its own, which a oneway
    /// transaction may have changed; with the mainline kernel, the nice value that whoever opened the device had then.
    pub(crate) fn priority_to_wait_at(&mut self, profile: Profile, by: Id<Thread>) -> Option<Priority> {
        let own = match (profile, self.get(by, thread::PROCESS)) {
            (Profile::Mainline, Some(owner)) => self.get(owner, process::DEFAULT_PRIORITY),
            _ => self.get(by, thread::OWN_PRIORITY),
        };
        self.priority_to_restore(profile, by, own)
    }

    /// Mainline: the calling thread's nice value, which it may have changed since. That of a real-time thread too: it has
    /// no effect now.
    fn learn_nice(&mut self, own: Id<Thread>) {
        let nice =
            rustix::process::getpriority_process(None).map_or(0, |nice| Priority::nice(nice).to_word());
        if self.get(own, thread::PRIORITY) != nice {
            self.set(own, thread::PRIORITY, nice);
        }
    }

    /// Sets a thread's policy and priority, under the lock: were it done after the unlock, the thread could have
    /// replied and restored its own in between.
    pub(crate) fn set_priority(&mut self, profile: Profile, of: Id<Thread>, to: Priority) {
        if self.try_priority(profile, of, to).is_err()
            && let Some(owner) = self.get(of, thread::PROCESS)
        {
            self.count_denied(owner);
        }
    }

    fn try_priority(&mut self, profile: Profile, of: Id<Thread>, to: Priority) -> Result<(), Errno> {
        match profile {
            // The calling thread's nice value, whatever its policy.
            Profile::Mainline => rustix::process::setpriority_process(None, to.level.saturating_sub(120))?,
            Profile::Ack => {
                // Should the calling thread be killed before it commits, the journal does not know of the policy.
                self.region().words()[LENT_LAST].store(of.index() as u64, Relaxed);
                Region::order();
                sched::set(self.tid_to_set(of)?, to)?;
            }
        }
        self.set(of, thread::PRIORITY, to.to_word());
        Ok(())
    }

    /// The thread's id, if it is a participant's: nobody else's policy is set, whatever the thread's record says.
    fn tid_to_set(&self, of: Id<Thread>) -> Result<i32, Errno> {
        let tid = self.get(of, thread::TID);
        let owner = self.get(of, thread::PROCESS).ok_or(Errno::SRCH)?;
        let own = tid == own_tid().cast_signed();
        (own || self.region().roster().is_thread_of(owner, tid)).then_some(tid).ok_or(Errno::PERM)
    }

    /// After an operation of one that died was undone: so is what it may have done to another thread's policy.
    pub(crate) fn undo_last_policy(&mut self) {
        let last = self.region().words()[LENT_LAST].swap(0, Relaxed);
        let Some(last) = Id::<Thread>::new(last) else { return };
        if let Some(before) = Priority::from_word(self.get(last, thread::PRIORITY)) {
            // Without permission it stays so until the thread next waits.
            let _ = self.tid_to_set(last).and_then(|tid| sched::set(tid, before));
        }
    }

    fn count_denied(&mut self, owner: Id<Process>) {
        let denied = self.get(owner, process::DENIED).saturating_add(1);
        self.set(owner, process::DENIED, denied);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(priority: i32) -> Priority {
        Priority { policy: FIFO, level: 99 - priority }
    }

    #[test]
    fn ack_lends_real_time_only_to_nodes_that_inherit_it() {
        assert_eq!(ack(fifo(99), 0x900, Priority::nice(0)), Some(fifo(99)));
        assert_eq!(ack(fifo(99), 0x100, Priority::nice(0)), None);
        assert_eq!(ack(fifo(99), 0x100, Priority::nice(5)), Some(Priority::nice(0)));
    }

    #[test]
    fn ack_never_goes_below_the_nodes_least_or_a_real_time_servers_own() {
        assert_eq!(ack(Priority::nice(10), 0x332, Priority::nice(0)), Some(fifo(50)));
        assert_eq!(ack(Priority::nice(10), 0x100, Priority::nice(0)), None);
        assert_eq!(ack(Priority::nice(10), 0x113, Priority::nice(0)), Some(Priority::nice(10)));
        assert_eq!(ack(Priority::nice(0), 0x900, fifo(10)), None);
        assert_eq!(ack(fifo(20), 0x900, fifo(10)), Some(fifo(20)));
        assert_eq!(ack(fifo(5), 0x900, fifo(10)), None);
    }

    #[test]
    fn mainline_takes_the_lower_of_the_callers_nice_and_the_nodes_unsigned_least() {
        assert_eq!(mainline(Priority::nice(-10), 0x100, Priority::nice(0), false), Some(Priority::nice(-10)));
        assert_eq!(mainline(Priority::nice(10), 0x100, Priority::nice(0), false), None);
        assert_eq!(mainline(Priority::nice(10), 0x17f, Priority::nice(0), false), Some(Priority::nice(10)));
        assert_eq!(mainline(Priority::nice(0), 0x100, Priority::nice(5), true), Some(Priority::nice(0)));
        assert_eq!(mainline(Priority::nice(0), 0x17f, Priority::nice(5), true), None);
    }

    #[test]
    fn only_participants_and_ones_own_threads_are_given_a_policy() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let id = Id::<Thread>::new(1).expect("an index");
        let owner = Id::<Process>::new(3).expect("a slot");
        // A living process that has not joined.
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
        let own = own_tid().cast_signed();
        guard.set(id, thread::TID, own);
        assert_eq!(guard.tid_to_set(id), Err(Errno::SRCH), "it is nobody's");
        guard.set(id, thread::PROCESS, Some(owner));
        assert_eq!(guard.tid_to_set(id), Ok(own));
        guard.set(id, thread::TID, parent);
        assert_eq!(guard.tid_to_set(id), Err(Errno::PERM));
        region.roster().enter(owner, parent);
        assert_eq!(guard.tid_to_set(id), Ok(parent));
        guard.set(id, thread::TID, i32::MAX);
        assert_eq!(guard.tid_to_set(id), Err(Errno::PERM), "there is no such thread");
    }

    /// A real-time call to a node that inherits, and a thread of slot 3 whose policy nobody may set: there is no such thread.
    fn lending(guard: &mut Guard<'_>, way: Lending) -> (Id<Transaction>, Id<Thread>, Id<Process>) {
        let t = guard.alloc::<Transaction>().expect("a record");
        guard.set(t, transaction::PRIORITY, fifo(60).to_word());
        guard.set(t, transaction::LENDING, way as u32);
        let to = guard.alloc::<Thread>().expect("a record");
        let owner = Id::<Process>::new(3).expect("a slot");
        guard.set(to, thread::TID, i32::MAX);
        guard.set(to, thread::PROCESS, Some(owner));
        guard.set(to, thread::OWN_PRIORITY, Priority::nice(0).to_word());
        guard.set(to, thread::PRIORITY, Priority::nice(0).to_word());
        (t, to, owner)
    }

    #[test]
    fn only_a_real_time_callers_own_priority_is_lent_through_a_futex() {
        use FLAT_BINDER_FLAG_INHERIT_RT as INHERIT;
        use Lending::{Auto, PiFutex, Policy};
        let cases = [
            (Auto, INHERIT, fifo(60), true),
            (PiFutex, INHERIT, fifo(60), true),
            (Policy, INHERIT, fifo(60), false),
            (Auto, 0, fifo(60), false),
            (PiFutex, 0, fifo(60), false),
            (Auto, INHERIT, fifo(50), false),
            (PiFutex, INHERIT, fifo(50), false),
        ];
        for (tag, (way, flags, wanted, held)) in (1..).zip(cases) {
            let region = Region::create().expect("memory");
            let mut scratch = crate::lock::Scratch::default();
            let mut guard = Guard::lock(&region, &mut scratch);
            let (t, to, owner) = lending(&mut guard, way);
            // A refusal is remembered, by the context's tag.
            region.words()[crate::records::TAG].store(tag, Relaxed);
            let what = format!("{way:?}, flags {flags:x}, {wanted:?}");
            guard.lend(Profile::Ack, t, flags, to, wanted);
            assert_eq!(guard.get(t, transaction::HELD_BY), held.then_some(to), "{what}");
            assert_eq!(guard.get(owner, process::DENIED), u64::from(!held), "{what}");
            assert_eq!(guard.was_refused(owner), way == Auto && held, "{what}");
            assert_eq!(guard.get(to, thread::PRIORITY), Priority::nice(0).to_word(), "{what}");
            guard.set(t, transaction::PRIORITY, Priority::nice(-5).to_word());
            guard.set(t, transaction::HELD_BY, None);
            guard.lend(Profile::Ack, t, flags, to, Priority::nice(-5));
            assert_eq!(guard.get(t, transaction::HELD_BY), None, "an ordinary one: {what}");
            crate::pi_futex::set_raised(false);
        }
    }

    #[test]
    fn a_call_is_lent_for_once_and_a_thread_that_has_anothers_priority_gets_its_own_back() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (t, to, owner) = lending(&mut guard, Lending::Policy);
        guard.set(t, transaction::PRIORITY, Priority::nice(0).to_word());
        // It runs as the caller wants it: nothing is set.
        guard.lend_priority(Profile::Ack, t, 0, to);
        assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(0).to_word());
        assert_eq!(guard.get(owner, process::DENIED), 0);
        guard.set(to, thread::PRIORITY, Priority::nice(-5).to_word());
        guard.lend_priority(Profile::Ack, t, 0, to);
        assert_eq!(guard.get(owner, process::DENIED), 0, "that was done");
        guard.set(t, transaction::PRIORITY_SET, false);
        guard.lend_priority(Profile::Ack, t, 0, to);
        assert_eq!(guard.get(owner, process::DENIED), 1, "back to its own, which is refused");
        assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(0).to_word());
        // In the middle of another call it keeps what it has.
        guard.set(t, transaction::PRIORITY_SET, false);
        let below = guard.alloc::<Transaction>().expect("a record");
        guard.set(to, thread::STACK, Some(below));
        guard.set(t, transaction::PRIORITY, Priority::nice(-5).to_word());
        guard.lend_priority(Profile::Ack, t, 0, to);
        assert_eq!(guard.get(owner, process::DENIED), 1);
        assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(-5).to_word());
    }

    #[test]
    fn only_an_idle_looper_that_runs_lower_is_hurried() {
        const FLAGS: u32 = FLAT_BINDER_FLAG_INHERIT_RT;
        type Change = dyn Fn(&mut Guard<'_>, Id<Transaction>, Id<Thread>);
        let hurried = |change: &Change| {
            let region = Region::create().expect("memory");
            let mut scratch = crate::lock::Scratch::default();
            let mut guard = Guard::lock(&region, &mut scratch);
            let (t, to, owner) = lending(&mut guard, Lending::PiFutex);
            guard.set(owner, process::THREADS_HEAD, Some(to));
            guard.set(to, thread::LOOPER, LOOPER_ENTERED);
            change(&mut guard, t, to);
            guard.hurry_looper(t, FLAGS, owner);
            guard.get(t, transaction::HELD_BY) == Some(to)
        };
        let looper = |state: u32| hurried(&move |guard, _, to| guard.set(to, thread::LOOPER, state));
        assert!(looper(LOOPER_ENTERED) && looper(LOOPER_REGISTERED));
        assert!(looper(LOOPER_ENTERED | crate::thread::LOOPER_POLL));
        assert!(!looper(0) && !looper(crate::thread::LOOPER_POLL));
        for left in [LOOPER_EXITED, LOOPER_INVALID, LOOPER_EXITED | LOOPER_INVALID] {
            assert!(!looper(LOOPER_ENTERED | left) && !looper(LOOPER_REGISTERED | left) && !looper(left));
        }
        assert!(!hurried(&|guard, t, to| guard.set(to, thread::STACK, Some(t))), "it serves");
        let with_work = |kind: Kind| {
            hurried(&move |guard, t, to| {
                guard.push_new(thread::TODO.queue(to), Kind::Complete, 0).expect("a record");
                guard.push_new(thread::TODO.queue(to), kind, t.index() as u64).expect("a record");
            })
        };
        assert!(!with_work(Kind::Transaction) && with_work(Kind::Node), "only a call keeps it busy");
        assert!(!hurried(&|guard, _, to| guard.set(to, thread::OWN_PRIORITY, 0)));
        assert!(!hurried(&|guard, _, to| guard.set(to, thread::PRIORITY, 0)));
        for (level, is) in [(60, false), (61, false), (59, true)] {
            let now = fifo(level).to_word();
            assert_eq!(hurried(&move |guard, _, to| guard.set(to, thread::PRIORITY, now)), is, "{level}");
        }
        let ordinary = Priority::nice(-20).to_word();
        assert!(!hurried(&move |guard, t, _| guard.set(t, transaction::PRIORITY, ordinary)));
        assert!(!hurried(&|guard, t, _| guard.set(t, transaction::PRIORITY, 0)));
    }

    #[test]
    fn a_callers_policy_counts_where_the_nodes_least_is_no_higher() {
        let batch = Priority { policy: BATCH, level: 120 };
        assert_eq!(ack(batch, 0, Priority::nice(5)), Some(batch));
        let rr = Priority { policy: RR, level: 39 };
        assert_eq!(ack(rr, FLAT_BINDER_FLAG_INHERIT_RT | 60, Priority::nice(0)), Some(rr));
        let least_fifo = FLAT_BINDER_FLAG_INHERIT_RT | FIFO << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT | 60;
        assert_eq!(ack(rr, least_fifo, Priority::nice(0)), Some(fifo(60)));
        assert_eq!(mainline(Priority::nice(0), 0, Priority::nice(0), true), None);
        assert_eq!(mainline(Priority::nice(0), 5, Priority::nice(5), true), None);
        assert_eq!(mainline(Priority::nice(0), 5, Priority::nice(6), true), Some(Priority::nice(5)));
    }

    #[test]
    fn what_a_dead_sender_may_have_set_is_set_back() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let id = Id::<Thread>::new(1).expect("an index");
        let nice = rustix::process::getpriority_process(None).expect("one's own");
        let now = sched::get(0).expect("one's own");
        if nice >= 19 || now.policy != OTHER {
            return skips::skip(skips::Need::Machine, "this thread can be made no nicer");
        }
        guard.set(id, thread::PROCESS, Some(Id::new(3).expect("a slot")));
        guard.set(id, thread::TID, own_tid().cast_signed());
        guard.set(id, thread::PRIORITY, Priority::nice(nice + 1).to_word());
        guard.undo_last_policy();
        assert_eq!(sched::get(0), Ok(now), "nobody's was set");
        region.words()[LENT_LAST].store(1, Relaxed);
        guard.undo_last_policy();
        assert_eq!(sched::get(0), Ok(Priority::nice(nice + 1)));
        assert_eq!(region.words()[LENT_LAST].load(Relaxed), 0);
    }

    #[test]
    fn who_was_refused_a_moment_ago_or_holds_the_call_already_is_not_asked_again() {
        for (held, refused, asks) in [(false, false, true), (true, false, false), (false, true, false)] {
            let region = Region::create().expect("memory");
            let mut scratch = crate::lock::Scratch::default();
            let mut guard = Guard::lock(&region, &mut scratch);
            let (t, to, owner) = lending(&mut guard, Lending::Auto);
            let tag = 0x77 + u64::from(held) + 2 * u64::from(refused);
            region.words()[crate::records::TAG].store(tag, Relaxed);
            guard.set(t, transaction::HELD_BY, held.then_some(to));
            if refused {
                guard.remember_refusal(owner);
            }
            guard.lend(Profile::Ack, t, FLAT_BINDER_FLAG_INHERIT_RT, to, fifo(60));
            assert_eq!(guard.get(t, transaction::HELD_BY), Some(to));
            assert_eq!(region.words()[LENT_LAST].load(Relaxed) != 0, asks, "{held}, {refused}");
            crate::pi_futex::set_raised(false);
        }
    }
}
