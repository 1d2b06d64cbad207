//! How a thread sleeps and how it is woken: one futex word for each thread.
//!
//! A thread decides to sleep under the lock ([`will_sleep`]), so a waker, which gives it work under the lock, sees
//! that it will, and no wake-up is lost. A faster way to wake (on the waker's CPU) would replace this file only.

use std::sync::atomic::Ordering::Relaxed;

use rustix::thread::futex;

use super::records::{Id, Thread};
use super::region::Region;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// Under the lock: `thread` found no work and will call [`sleep`] after the unlock.
pub(super) fn will_sleep(region: &Region, thread: Id<Thread>) {
    region.futex(thread.index()).store(ASLEEP, Relaxed);
}

/// Under the lock: whether `thread` sleeps, or is about to.
pub(super) fn is_asleep(region: &Region, thread: Id<Thread>) -> bool {
    region.futex(thread.index()).load(Relaxed) == ASLEEP
}

/// Under the lock: claims the wake-up of `thread`. True when it sleeps (or is about to) and must be woken.
pub(super) fn must_wake(region: &Region, thread: Id<Thread>) -> bool {
    let asleep = is_asleep(region, thread);
    if asleep {
        region.futex(thread.index()).store(AWAKE, Relaxed);
    }
    asleep
}

/// After the unlock: sleeps until someone claims the wake-up.
pub(super) fn sleep(region: &Region, thread: Id<Thread>) {
    let word = region.futex(thread.index());
    while word.load(Relaxed) == ASLEEP {
        // EAGAIN: woken before it slept. EINTR: a signal; it has been handled, the wait goes on.
        let _ = futex::wait(word, futex::Flags::empty(), ASLEEP, None);
    }
}

/// After the unlock: wakes a thread whose wake-up was claimed.
pub(super) fn wake(region: &Region, thread: Id<Thread>) {
    let _ = futex::wake(region.futex(thread.index()), futex::Flags::empty(), 1);
}

/// Makes `thread` look for work again whatever its word says: after a death, a wake-up that the dead process had
/// claimed may never have been sent.
pub(super) fn kick(region: &Region, thread: Id<Thread>) {
    region.futex(thread.index()).store(AWAKE, Relaxed);
    wake(region, thread);
}
