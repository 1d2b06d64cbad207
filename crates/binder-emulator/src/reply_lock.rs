//! Priority inheritance through a PI futex, where the caller may not set the server's policy. The
//! transaction is a lock that its server owns, and the caller waits for that lock.
//!
//! Each thread has a word of shared memory, its reply lock: a priority-inheriting futex
//! (`FUTEX_LOCK_PI` in futex(2)) that only this thread ever waits for. Before it waits for a reply,
//! it writes the server's thread id there, as if the server had taken the lock, and waits for it in
//! the kernel. The kernel then runs the server at the waiter's priority, without any permission or
//! change of policy, until the server releases the lock (which is how it wakes the caller) or dies.
//! If the server waits for another server's reply, it boosts that one in turn, and the kernel
//! follows the chain. The policy that the kernel reports for the server (sched_getattr(2)) does not
//! change.
//!
//! The transaction that a thread waits for names the thread to boost (`INHERITED_BY`): the thread
//! that its sender chose, or that was on its way to wait, or that took it from the queue. It is
//! looked up under the context's lock each time the caller goes to sleep. So nested calls that the
//! caller serves meanwhile, and transactions that another thread takes, need no special case.
//!
//! No wake-up is lost. A waker sees under the context's lock that the thread `Boosts`
//! (`sleep_word.rs`), and claims it. If the waker owns the reply lock, it releases it after the
//! unlock. Otherwise it wakes the owner, which checks before it sleeps again whether its caller was
//! claimed (`Guard::pass_on`). If its owner is running or was killed, the lock may not be released.
//! The caller notices that, because it wakes from time to time and checks its word.
//!
//! No value of the word is harmful. The waiter writes its reply lock before each wait, so nothing
//! stale remains in it. If the thread id is invalid, dead, or would close a cycle, the kernel
//! refuses, and the caller sleeps without boosting a thread. If the owner dies, its caller gets the
//! lock. A waiter that got the lock releases it without a system call, because no other thread
//! waits for it.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

use crate::mutex::own_tid;
use crate::pi_futex::lock_for;
use crate::records::{Id, Record, Thread};
use crate::region::Region;
use crate::sleep_word::State::Boosts;
use crate::sleep_word::{CANNOT_BOOST, HAS_BOOSTED};

/// How long a caller waits at a time, in nanoseconds: at first, and at most. After each slice it
/// checks whether it was claimed.
const SLICES_NS: (u64, u64) = (1_000_000, 16_000_000);

/// Mask for the thread id in a futex word, without the kernel's bits.
pub(crate) const TID_MASK: u32 = !(futex::WAITERS | futex::OWNER_DIED);

/// Clears what the record's last user left, for a new thread.
pub(crate) fn reset(region: &Region, thread: Id<Thread>) {
    for word in
        [region.reply_lock(thread.index()), region.lock_owner(thread.index()), region.boosted(thread.index())]
    {
        word.store(0, Relaxed);
    }
}

/// Whether the calling thread owns the lock that `waiter` waits for.
pub(crate) fn is_own(region: &Region, waiter: Id<Thread>) -> bool {
    region.reply_lock(waiter.index()).load(Relaxed) & TID_MASK == own_tid()
}

/// After the unlock: ends the wait of `waiter`, if the calling thread still owns its reply lock.
pub(crate) fn give_back(region: &Region, waiter: Id<Thread>) {
    let hold = region.reply_lock(waiter.index());
    if hold.compare_exchange(own_tid(), 0, AcqRel, Relaxed).is_err() && is_own(region, waiter) {
        // It waits in the kernel. An error means that it has just stopped waiting.
        let _ = futex::unlock_pi(hold, futex::Flags::empty());
    }
}

/// After the unlock: boosts the server until the calling `thread` is claimed or its reply lock is
/// released. If the kernel refuses that, the thread must sleep on its futex. After each timeout of
/// the wait, calls `wake_again` with the thread that must release the lock.
#[cold]
pub(crate) fn wait(region: &Region, thread: Id<Thread>, wake_again: impl Fn(Id<Thread>)) {
    let (hold, word) = (region.reply_lock(thread.index()), region.sleep_word(thread.index()));
    let mut slice_ns = SLICES_NS.0;
    while word.is(Boosts) && region.ended().is_none() {
        match lock_for(hold, Duration::from_nanos(slice_ns)) {
            Ok(()) => word.make(HAS_BOOSTED),
            Err(Errno::TIMEDOUT) => {
                slice_ns = slice_ns.saturating_mul(2).min(SLICES_NS.1);
                if let Some(holder) = Id::new(region.lock_owner(thread.index()).load(Relaxed).into()) {
                    wake_again(holder);
                }
                false
            }
            Err(_) => word.make(CANNOT_BOOST),
        };
    }
    hold.store(0, Release);
}

const _: () = assert!(Thread::COUNT <= u32::MAX as usize, "a holder is one word of 32 bits");

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::sleep_word::{GOES_TO_BOOST, WAKES_PI_WAITER};

    /// Whether a thread that tries to boost `holder` sleeps on its futex instead.
    fn sleeps_plainly(holder: impl FnOnce() -> u32) -> bool {
        let region = Region::create().expect("memory");
        let own = Id::<Thread>::new(1).expect("an index");
        region.reply_lock(own.index()).store(holder(), Relaxed);
        region.sleep_word(own.index()).set_out(GOES_TO_BOOST);
        wait(&region, own, |_| {});
        region.sleep_word(own.index()).is_asleep()
    }

    #[test]
    fn a_caller_that_boosts_a_dead_thread_itself_or_none_does_not_wait() {
        assert!(sleeps_plainly(|| std::thread::spawn(own_tid).join().expect("no panic")));
        assert!(sleeps_plainly(own_tid));
        assert!(sleeps_plainly(|| TID_MASK));
        assert!(sleeps_plainly(|| futex::WAITERS | TID_MASK));
        assert!(!sleeps_plainly(|| 0), "free: it looks for work again");
        assert!(!sleeps_plainly(|| futex::OWNER_DIED), "as free");
    }

    #[test]
    fn a_claimed_waiter_continues_even_if_its_hold_is_not_released() {
        let region = Arc::new(Region::create().expect("memory"));
        let own = Id::<Thread>::new(1).expect("an index");
        region.reply_lock(own.index()).store(own_tid(), Relaxed);
        region.sleep_word(own.index()).set_out(GOES_TO_BOOST);
        let (done, waited) = channel();
        let waiting = Arc::clone(&region);
        let waiting = std::thread::spawn(move || {
            wait(&waiting, own, |_| {});
            done.send(()).expect("a test that waits");
        });
        assert!(waited.recv_timeout(Duration::from_millis(50)).is_err(), "this thread holds it");
        assert!(region.sleep_word(own.index()).make(WAKES_PI_WAITER));
        waited.recv_timeout(Duration::from_secs(20)).expect("its end");
        assert_eq!(region.reply_lock(own.index()).load(Relaxed), 0);
        waiting.join().expect("no panic");
    }

    #[test]
    fn a_new_thread_does_not_see_the_state_of_its_records_last_user() {
        let region = Region::create().expect("memory");
        let words = [region.reply_lock(1), region.lock_owner(1), region.boosted(1)];
        words.iter().for_each(|word| word.store(7, Relaxed));
        reset(&region, Id::new(1).expect("an index"));
        assert_eq!(words.map(|word| word.load(Relaxed)), [0; 3]);
    }

    #[test]
    fn a_thread_releases_only_its_own_hold() {
        let region = Region::create().expect("memory");
        let waiter = Id::<Thread>::new(1).expect("an index");
        for (holds, left) in [(own_tid(), 0), (own_tid() + 1, own_tid() + 1), (0, 0)] {
            region.reply_lock(1).store(holds, Relaxed);
            assert_eq!(is_own(&region, waiter), holds == own_tid());
            give_back(&region, waiter);
            assert_eq!(region.reply_lock(1).load(Relaxed), left);
        }
    }
}
