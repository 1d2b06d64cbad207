//! How a thread sleeps: on a futex; in seccomp, so that it can be woken on its waker's CPU; or on a
//! PI futex, which boosts the thread that it waits for. `sleep_word.rs` has the states of its
//! word, `lock/wake.rs` the ways to wake it.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::lock::wake::{own_cpu, wake_claimed_again};
use crate::records::{Id, TAG, Thread};
use crate::region::Region;
use crate::reply_lock;
use crate::seccomp::{self, Ended};
use crate::sleep_word::State::{Asleep, Awake, Boosts, InSeccomp};
use crate::sleep_word::{
    ENTERS_SECCOMP, FALLS_OUT_OF_SECCOMP, GOES_TO_SECCOMP, GOES_TO_SLEEP, IS_INTERRUPTED,
    IS_INTERRUPTED_IN_SECCOMP, LEAVES_SECCOMP,
};

/// For how many sleeps a thread uses seccomp after a futex woke it on another CPU than its waker's:
/// at first, and at most. In between it tries the futex once, which costs nothing if the kernel
/// keeps both threads on one CPU anyway.
const SPANS: (u32, u32) = (64, 4096);

thread_local! {
    /// How many sleeps are left to seccomp, and how many it was given last.
    static TRAP: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// A futex woke the calling thread. `waker` is the waker's CPU plus one, or 0 if the waker did not
/// wait for it.
fn learn(waker: u32) {
    let crossed = waker != 0 && own_cpu() != waker;
    // A thread that may use only one CPU is woken there either way.
    let helps = crossed && rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() > 1);
    let span = if helps { TRAP.get().1.saturating_mul(4).clamp(SPANS.0, SPANS.1) } else { 0 };
    TRAP.set((span, span));
}

/// Clears what the record's last user left, for a new thread.
pub(crate) fn reset(region: &Region, thread: Id<Thread>) {
    region.waker(thread.index()).store(0, Relaxed);
    reply_lock::reset(region, thread);
    region.sleep_word(thread.index()).reset();
}

/// Under the lock: the calling `thread` found no work and will call [`sleep`] after the unlock. The
/// kernel places only threads of its `fair` class by where they are woken.
///
/// In seccomp, if that is likely to help: a futex woke it on another CPU than its waker's. True
/// then.
pub(crate) fn will_sleep(region: &Region, thread: Id<Thread>, fair: bool) -> bool {
    region.notification_id(thread.index()).store(0, Relaxed);
    let (left, span) = TRAP.get();
    let traps = fair && left != 0 && region.wakers().enter();
    TRAP.set((left.saturating_sub(1), span));
    region.sleep_word(thread.index()).set_out(if traps { GOES_TO_SECCOMP } else { GOES_TO_SLEEP });
    traps
}

/// As [`will_sleep`], for a polling thread ([`sleep_until`]).
pub(crate) fn will_poll(region: &Region, thread: Id<Thread>) {
    region.notification_id(thread.index()).store(0, Relaxed);
    region.sleep_word(thread.index()).set_out(GOES_TO_SLEEP);
}

/// How a [`sleep`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slept {
    /// A waker claimed the wake-up, or the context has ended.
    Woken,
    /// A signal was handled.
    Interrupted,
}

/// After the unlock: sleeps until a waker claims the wake-up. `traps` is the result of
/// [`will_sleep`].
///
/// A signal handler ends it too, unless it was installed with `SA_RESTART`: the kernel then enters
/// either sleep again, without running any of our code. A thread that waits on a PI futex stays
/// asleep (`FUTEX_LOCK_PI` is always restarted).
pub(crate) fn sleep(region: &Region, thread: Id<Thread>, traps: bool) -> Slept {
    let word = region.sleep_word(thread.index());
    let mut slept = Slept::Woken;
    // The first claim counts: a claimed thread was woken, whatever else happened.
    let mut leave = |interrupted| {
        slept = if word.make(interrupted) { Slept::Interrupted } else { Slept::Woken };
    };
    if word.is(Boosts) {
        reply_lock::wait(region, thread, |holder| wake_claimed_again(region, holder));
        if word.is(Awake) {
            return Slept::Woken;
        }
    }
    if word.make(ENTERS_SECCOMP) {
        let tag = region.words()[TAG].load(Relaxed);
        while word.is(InSeccomp) && region.ended().is_none() {
            match seccomp::sleep(thread.index() as u64, tag) {
                Ended::Answered => {}
                Ended::Interrupted => leave(IS_INTERRUPTED_IN_SECCOMP),
                Ended::NotHeld => {
                    region.wakers().stop_seccomp();
                    word.make(FALLS_OUT_OF_SECCOMP);
                }
            }
        }
        word.make(LEAVES_SECCOMP);
    }
    while word.is(Asleep) && region.ended().is_none() {
        // EAGAIN: woken before it slept. EINTR: a signal, which has been handled.
        if word.sleep() == Err(Errno::INTR) {
            leave(IS_INTERRUPTED);
        }
    }
    if slept == Slept::Interrupted {
        if traps {
            region.wakers().leave();
        }
        return slept;
    }
    let waker = region.waker(thread.index()).load(Relaxed);
    if traps {
        region.wakers().leave();
        if waker == 0 {
            TRAP.set((0, 0));
        }
    } else {
        learn(waker);
    }
    Slept::Woken
}

/// After the unlock and [`will_poll`]: as [`sleep`], until `deadline` at the latest. It may end
/// earlier for no reason. Any signal's handler ends it, since the kernel restarts no wait that has
/// a timeout.
pub(crate) fn sleep_until(region: &Region, thread: Id<Thread>, deadline: Option<Instant>) -> Slept {
    /// A wait without a deadline restarts after this time.
    const LONG: Duration = Duration::from_secs(3600);
    let word = region.sleep_word(thread.index());
    while word.is(Asleep) && region.ended().is_none() {
        let left = deadline.map_or(LONG, |deadline| deadline.saturating_duration_since(Instant::now()));
        let ended = match word.sleep_for(left.min(LONG)) {
            Err(Errno::INTR) => Slept::Interrupted,
            Err(Errno::TIMEDOUT) => Slept::Woken,
            _ => continue,
        };
        // A waker may have claimed it first.
        if word.make(IS_INTERRUPTED) {
            return ended;
        }
    }
    Slept::Woken
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::records::Process;
    use crate::sleep_word::State::WillEnterSeccomp;
    use crate::sleep_word::{LEAVES_SECCOMP, WAKES_SLEEPER};

    /// The number of no CPU.
    const OTHER_CPU: u32 = 100_000;

    /// Learns of a waker on this CPU.
    fn learn_here() {
        loop {
            let own = own_cpu();
            learn(own);
            // It may have been moved in between.
            if own_cpu() == own {
                return;
            }
        }
    }

    #[test]
    fn seccomp_is_used_more_often_the_more_often_a_futex_wakes_on_another_cpu() {
        let all = sched_getaffinity(None).expect("this thread's own");
        if all.count() == 1 {
            return roundtrip_skips::skip(roundtrip_skips::Need::Machine, "there is one CPU");
        }
        let spans = |waker: u32, count: usize| -> Vec<(u32, u32)> {
            let learned = (0..count).map(|_| {
                learn(waker);
                TRAP.get()
            });
            learned.collect()
        };
        assert_eq!(spans(OTHER_CPU, 5), [64, 256, 1024, 4096, 4096].map(|span| (span, span)));
        learn_here();
        assert_eq!(TRAP.get(), (0, 0), "a futex keeps both together");
        assert_eq!(spans(OTHER_CPU, 1), [(64, 64)]);
        learn(0);
        assert_eq!(TRAP.get(), (0, 0), "its waker did not wait for it");
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("a CPU"));
        sched_setaffinity(None, &one).expect("one of the thread's CPUs");
        assert_eq!(spans(OTHER_CPU, 1), [(0, 0)], "it may use no other");
    }

    #[test]
    fn only_an_ordinary_thread_that_seccomp_is_likely_to_help_uses_it() {
        let _alone = crate::wakers::tests::ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let region = Region::create().expect("memory");
        let own = Id::<Thread>::new(1).expect("an index");
        let word = region.sleep_word(1);
        let sleeps = |left: u32, fair: bool| {
            word.reset();
            region.notification_id(1).store(9, Relaxed);
            TRAP.set((left, 64));
            let traps = will_sleep(&region, own, fair);
            assert_eq!(TRAP.get(), (left.saturating_sub(1), 64));
            assert_eq!(region.notification_id(1).load(Relaxed), 0, "a notification of before");
            assert!(word.is(if traps { WillEnterSeccomp } else { Asleep }));
            traps
        };
        assert!(!sleeps(2, true), "this process has no filter");
        region.wakers().set_context(0xb1);
        region.wakers().start_seccomp(Id::<Process>::new(1).expect("a slot"), 1);
        assert!(!sleeps(2, false) && !sleeps(0, true));
        assert_eq!(region.wakers().trapped(), 0);
        assert!(sleeps(2, true) && sleeps(1, true));
        assert_eq!(region.wakers().trapped(), 2);
        // The waker did not wait for this thread, so it uses the futex again.
        assert!(word.make(crate::sleep_word::KEEPS_FROM_SECCOMP));
        region.waker(1).store(0, Relaxed);
        TRAP.set((5, 64));
        assert_eq!(sleep(&region, own, true), Slept::Woken);
        assert_eq!((region.wakers().trapped(), TRAP.get()), (1, (0, 0)));
        word.reset();
        region.waker(1).store(3, Relaxed);
        TRAP.set((5, 64));
        assert_eq!(sleep(&region, own, true), Slept::Woken);
        assert_eq!((region.wakers().trapped(), TRAP.get()), (0, (5, 64)));
    }

    #[test]
    fn a_seccomp_filter_that_stops_no_thread_is_not_tried_again() {
        let _alone = crate::wakers::tests::ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let region = std::sync::Arc::new(Region::create().expect("memory"));
        let own = Id::<Thread>::new(1).expect("an index");
        region.wakers().set_context(0xb2);
        region.wakers().start_seccomp(Id::<Process>::new(1).expect("a slot"), 1);
        let sleeping = std::sync::Arc::clone(&region);
        // No filter holds up its call.
        let sleeper = std::thread::spawn(move || {
            TRAP.set((5, 64));
            let traps = will_sleep(&sleeping, own, true);
            (traps, sleep(&sleeping, own, traps))
        });
        let word = region.sleep_word(1);
        while !word.make(WAKES_SLEEPER) {
            assert!(!word.make(LEAVES_SECCOMP));
            std::thread::sleep(Duration::from_millis(1));
        }
        word.wake(1);
        assert_eq!(sleeper.join().expect("no panic"), (true, Slept::Woken));
        assert!(!region.wakers().uses_seccomp());
        assert_eq!(region.wakers().trapped(), 0);
    }

    #[test]
    fn a_poll_ends_at_its_timeout_or_when_it_is_woken() {
        let region = std::sync::Arc::new(Region::create().expect("memory"));
        let own = Id::<Thread>::new(1).expect("an index");
        region.notification_id(1).store(9, Relaxed);
        will_poll(&region, own);
        assert!(region.sleep_word(1).is(Asleep));
        assert_eq!(region.notification_id(1).load(Relaxed), 0);
        let (begin, time) = (Instant::now(), Duration::from_millis(20));
        assert_eq!(sleep_until(&region, own, Some(begin + time)), Slept::Woken);
        assert!(begin.elapsed() >= time && region.sleep_word(1).is(Awake));
        assert_eq!(sleep_until(&region, own, None), Slept::Woken, "it does not sleep");
        will_poll(&region, own);
        let sleeping = std::sync::Arc::clone(&region);
        let sleeper = std::thread::spawn(move || sleep_until(&sleeping, own, None));
        assert!(region.sleep_word(1).make(WAKES_SLEEPER));
        region.sleep_word(1).wake(1);
        assert_eq!(sleeper.join().expect("no panic"), Slept::Woken);
        will_poll(&region, own);
        region.end(crate::region::End::Gone);
        assert_eq!(sleep_until(&region, own, None), Slept::Woken, "the context has ended");
    }
}
