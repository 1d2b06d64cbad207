//! Lending a real-time priority through a futex, where nobody may set the server's policy: the transaction is a lock that its
//! server holds, and its caller waits for that lock.
//!
//! Each thread has a word of shared memory, its hold: a priority-inheriting futex (`FUTEX_LOCK_PI` in futex(2)) that only this
//! thread ever waits for. When it is about to wait for a reply, it writes the server's thread id there, as if that had taken
//! the lock, and waits in the kernel's queue for it. The kernel then runs the server at the waiter's priority, with no
//! permission and no setting of a policy, until the server gives the lock back, which is how it wakes the caller; or until it dies. A
//! server that waits for another one's reply lends to that one in turn, and the kernel follows the chain. The server's policy
//! as the kernel tells it (sched_getattr(2)) stays its own.
//!
//! Whom a thread lends to stands in the transaction that it waits for (`HELD_BY`): the thread that its sender chose, or
//! that was seen on its way to wait, or that took it from the queue. It is looked up under the context's lock whenever the
//! caller goes to sleep, so a nested call that it serves meanwhile, or a transaction that another thread takes, needs
//! nothing else.
//!
//! No wake-up is lost: a waker finds under the lock that the thread `LENDS` (`wakeup.rs`), and claims it. If it holds the lock itself
//! it gives that back after the unlock, else it wakes the holder, who looks before it sleeps again whether its caller was
//! claimed ([`Guard::pass_on`]). What nobody gives back, because the holder runs, or was killed in between, ends by itself:
//! the caller waits in slices.
//!
//! No word can do harm: the waiter writes its hold anew each time, so nothing stale remains in it, and a thread id that makes no
//! sense, is dead, or would close a ring makes the kernel refuse; then the caller sleeps as if nothing had been lent.
//! A holder that dies loses the lock to its caller. A waiter that got the lock need not tell the kernel when it lets go, as nobody
//! else waits for it.

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::lock::Guard;
use crate::mutex::own_tid;
use crate::records::{Id, Process, Record, TAG, Thread, Transaction, process, thread, transaction};
use crate::region::Region;
use crate::sched::Priority;
use crate::wakeup;

/// How a real-time caller's priority is lent to its server, by the priority rules of Android's kernel.
///
/// Ordinary callers lend their nice value by setting it, whichever this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Lending {
    /// By setting the server thread's policy (sched_setattr(2)), and through a priority-inheriting futex where there is
    /// no permission for that (EPERM: neither `CAP_SYS_NICE` nor a sufficient `RLIMIT_RTPRIO` of the server's
    /// process). A thread that was refused tries again after a second.
    #[default]
    Auto = 0,
    /// By setting the policy. Without permission nothing is lent.
    Policy = 1,
    /// Through a priority-inheriting futex (futex(2)): this needs no permission, and the server's policy does not show it.
    PiFutex = 2,
}

impl Lending {
    /// Whether it is the one that is chosen where nobody says otherwise.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn from_word(word: u32) -> Self {
        [Self::Policy, Self::PiFutex].into_iter().find(|&known| known as u32 == word).unwrap_or_default()
    }
}

impl From<Lending> for u64 {
    fn from(lending: Lending) -> Self {
        lending as Self
    }
}

/// How long a caller waits at a time, in nanoseconds: at first, and at most. In between it looks whether it was claimed.
const SLICES_NS: (u64, u64) = (1_000_000, 16_000_000);

/// For how many sleeps a thread that was lent a priority this way avoids the trap: whoever wakes it there may have to wait until
/// it has reached the trap, and cannot lend before that.
const FUTEX_SLEEPS: u32 = 64;

/// How long a refused permission is taken to be refused still.
const REFUSAL_LASTS: Duration = Duration::from_secs(1);

/// Of a futex's word: the thread's id, without the kernel's bits.
const TID_MASK: u32 = !(futex::WAITERS | futex::OWNER_DIED);

thread_local! {
    /// Whether the calling thread is lent a priority that its policy does not show.
    static LENT: Cell<bool> = const { Cell::new(false) };
    /// That priority, while it serves the call: what its own calls lend, also in other contexts.
    static SERVES_AT: Cell<Option<Priority>> = const { Cell::new(None) };
    /// How many sleeps are left in which it avoids the trap.
    static NO_TRAP: Cell<u32> = const { Cell::new(0) };
    /// Processes whose threads this thread may not set the policy of, with the times until which that is assumed.
    static REFUSED: Cell<[Refused; 4]> = const { Cell::new([Refused::NONE; 4]) };
}

/// The calling thread runs at a caller's priority, though its policy says otherwise.
pub(crate) fn is_lent() -> bool {
    LENT.get()
}

/// The priority that the calling thread is lent for the call that it serves, where its policy does not show it.
pub(crate) fn serves_at() -> Option<Priority> {
    SERVES_AT.get()
}

/// Whether the calling thread, which is about to sleep, should avoid the trap.
pub(crate) fn avoids_trap() -> bool {
    let left = NO_TRAP.get();
    NO_TRAP.set(left.saturating_sub(1));
    left != 0
}

/// The calling `thread` was woken: has it been lent a priority?
pub(crate) fn learn(region: &Region, thread: Id<Thread>) {
    if region.lent(thread.index()).load(Relaxed) != 0 {
        set_lent();
    }
}

fn set_lent() {
    LENT.set(true);
    NO_TRAP.set(FUTEX_SLEEPS);
}

/// A new thread has nothing of its record's last user.
pub(crate) fn reset(region: &Region, thread: Id<Thread>) {
    for word in [region.hold(thread.index()), region.holder(thread.index()), region.lent(thread.index())] {
        word.store(0, Relaxed);
    }
}

/// Whether the calling thread holds what `lender` waits for.
pub(crate) fn is_own(region: &Region, lender: Id<Thread>) -> bool {
    region.hold(lender.index()).load(Relaxed) & TID_MASK == own_tid()
}

/// After the unlock: ends the wait of `lender`, if the calling thread still holds what it waits for.
pub(crate) fn give_back(region: &Region, lender: Id<Thread>) {
    let hold = region.hold(lender.index());
    if hold.compare_exchange(own_tid(), 0, AcqRel, Relaxed).is_err() && is_own(region, lender) {
        // It waits in the kernel. An error means that it has just ceased to.
        let _ = futex::unlock_pi(hold, futex::Flags::empty());
    }
}

/// After the unlock: lends until the calling `thread` is claimed, or its hold is given back. Where the kernel refuses that,
/// the thread is left to sleep on its futex.
#[cold]
pub(crate) fn wait(region: &Region, thread: Id<Thread>) {
    let hold = region.hold(thread.index());
    let mut slice_ns = SLICES_NS.0;
    while wakeup::lends(region, thread) && region.ended().is_none() {
        match lock_for(hold, Duration::from_nanos(slice_ns)) {
            Ok(()) => wakeup::stop_lending(region, thread, false),
            Err(Errno::TIMEDOUT) => {
                slice_ns = slice_ns.saturating_mul(2).min(SLICES_NS.1);
                if let Some(holder) = Id::new(region.holder(thread.index()).load(Relaxed).into()) {
                    wakeup::hurry_claimed(region, holder);
                }
            }
            Err(_) => wakeup::stop_lending(region, thread, true),
        }
    }
    hold.store(0, Release);
}

/// Takes a priority-inheriting lock, waiting for at most `slice`: `FUTEX_LOCK_PI2`, whose clock nobody sets, from Linux 5.14 on; else `FUTEX_LOCK_PI`.
pub(crate) fn lock_for(hold: &AtomicU32, slice: Duration) -> Result<(), Errno> {
    static OLD_KERNEL: AtomicBool = AtomicBool::new(false);
    let until = |clock| futex::Timespec::try_from(now(clock).saturating_add(slice)).map_err(|_| Errno::INVAL);
    if !OLD_KERNEL.load(Relaxed) {
        match futex::lock_pi2(hold, futex::Flags::empty(), Some(&until(ClockId::Monotonic)?)) {
            Err(Errno::NOSYS) => OLD_KERNEL.store(true, Relaxed),
            other => return other,
        }
    }
    futex::lock_pi(hold, futex::Flags::empty(), Some(&until(ClockId::Realtime)?))
}

fn now(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

impl Guard<'_> {
    /// The calling thread has no work. If it waits for a reply of one that it lends its priority to, it will do that while it
    /// sleeps: true then.
    pub(crate) fn will_lend(&mut self, own: Id<Thread>) -> bool {
        let Some(t) = self.get(own, thread::STACK) else { return false };
        let Some(holder) = self.get(t, transaction::HELD_BY) else { return false };
        let tid = self.get(holder, thread::TID).cast_unsigned();
        if self.get(t, transaction::FROM) != Some(own) || tid == 0 || tid & !TID_MASK != 0 {
            return false;
        }
        let region = self.region();
        region.holder(own.index()).store(holder.index() as u32, Relaxed);
        region.hold(own.index()).store(tid, Release);
        wakeup::will_lend(region, own);
        true
    }

    /// The calling thread, which is lent a priority, is about to wait for another's reply. Its own caller may have been claimed
    /// by someone who could only wake this thread.
    #[cold]
    pub(crate) fn pass_on(&mut self, own: Id<Thread>) {
        let mut next = self.get(own, thread::STACK);
        while let Some(t) = self.step(next) {
            if self.get(t, transaction::TO_THREAD) == Some(own) {
                let lender = self.get(t, transaction::FROM);
                let region = self.region();
                if let Some(lender) =
                    lender.filter(|&lender| is_own(region, lender) && !wakeup::lends(region, lender))
                {
                    self.give_back_later(lender);
                }
                return;
            }
            next = self.get(t, transaction::FROM_PARENT);
        }
    }

    /// The calling thread serves nobody any more.
    #[cold]
    pub(crate) fn is_lent_no_longer(&mut self, own: Id<Thread>) {
        LENT.set(false);
        SERVES_AT.set(None);
        self.region().lent(own.index()).store(0, Relaxed);
    }

    /// The calling thread has taken a call, or has answered one.
    #[inline]
    pub(crate) fn learn_what_is_lent(&self, own: Id<Thread>) {
        if self.region().lent(own.index()).load(Relaxed) != 0 {
            self.learn_what_is_lent_now(own);
        }
    }

    #[cold]
    fn learn_what_is_lent_now(&self, own: Id<Thread>) {
        set_lent();
        let t = self.get(own, thread::STACK);
        let held = t.filter(|&t| self.get(t, transaction::HELD_BY) == Some(own));
        SERVES_AT.set(held.and_then(|t| Priority::from_word(self.get(t, transaction::HELD_AT))));
    }

    /// The caller of `t` lends its priority `wanted` to `to` while it waits.
    #[cold]
    pub(crate) fn lend_by_hold(&mut self, t: Id<Transaction>, to: Id<Thread>, wanted: Priority) {
        self.region().lent(to.index()).store(1, Relaxed);
        if self.get(to, thread::TID).cast_unsigned() == own_tid() {
            set_lent();
        }
        let before = self.get(t, transaction::HELD_BY);
        if before == Some(to) {
            return;
        }
        self.set(t, transaction::HELD_AT, wanted.to_word());
        self.set(t, transaction::HELD_BY, Some(to));
        if before.is_none()
            && let Some(owner) = self.get(to, thread::PROCESS)
        {
            let held = self.get(owner, process::HELD);
            self.set(owner, process::HELD, held.saturating_add(1));
        }
        // It may be asleep, when the receiver does this; it is the calling thread, when the sender does.
        if let Some(caller) = self.get(t, transaction::FROM) {
            self.wake_later(caller);
        }
    }

    /// Whether the calling thread was refused a moment ago to set the policy of threads of `to`.
    pub(crate) fn was_refused(&self, to: Id<Process>) -> bool {
        REFUSED
            .get()
            .iter()
            .any(|refused| refused.whom == self.named(to) && now(ClockId::MonotonicCoarse) < refused.until)
    }

    /// It was refused now.
    pub(crate) fn remember_refusal(&self, to: Id<Process>) {
        let whom = self.named(to);
        let last = Refused { whom, until: now(ClockId::MonotonicCoarse).saturating_add(REFUSAL_LASTS) };
        // The oldest is forgotten for it.
        let others = REFUSED.get().into_iter().filter(|refused| refused.whom != whom);
        let mut refused = std::iter::once(last).chain(others);
        REFUSED.set(std::array::from_fn(|_| refused.next().unwrap_or(Refused::NONE)));
    }

    fn named(&self, process: Id<Process>) -> (u64, usize, u64) {
        let tag = self.region().words()[TAG].load(Relaxed);
        (tag, process.index(), self.get(process, process::GENERATION))
    }
}

/// A process, by its context's tag, its slot and that one's generation.
#[derive(Clone, Copy)]
struct Refused {
    whom: (u64, usize, u64),
    until: Duration,
}

impl Refused {
    const NONE: Self = Self { whom: (0, 0, 0), until: Duration::ZERO };
}

const _: () = assert!(Thread::COUNT <= u32::MAX as usize, "a holder is one word of 32 bits");

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    /// Whether a thread that lends to `holder` is left to sleep as if it did not.
    fn sleeps_plainly(holder: impl FnOnce() -> u32) -> bool {
        let region = Region::create().expect("memory");
        let own = Id::<Thread>::new(1).expect("an index");
        region.hold(own.index()).store(holder(), Relaxed);
        wakeup::will_lend(&region, own);
        wait(&region, own);
        wakeup::is_asleep(&region, own)
    }

    #[test]
    fn one_that_lends_to_the_dead_to_itself_or_to_nobody_does_not_wait_for_that() {
        assert!(sleeps_plainly(|| std::thread::spawn(own_tid).join().expect("no panic")));
        assert!(sleeps_plainly(own_tid));
        assert!(sleeps_plainly(|| TID_MASK));
        assert!(sleeps_plainly(|| futex::WAITERS | TID_MASK));
        assert!(!sleeps_plainly(|| 0), "free: it looks for work again");
        assert!(!sleeps_plainly(|| futex::OWNER_DIED), "as free");
    }

    #[test]
    fn a_claimed_lender_goes_on_though_nobody_gives_its_hold_back() {
        let region = Arc::new(Region::create().expect("memory"));
        let own = Id::<Thread>::new(1).expect("an index");
        region.hold(own.index()).store(own_tid(), Relaxed);
        wakeup::will_lend(&region, own);
        let (done, waited) = channel();
        let waiting = Arc::clone(&region);
        let waiting = std::thread::spawn(move || {
            wait(&waiting, own);
            done.send(()).expect("a test that waits");
        });
        assert!(waited.recv_timeout(Duration::from_millis(50)).is_err(), "this thread holds it");
        wakeup::stop_lending(&region, own, false);
        waited.recv_timeout(Duration::from_secs(20)).expect("its end");
        assert_eq!(region.hold(own.index()).load(Relaxed), 0);
        waiting.join().expect("no panic");
    }

    #[test]
    fn a_refusal_is_remembered_for_a_while_and_for_whom_it_was() {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let guard = Guard::lock(&region, &mut scratch);
        let slots: Vec<_> = (1..=6).map(|slot| Id::<Process>::new(slot).expect("a slot")).collect();
        slots.iter().for_each(|&slot| guard.remember_refusal(slot));
        let remembered: Vec<_> = slots.iter().map(|&slot| guard.was_refused(slot)).collect();
        assert_eq!(remembered, [false, false, true, true, true, true], "the last four");
    }
}
