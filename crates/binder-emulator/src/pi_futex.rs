//! Priority-inheriting futexes (`FUTEX_LOCK_PI` in futex(2)), with a limit on the wait. Must not
//! know what they are used for.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

thread_local! {
    static RAISED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs at a waiter's priority that its policy does not show.
pub(crate) fn is_raised() -> bool {
    RAISED.get()
}

/// Sets the result of [`is_raised`] for the calling thread.
pub(crate) fn set_raised(raised: bool) {
    RAISED.set(raised);
}

/// Takes the lock `word`, waiting for at most `slice`. Uses `FUTEX_LOCK_PI2` (Linux 5.14), whose
/// clock cannot be set, else `FUTEX_LOCK_PI`.
///
/// # Errors
/// Those of futex(2); ETIMEDOUT after the slice.
pub(crate) fn lock_for(word: &AtomicU32, slice: Duration) -> Result<(), Errno> {
    static OLD_KERNEL: AtomicBool = AtomicBool::new(false);
    let until = |clock| futex::Timespec::try_from(now(clock).saturating_add(slice)).map_err(|_| Errno::INVAL);
    if !OLD_KERNEL.load(Relaxed) {
        match futex::lock_pi2(word, futex::Flags::empty(), Some(&until(ClockId::Monotonic)?)) {
            Err(Errno::NOSYS) => OLD_KERNEL.store(true, Relaxed),
            other => return other,
        }
    }
    futex::lock_pi(word, futex::Flags::empty(), Some(&until(ClockId::Realtime)?))
}

pub(crate) fn now(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
