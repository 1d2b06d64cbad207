//! Priority inheritance by a futex, as the driver uses it: which caller boosts which server, and
//! what a boosted thread knows of that. `reply_lock.rs` has the mechanism, `priority.rs` the rules
//! for which priorities are inherited.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use roundtrip_vocabulary::InheritBy;
use rustix::time::ClockId;

use crate::lock::Guard;
use crate::mutex::own_tid;
use crate::pi_futex::{now, set_raised};
use crate::records::{Id, Process, TAG, Thread, Transaction, process, thread, transaction};
use crate::region::Region;
use crate::reply_lock::{TID_MASK, is_own};
use crate::sched::Priority;
use crate::sleep_word::GOES_TO_BOOST;
use crate::sleep_word::State::Boosts;

/// A way to inherit, from its number in memory that processes share. An unknown one is the default.
pub(crate) fn inherit_by(word: u32) -> InheritBy {
    [InheritBy::Policy, InheritBy::PiFutex]
        .into_iter()
        .find(|&known| known as u32 == word)
        .unwrap_or_default()
}

/// For how many sleeps a boosted thread avoids seccomp. A waker might have to wait until the thread
/// has reached its call, and could not boost it before.
const FUTEX_SLEEPS: u32 = 64;

/// How long a refused permission is assumed to stay refused.
const REFUSAL_LASTS: Duration = Duration::from_secs(1);

thread_local! {
    /// The priority inherited while this thread serves a call. Its own calls inherit it in turn,
    /// also in other contexts.
    static SERVES_AT: Cell<Option<Priority>> = const { Cell::new(None) };
    /// How many more sleeps avoid seccomp.
    static NO_SECCOMP: Cell<u32> = const { Cell::new(0) };
    /// Processes whose threads' policy this thread may not set, with the time until which that is
    /// assumed.
    static REFUSED: Cell<[Refused; 4]> = const { Cell::new([Refused::NONE; 4]) };
}

/// The priority that the calling thread inherits for the call that it serves, if its policy does
/// not show it.
pub(crate) fn serves_at() -> Option<Priority> {
    SERVES_AT.get()
}

/// Whether the calling thread, which is about to sleep, should avoid seccomp.
pub(crate) fn avoids_seccomp() -> bool {
    let left = NO_SECCOMP.get();
    NO_SECCOMP.set(left.saturating_sub(1));
    left != 0
}

/// The calling `thread` was woken: notes whether it is boosted.
pub(crate) fn learn(region: &Region, thread: Id<Thread>) {
    if region.boosted(thread.index()).load(Relaxed) != 0 {
        set_boosted();
    }
}

fn set_boosted() {
    set_raised(true);
    NO_SECCOMP.set(FUTEX_SLEEPS);
}

impl Guard<'_> {
    /// The calling thread has no work. True if it waits for a reply of a thread that it boosts, and
    /// will do so while it sleeps.
    pub(crate) fn will_boost(&mut self, own: Id<Thread>) -> bool {
        let Some(t) = self.get(own, thread::STACK) else { return false };
        let Some(holder) = self.get(t, transaction::INHERITED_BY) else { return false };
        let tid = self.get(holder, thread::TID).cast_unsigned();
        if self.get(t, transaction::FROM) != Some(own) || tid == 0 || tid & !TID_MASK != 0 {
            return false;
        }
        let region = self.region();
        region.lock_owner(own.index()).store(holder.index() as u32, Relaxed);
        region.reply_lock(own.index()).store(tid, Release);
        region.sleep_word(own.index()).set_out(GOES_TO_BOOST);
        true
    }

    /// The calling thread, which is boosted, is about to wait for another one's reply. If its own
    /// caller was claimed by a waker that could only wake this thread, releases that caller first.
    #[cold]
    pub(crate) fn pass_on(&mut self, own: Id<Thread>) {
        let mut next = self.get(own, thread::STACK);
        while let Some(t) = self.step(next) {
            if self.get(t, transaction::TO_THREAD) == Some(own) {
                let waiter = self.get(t, transaction::FROM);
                let region = self.region();
                if let Some(waiter) = waiter
                    .filter(|&waiter| is_own(region, waiter) && !region.sleep_word(waiter.index()).is(Boosts))
                {
                    self.give_back_later(waiter);
                }
                return;
            }
            next = self.get(t, transaction::FROM_PARENT);
        }
    }

    /// The calling thread no longer serves a call.
    #[cold]
    pub(crate) fn is_boosted_no_longer(&mut self, own: Id<Thread>) {
        set_raised(false);
        SERVES_AT.set(None);
        self.region().boosted(own.index()).store(0, Relaxed);
    }

    /// The calling thread has taken or answered a call.
    #[inline]
    pub(crate) fn learn_boost(&self, own: Id<Thread>) {
        if self.region().boosted(own.index()).load(Relaxed) != 0 {
            self.learn_boost_now(own);
        }
    }

    #[cold]
    fn learn_boost_now(&self, own: Id<Thread>) {
        set_boosted();
        let t = self.get(own, thread::STACK);
        let held = t.filter(|&t| self.get(t, transaction::INHERITED_BY) == Some(own));
        SERVES_AT.set(held.and_then(|t| Priority::from_word(self.get(t, transaction::INHERITED_AT))));
    }

    /// While it waits, the caller of `t` boosts `to` to its own priority, `wanted`.
    #[cold]
    pub(crate) fn boost_by_lock(&mut self, t: Id<Transaction>, to: Id<Thread>, wanted: Priority) {
        self.region().boosted(to.index()).store(1, Relaxed);
        if self.get(to, thread::TID).cast_unsigned() == own_tid() {
            set_boosted();
        }
        let before = self.get(t, transaction::INHERITED_BY);
        if before == Some(to) {
            return;
        }
        self.set(t, transaction::INHERITED_AT, wanted.to_word());
        self.set(t, transaction::INHERITED_BY, Some(to));
        if before.is_none()
            && let Some(owner) = self.get(to, thread::PROCESS)
        {
            let held = self.get(owner, process::INHERITED);
            self.set(owner, process::INHERITED, held.saturating_add(1));
        }
        // If the receiver calls this, the caller may be asleep. If the sender calls it, the caller
        // is the calling thread.
        if let Some(caller) = self.get(t, transaction::FROM) {
            self.wake_later(caller);
        }
    }

    /// Whether the calling thread was recently refused to set the policy of threads of `to`.
    pub(crate) fn was_refused(&self, to: Id<Process>) -> bool {
        REFUSED
            .get()
            .iter()
            .any(|refused| refused.process == self.named(to) && now(ClockId::MonotonicCoarse) < refused.until)
    }

    /// Notes that it was refused now.
    pub(crate) fn remember_refusal(&self, to: Id<Process>) {
        let process = self.named(to);
        let last = Refused { process, until: now(ClockId::MonotonicCoarse).saturating_add(REFUSAL_LASTS) };
        // Replaces the oldest entry.
        let others = REFUSED.get().into_iter().filter(|refused| refused.process != process);
        let mut refused = std::iter::once(last).chain(others);
        REFUSED.set(std::array::from_fn(|_| refused.next().unwrap_or(Refused::NONE)));
    }

    fn named(&self, process: Id<Process>) -> (u64, usize, u64) {
        let tag = self.region().words()[TAG].load(Relaxed);
        (tag, process.index(), self.get(process, process::GENERATION))
    }
}

/// A process whose policies this thread could not set.
#[derive(Clone, Copy)]
struct Refused {
    /// Its context's tag, its slot and the slot's generation.
    process: (u64, usize, u64),
    until: Duration,
}

impl Refused {
    const NONE: Self = Self { process: (0, 0, 0), until: Duration::ZERO };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_a_while_and_for_its_thread() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let guard = Guard::lock(&region, &mut scratch);
        let slots: Vec<_> = (1..=6).map(|slot| Id::<Process>::new(slot).expect("a slot")).collect();
        slots.iter().for_each(|&slot| guard.remember_refusal(slot));
        let remembered: Vec<_> = slots.iter().map(|&slot| guard.was_refused(slot)).collect();
        assert_eq!(remembered, [false, false, true, true, true, true], "the last four");
    }

    fn id(index: u64) -> Id<Thread> {
        Id::new(index).expect("an index")
    }

    #[test]
    fn a_thread_boosts_only_a_living_thread_that_holds_its_own_call() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (own, holder) = (id(1), id(2));
        let t = guard.alloc::<Transaction>().expect("a record");
        let mut boosts = |stack, from, holds, tid| {
            region.sleep_word(1).reset();
            guard.set(own, thread::STACK, stack);
            guard.set(t, transaction::FROM, Some(from));
            guard.set(t, transaction::INHERITED_BY, holds);
            guard.set(holder, thread::TID, tid);
            let boosts = guard.will_boost(own);
            assert_eq!(region.sleep_word(1).is(Boosts), boosts);
            boosts
        };
        assert!(!boosts(None, own, Some(holder), 1234), "it waits for no reply");
        assert!(!boosts(Some(t), own, None, 1234), "no thread has its call");
        assert!(!boosts(Some(t), id(3), Some(holder), 1234), "it serves another thread's call");
        assert!(
            !boosts(Some(t), own, Some(holder), 0) && !boosts(Some(t), own, Some(holder), -1),
            "no thread"
        );
        assert_eq!((region.reply_lock(1).load(Relaxed), region.lock_owner(1).load(Relaxed)), (0, 0));
        assert!(boosts(Some(t), own, Some(holder), 1234));
        assert_eq!((region.reply_lock(1).load(Relaxed), region.lock_owner(1).load(Relaxed)), (1234, 2));
    }

    #[test]
    fn a_boost_counts_for_the_call_that_a_thread_serves() {
        std::thread::spawn(|| {
            let region = Region::create().expect("memory");
            let mut scratch = crate::lock::Scratch::default();
            let mut guard = Guard::lock(&region, &mut scratch);
            let own = id(1);
            let [held, other] = [(); 2].map(|()| guard.alloc::<Transaction>().expect("a record"));
            let inherited = Priority { policy: crate::sched::FIFO, level: 39 };
            guard.set(held, transaction::INHERITED_BY, Some(own));
            guard.set(held, transaction::INHERITED_AT, inherited.to_word());
            guard.set(other, transaction::INHERITED_AT, inherited.to_word());
            guard.set(own, thread::STACK, Some(held));
            let raised = crate::pi_futex::is_raised;
            guard.learn_boost(own);
            learn(&region, own);
            assert!(!raised() && serves_at().is_none() && !avoids_seccomp(), "nothing was inherited");
            region.boosted(1).store(1, Relaxed);
            guard.learn_boost(own);
            assert!(raised());
            assert_eq!(serves_at(), Some(inherited));
            // Another transaction on top of it, which boosts no thread.
            guard.set(own, thread::STACK, Some(other));
            guard.learn_boost(own);
            assert_eq!(serves_at(), None);
            assert_eq!((0..1000).take_while(|_| avoids_seccomp()).count(), FUTEX_SLEEPS as usize);
            guard.set(own, thread::STACK, Some(held));
            guard.learn_boost(own);
            guard.is_boosted_no_longer(own);
            assert!(!raised() && serves_at().is_none());
            assert_eq!(region.boosted(1).load(Relaxed), 0);
            region.boosted(1).store(1, Relaxed);
            learn(&region, own);
            assert!(raised() && avoids_seccomp(), "it was woken, and has been boosted meanwhile");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_transaction_counts_once_even_if_its_holder_changes() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let owner = Id::<Process>::new(3).expect("a slot");
        let t = guard.alloc::<Transaction>().expect("a record");
        guard.set(t, transaction::FROM, Some(id(5)));
        let inherited = Priority { policy: crate::sched::FIFO, level: 39 };
        let threads = [1, 2].map(id);
        threads.iter().for_each(|&to| guard.set(to, thread::PROCESS, Some(owner)));
        for (to, at) in [(threads[0], 39), (threads[0], 20), (threads[1], 30)] {
            // The caller looks up again which thread it boosts.
            region.sleep_word(5).reset();
            region.sleep_word(5).set_out(crate::sleep_word::GOES_TO_SLEEP);
            let new = guard.get(t, transaction::INHERITED_BY) != Some(to);
            guard.boost_by_lock(t, to, Priority { level: at, ..inherited });
            assert_eq!(region.boosted(to.index()).load(Relaxed), 1);
            assert_eq!(guard.get(t, transaction::INHERITED_BY), Some(to));
            assert_eq!(guard.get(owner, process::INHERITED), 1);
            assert_eq!(!region.sleep_word(5).is_asleep(), new, "it is woken for a new one");
        }
        let at = Priority::from_word(guard.get(t, transaction::INHERITED_AT)).expect("a priority");
        assert_eq!(at.level, 30, "the last one's");
        assert!(!crate::pi_futex::is_raised(), "it is another thread that was boosted");
        let own = id(4);
        guard.set(own, thread::TID, own_tid().cast_signed());
        guard.boost_by_lock(t, own, inherited);
        assert!(crate::pi_futex::is_raised());
        set_raised(false);
    }

    #[test]
    fn a_way_to_inherit_is_one_word() {
        for way in [InheritBy::Auto, InheritBy::Policy, InheritBy::PiFutex] {
            assert_eq!(inherit_by(way as u32), way);
            assert_eq!(way.is_default(), way == InheritBy::Auto);
        }
        assert_eq!(inherit_by(99), InheritBy::Auto);
    }

    #[test]
    fn the_hold_of_a_claimed_caller_is_released() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (own, waiter) = (id(1), id(2));
        let [served, called] = [(); 2].map(|()| guard.alloc::<Transaction>().expect("a record"));
        guard.set(served, transaction::FROM, Some(waiter));
        guard.set(served, transaction::TO_THREAD, Some(own));
        // On top of that call, the thread makes a call.
        guard.set(called, transaction::FROM, Some(own));
        guard.set(called, transaction::FROM_PARENT, Some(served));
        guard.set(own, thread::STACK, Some(called));
        let mut left = |holds: u32, boosts: bool| {
            region.reply_lock(2).store(holds, Relaxed);
            region.sleep_word(2).reset();
            if boosts {
                region.sleep_word(2).set_out(GOES_TO_BOOST);
            }
            guard.pass_on(own);
            guard.unlock();
            guard.relock();
            region.reply_lock(2).load(Relaxed)
        };
        let tid = own_tid();
        assert_eq!(left(tid, false), 0, "it was claimed");
        assert_eq!(left(tid, true), tid, "it waits for the reply");
        assert_eq!(left(tid + 1, false), tid + 1, "another has its hold");
    }
}
