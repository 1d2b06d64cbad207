//! The word of shared memory that a thread sleeps on: its states, who may change them, and what
//! happens if the thread that made a change is killed before it has done what must follow.
//!
//! [`CHANGES`] is the whole table. Such a word changes only by one of its rows
//! ([`SleepWord::make`]), except that a reused thread record starts as [`State::Awake`].
//!
//! | from | to | by | then |
//! |---|---|---|---|
//! | awake | asleep, will enter seccomp, boosts | the sleeper, under the lock | it unlocks, and sleeps that way |
//! | asleep | awake | a waker, under the lock | it unlocks, and wakes the futex |
//! | will enter seccomp | awake | a waker, under the lock | nothing: the sleeper will not go |
//! | will enter seccomp | in seccomp | the sleeper | it enters seccomp |
//! | in seccomp | claimed | a waker, under the lock | it unlocks, and answers the notification |
//! | claimed | awake | the sleeper, out of seccomp | it looks for work |
//! | boosts | awake | a waker, under the lock | the owner of its reply lock releases it |
//! | asleep, in seccomp | awake | the sleeper, after a signal or a timeout | it looks for work |
//! | in seccomp | asleep | the sleeper, if seccomp does not suspend its call | it sleeps on the futex |
//! | boosts | asleep, awake | the sleeper, if the kernel refuses the boost, or after it got the lock | it sleeps on the futex, or looks for work |
//!
//! A thread decides to sleep under the lock, and a waker gives it work under the lock, so no
//! wake-up between two living threads is lost. The column "then" happens after the unlock. If a
//! waker is killed before that, a thread stays asleep although its word says awake or claimed. So
//! the supervisor makes every thread check for work after a death, and checks for claimed threads
//! as long as seccomp is in use. A waiter for a reply lock wakes from time to time and checks its
//! word.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// What a thread's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// It runs, or was woken.
    Awake = 0,
    /// On the futex that the word is, or about to be.
    Asleep = 1,
    /// About to sleep in seccomp.
    WillEnterSeccomp = 2,
    /// In seccomp, or within an instruction of it.
    InSeccomp = 3,
    /// As [`State::InSeccomp`], but it has work now: its notification must be answered.
    Claimed = 4,
    /// Waiting in the kernel for its reply lock (`reply_lock.rs`), or about to.
    Boosts = 5,
}

use State::{Asleep, Awake, Boosts, Claimed, InSeccomp, WillEnterSeccomp};

const STATES: [State; 6] = [Awake, Asleep, WillEnterSeccomp, InSeccomp, Claimed, Boosts];

/// Who makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The thread itself, under the context's lock.
    SleeperLocked,
    /// The thread itself.
    Sleeper,
    /// The thread that gives it work, under the context's lock.
    WakerLocked,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    from: State,
    to: State,
    by: By,
}

const fn change(from: State, to: State, by: By) -> Change {
    Change { from, to, by }
}

/// It found no work, and will sleep on its futex.
pub(crate) const GOES_TO_SLEEP: Change = change(Awake, Asleep, By::SleeperLocked);
/// It found no work, and will sleep in seccomp.
pub(crate) const GOES_TO_SECCOMP: Change = change(Awake, WillEnterSeccomp, By::SleeperLocked);
/// It waits for a reply, and boosts the thread that makes it.
pub(crate) const GOES_TO_BOOST: Change = change(Awake, Boosts, By::SleeperLocked);
/// It is given work. Its futex must be woken.
pub(crate) const WAKES_SLEEPER: Change = change(Asleep, Awake, By::WakerLocked);
/// It is given work before it was in seccomp. Nothing else is needed.
pub(crate) const KEEPS_FROM_SECCOMP: Change = change(WillEnterSeccomp, Awake, By::WakerLocked);
/// It is given work in seccomp. Its notification must be answered.
pub(crate) const CLAIMS: Change = change(InSeccomp, Claimed, By::WakerLocked);
/// It is given work while it boosts its server. Its reply lock must be released.
pub(crate) const WAKES_PI_WAITER: Change = change(Boosts, Awake, By::WakerLocked);
/// It enters seccomp.
pub(crate) const ENTERS_SECCOMP: Change = change(WillEnterSeccomp, InSeccomp, By::Sleeper);
/// It has left seccomp after it was claimed.
pub(crate) const LEAVES_SECCOMP: Change = change(Claimed, Awake, By::Sleeper);
/// A signal, or the end of its time, has ended its sleep on the futex.
pub(crate) const IS_INTERRUPTED: Change = change(Asleep, Awake, By::Sleeper);
/// A signal has ended its sleep in seccomp.
pub(crate) const IS_INTERRUPTED_IN_SECCOMP: Change = change(InSeccomp, Awake, By::Sleeper);
/// Seccomp does not suspend its call.
pub(crate) const FALLS_OUT_OF_SECCOMP: Change = change(InSeccomp, Asleep, By::Sleeper);
/// The kernel refuses to let it boost: it sleeps on its futex.
pub(crate) const CANNOT_BOOST: Change = change(Boosts, Asleep, By::Sleeper);
/// Its reply lock was released: it looks for work.
pub(crate) const HAS_BOOSTED: Change = change(Boosts, Awake, By::Sleeper);

/// The table.
#[cfg(test)]
const CHANGES: [Change; 14] = [
    GOES_TO_SLEEP,
    GOES_TO_SECCOMP,
    GOES_TO_BOOST,
    WAKES_SLEEPER,
    KEEPS_FROM_SECCOMP,
    CLAIMS,
    WAKES_PI_WAITER,
    ENTERS_SECCOMP,
    LEAVES_SECCOMP,
    IS_INTERRUPTED,
    IS_INTERRUPTED_IN_SECCOMP,
    FALLS_OUT_OF_SECCOMP,
    CANNOT_BOOST,
    HAS_BOOSTED,
];

/// A thread's word.
#[derive(Clone, Copy)]
pub(crate) struct SleepWord<'r>(pub(crate) &'r AtomicU32);

impl SleepWord<'_> {
    /// The state. An invalid number, which a participant may have written, counts as
    /// [`State::Awake`].
    #[inline]
    pub(crate) fn state(self) -> State {
        let word = self.0.load(Acquire);
        STATES.into_iter().find(|&state| state as u32 == word).unwrap_or(Awake)
    }

    /// Whether it says that.
    #[inline]
    pub(crate) fn is(self, state: State) -> bool {
        self.0.load(Acquire) == state as u32
    }

    /// Returns true if its thread sleeps, or is about to, and was not woken.
    pub(crate) fn is_asleep(self) -> bool {
        matches!(self.state(), Asleep | WillEnterSeccomp | InSeccomp | Boosts)
    }

    /// Makes a change, if the word says what it starts from.
    #[inline]
    pub(crate) fn make(self, change: Change) -> bool {
        self.0.compare_exchange(change.from as u32, change.to as u32, AcqRel, Acquire).is_ok()
    }

    /// Makes a change that only the thread itself can make. It runs, so the word says awake, unless
    /// a participant has overwritten it.
    #[inline]
    pub(crate) fn set_out(self, change: Change) {
        debug_assert!(change.from == Awake && change.by == By::SleeperLocked, "{change:?}");
        self.0.store(change.to as u32, Release);
    }

    /// A new thread uses the record.
    pub(crate) fn reset(self) {
        self.0.store(Awake as u32, Release);
    }

    /// Sleeps on it as long as it says [`State::Asleep`].
    ///
    /// # Errors
    /// EINTR after a signal was handled, EAGAIN when it says something else.
    pub(crate) fn sleep(self) -> Result<(), Errno> {
        futex::wait(self.0, futex::Flags::empty(), Asleep as u32, None)
    }

    /// The same, at most for `time`.
    ///
    /// # Errors
    /// As [`SleepWord::sleep`], and ETIMEDOUT. EINTR also after a handler that was set with
    /// `SA_RESTART`.
    pub(crate) fn sleep_for(self, time: Duration) -> Result<(), Errno> {
        // Not FUTEX_WAIT: only waits for the lock use it with a timeout, so /proc/PID/syscall shows
        // the two kinds of wait apart.
        let until = Timespec::try_from(time)
            .ok()
            .and_then(|time| clock_gettime(ClockId::Monotonic).checked_add(time));
        let flags = futex::Flags::empty();
        futex::wait_bitset(self.0, flags, Asleep as u32, until.as_ref(), NonZeroU32::MAX)
    }

    /// Wakes up to `most` that sleep on it.
    pub(crate) fn wake(self, most: u32) {
        let _ = futex::wake(self.0, futex::Flags::empty(), most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_in_the_table_once_and_has_a_target_state() {
        for (at, change) in CHANGES.iter().enumerate() {
            assert_ne!(change.from, change.to);
            assert!(!CHANGES[..at].contains(change), "{change:?}");
        }
    }

    #[test]
    fn only_the_thread_itself_goes_to_sleep_and_leaves_seccomp() {
        for change in CHANGES {
            assert_eq!(change.from == Awake, change.by == By::SleeperLocked, "{change:?}");
            if [InSeccomp, Claimed].contains(&change.from) && change.to != Claimed {
                assert_eq!(change.by, By::Sleeper, "{change:?}");
            }
        }
    }

    #[test]
    fn a_waker_has_exactly_one_change_for_each_way_to_sleep() {
        for state in STATES {
            let changes =
                CHANGES.iter().filter(|change| change.from == state && change.by == By::WakerLocked);
            assert_eq!(changes.count(), usize::from(![Awake, Claimed].contains(&state)), "{state:?}");
        }
    }

    #[test]
    fn a_change_is_made_only_from_its_start_state() {
        for start in STATES {
            for change in CHANGES {
                let word = AtomicU32::new(start as u32);
                assert_eq!(SleepWord(&word).make(change), start == change.from);
                let expected = if start == change.from { change.to } else { start };
                assert_eq!(SleepWord(&word).state(), expected);
            }
        }
        assert_eq!(SleepWord(&AtomicU32::new(77)).state(), Awake, "what was scribbled");
    }
}
