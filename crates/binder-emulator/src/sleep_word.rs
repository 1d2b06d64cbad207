//! The word of shared memory that a thread sleeps on: what it can say, who may change it to what,
//! and what goes on when whoever made a change is killed before it has done what must follow.
//!
//! [`CHANGES`] is the whole table, and nothing changes such a word but by one of its rows
//! ([`SleepWord::make`]), except that a thread's record that is used anew starts [`State::Awake`].
//!
//! | from | to | by | then |
//! |---|---|---|---|
//! | awake | asleep, will trap, boosts | the sleeper, under the lock | it unlocks, and sleeps that way |
//! | asleep | awake | a waker, under the lock | it unlocks, and wakes the futex |
//! | will trap | awake | a waker, under the lock | nothing: the sleeper will not go |
//! | will trap | trapped | the sleeper | it enters the trap |
//! | trapped | claimed | a waker, under the lock | it unlocks, and answers the trap |
//! | claimed | awake | the sleeper, out of its trap | it looks for work |
//! | boosts | awake | a waker, under the lock | whoever holds what it waits for gives that back |
//! | asleep, trapped | awake | the sleeper, which handled a signal or had a time that is over | it looks for work |
//! | trapped | asleep | the sleeper, which the trap does not hold | it sleeps on the futex |
//! | boosts | asleep, awake | the sleeper, which the kernel's queue does not hold, or lets go | it sleeps on the futex, or looks for work |
//!
//! A thread decides to sleep under the lock, and a waker gives it work under the lock, so no
//! wake-up is lost between two that live. The column "then" happens after the unlock. A waker that
//! is killed before it leaves a thread that sleeps though its word says awake or claimed: the
//! keeper makes every thread look again after a death, and looks for claimed threads as long as
//! traps are in use. A waiter looks by itself: it waits in slices.

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
    /// It runs, or somebody has woken it.
    Awake = 0,
    /// On the futex that the word is, or about to be.
    Asleep = 1,
    /// About to sleep in the trap.
    WillTrap = 2,
    /// In the trap, or within an instruction of it.
    Trapped = 3,
    /// As [`State::Trapped`], and somebody has given it work: its trap must be answered.
    Claimed = 4,
    /// In the kernel's queue for its hold (`hold.rs`), or about to be.
    Boosts = 5,
}

use State::{Asleep, Awake, Boosts, Claimed, Trapped, WillTrap};

const STATES: [State; 6] = [Awake, Asleep, WillTrap, Trapped, Claimed, Boosts];

/// Who makes a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The thread itself, under the context's lock.
    SleeperLocked,
    /// The thread itself.
    Sleeper,
    /// Whoever gives it work, under the context's lock.
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
/// It found no work, and will sleep in the trap.
pub(crate) const GOES_TO_TRAP: Change = change(Awake, WillTrap, By::SleeperLocked);
/// It waits for a reply, and boosts whoever makes it.
pub(crate) const GOES_TO_BOOST: Change = change(Awake, Boosts, By::SleeperLocked);
/// It is given work. Its futex must be woken.
pub(crate) const WAKES_SLEEPER: Change = change(Asleep, Awake, By::WakerLocked);
/// It is given work before it was in the trap. Nothing else is needed.
pub(crate) const KEEPS_FROM_TRAP: Change = change(WillTrap, Awake, By::WakerLocked);
/// It is given work in its trap, which must be answered.
pub(crate) const CLAIMS: Change = change(Trapped, Claimed, By::WakerLocked);
/// It is given work while it boosts its server. Its hold must be given back.
pub(crate) const WAKES_PI_WAITER: Change = change(Boosts, Awake, By::WakerLocked);
/// It enters the trap.
pub(crate) const ENTERS_TRAP: Change = change(WillTrap, Trapped, By::Sleeper);
/// It has left the trap after it was claimed.
pub(crate) const LEAVES_TRAP: Change = change(Claimed, Awake, By::Sleeper);
/// A signal, or the end of its time, has ended its sleep on the futex.
pub(crate) const IS_INTERRUPTED: Change = change(Asleep, Awake, By::Sleeper);
/// A signal has ended its trap.
pub(crate) const IS_INTERRUPTED_IN_TRAP: Change = change(Trapped, Awake, By::Sleeper);
/// The trap does not hold it.
pub(crate) const FALLS_OUT_OF_TRAP: Change = change(Trapped, Asleep, By::Sleeper);
/// The kernel refuses to let it boost: it sleeps on its futex.
pub(crate) const CANNOT_BOOST: Change = change(Boosts, Asleep, By::Sleeper);
/// Its hold was given back: it looks for work.
pub(crate) const HAS_BOOSTED: Change = change(Boosts, Awake, By::Sleeper);

/// The table.
#[cfg(test)]
const CHANGES: [Change; 14] = [
    GOES_TO_SLEEP,
    GOES_TO_TRAP,
    GOES_TO_BOOST,
    WAKES_SLEEPER,
    KEEPS_FROM_TRAP,
    CLAIMS,
    WAKES_PI_WAITER,
    ENTERS_TRAP,
    LEAVES_TRAP,
    IS_INTERRUPTED,
    IS_INTERRUPTED_IN_TRAP,
    FALLS_OUT_OF_TRAP,
    CANNOT_BOOST,
    HAS_BOOSTED,
];

/// A thread's word.
#[derive(Clone, Copy)]
pub(crate) struct SleepWord<'r>(pub(crate) &'r AtomicU32);

impl SleepWord<'_> {
    /// What it says. A number that a participant scribbled there is taken for [`State::Awake`].
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

    /// Whether its thread sleeps, or is about to, and nobody has woken it.
    pub(crate) fn is_asleep(self) -> bool {
        matches!(self.state(), Asleep | WillTrap | Trapped | Boosts)
    }

    /// Makes a change, if the word says what it starts from.
    #[inline]
    pub(crate) fn make(self, change: Change) -> bool {
        self.0.compare_exchange(change.from as u32, change.to as u32, AcqRel, Acquire).is_ok()
    }

    /// Makes a change that only the thread itself can make: it runs, so the word says awake, unless
    /// a participant has scribbled.
    #[inline]
    pub(crate) fn set_out(self, change: Change) {
        debug_assert!(change.from == Awake && change.by == By::SleeperLocked, "{change:?}");
        self.0.store(change.to as u32, Release);
    }

    /// The record of its thread is used anew.
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
        // Not FUTEX_WAIT, whose timeouts are those of waits for the lock: who looks at a thread
        // from outside can tell.
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
    fn each_change_is_in_the_table_once_and_none_leads_nowhere() {
        for (at, change) in CHANGES.iter().enumerate() {
            assert_ne!(change.from, change.to);
            assert!(!CHANGES[..at].contains(change), "{change:?}");
        }
    }

    #[test]
    fn only_the_thread_itself_goes_to_sleep_and_leaves_its_trap() {
        for change in CHANGES {
            assert_eq!(change.from == Awake, change.by == By::SleeperLocked, "{change:?}");
            if [Trapped, Claimed].contains(&change.from) && change.to != Claimed {
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
    fn a_change_is_made_only_from_where_it_starts() {
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
