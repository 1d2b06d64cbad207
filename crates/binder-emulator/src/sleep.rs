//! How a thread sleeps: on a futex; in a trap, so that it can be woken on its waker's CPU; or lending its priority while it
//! waits. What its word says meanwhile is `sleep_word.rs`'s business, how it is woken `lock/wake.rs`'s.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::hold;
use crate::lock::wake::{hurry_claimed, own_cpu};
use crate::records::{Id, TAG, Thread};
use crate::region::Region;
use crate::sleep_word::State::{Asleep, Awake, Lends, Trapped};
use crate::sleep_word::{
    ENTERS_TRAP, FALLS_OUT_OF_TRAP, GOES_TO_SLEEP, GOES_TO_TRAP, IS_INTERRUPTED, IS_INTERRUPTED_IN_TRAP,
    LEAVES_TRAP,
};
use crate::trap::{self, Ended};

/// For how many sleeps a thread uses the trap after it found that a futex woke it on another CPU than its waker's: at first,
/// and at most. In between it tries the futex once, which costs nothing where the kernel keeps both together by itself.
const SPANS: (u32, u32) = (64, 4096);

thread_local! {
    /// How many sleeps are left to the trap, and how many it was given last.
    static TRAP: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// After the calling thread was woken by a futex, by one on this CPU (plus one; 0: by one that did not wait for it).
fn learn(waker: u32) {
    let crossed = waker != 0 && own_cpu() != waker;
    // One that may use one CPU only is woken there either way.
    let helps = crossed && rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() > 1);
    let span = if helps { TRAP.get().1.saturating_mul(4).clamp(SPANS.0, SPANS.1) } else { 0 };
    TRAP.set((span, span));
}

/// A new thread has nothing of its record's last user.
pub(crate) fn reset(region: &Region, thread: Id<Thread>) {
    region.waker(thread.index()).store(0, Relaxed);
    hold::reset(region, thread);
    region.sleep_word(thread.index()).reset();
}

/// Under the lock: the calling `thread` found no work and will call [`sleep`] after the unlock. The kernel places only
/// threads of its `fair` class by where they are woken.
///
/// In the trap, if that is likely to help: a futex woke it on another CPU than its waker's. True then.
pub(crate) fn will_sleep(region: &Region, thread: Id<Thread>, fair: bool) -> bool {
    region.trap_id(thread.index()).store(0, Relaxed);
    let (left, span) = TRAP.get();
    let traps = fair && left != 0 && region.wakers().enter();
    TRAP.set((left.saturating_sub(1), span));
    region.sleep_word(thread.index()).set_out(if traps { GOES_TO_TRAP } else { GOES_TO_SLEEP });
    traps
}

/// As [`will_sleep`], for one that polls ([`sleep_until`]).
pub(crate) fn will_poll(region: &Region, thread: Id<Thread>) {
    region.trap_id(thread.index()).store(0, Relaxed);
    region.sleep_word(thread.index()).set_out(GOES_TO_SLEEP);
}

/// How a [`sleep`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slept {
    /// Someone claimed the wake-up, or the context has ended.
    Woken,
    /// Nobody did: a signal was handled.
    Interrupted,
}

/// After the unlock: sleeps until someone claims the wake-up. `traps` is what [`will_sleep`] said.
///
/// A signal handler ends it too, unless it was installed with `SA_RESTART`: the kernel then enters either sleep again, with no
/// code of ours in between. One that lends its priority sleeps on (`FUTEX_LOCK_PI` is restarted always).
pub(crate) fn sleep(region: &Region, thread: Id<Thread>, traps: bool) -> Slept {
    let word = region.sleep_word(thread.index());
    let mut slept = Slept::Woken;
    // Whoever claims it first has it: a claimed thread was woken, whatever else came.
    let mut leave = |interrupted| {
        slept = if word.make(interrupted) { Slept::Interrupted } else { Slept::Woken };
    };
    if word.is(Lends) {
        hold::wait(region, thread, |holder| hurry_claimed(region, holder));
        if word.is(Awake) {
            return Slept::Woken;
        }
    }
    if word.make(ENTERS_TRAP) {
        let tag = region.words()[TAG].load(Relaxed);
        while word.is(Trapped) && region.ended().is_none() {
            match trap::trap(thread.index() as u64, tag) {
                Ended::Answered => {}
                Ended::Interrupted => leave(IS_INTERRUPTED_IN_TRAP),
                Ended::NotHeld => {
                    region.wakers().stop_trapping();
                    word.make(FALLS_OUT_OF_TRAP);
                }
            }
        }
        word.make(LEAVES_TRAP);
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
    /// A wait without a deadline begins anew after this time.
    const LONG: Duration = Duration::from_secs(3600);
    let word = region.sleep_word(thread.index());
    while word.is(Asleep) && region.ended().is_none() {
        let left = deadline.map_or(LONG, |deadline| deadline.saturating_duration_since(Instant::now()));
        let ended = match word.sleep_for(left.min(LONG)) {
            Err(Errno::INTR) => Slept::Interrupted,
            Err(Errno::TIMEDOUT) => Slept::Woken,
            _ => continue,
        };
        // Whoever claims it first has it.
        if word.make(IS_INTERRUPTED) {
            return ended;
        }
    }
    Slept::Woken
}
