#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! The context's mutex: a few words of shared memory that threads of all participants exclude each other with.
//!
//! The first word is a priority-inheriting futex (futex(2)): it holds the owner's thread id, the kernel lends a
//! real-time waiter's priority to the owner, and it notices an owner that died. But it also hands the lock to a sleeping
//! waiter on each release, and then a busy context is as slow as its context switches (a lock convoy: throughput of
//! eight processes fell to a tenth). So ordinary threads, which may be overtaken, spin for a moment, then sleep on the second
//! word, and whoever comes first when the lock is free gets it. Real-time threads wait on the first word at once, ordinary
//! ones after [`PATIENCE`], which also finds an owner that is dead.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

use rustix::io::Errno;
use rustix::thread::futex;

use super::hold;
use crate::sched;

/// How often a waiter looks at the lock before it sleeps: longer than the lock is usually held.
const SPINS: u32 = 100;

/// How long an ordinary thread sleeps before it lends its priority to the owner, in nanoseconds.
const PATIENCE_NS: i64 = 5_000_000;

/// How long a thread waits in the kernel's queue before it looks around, in nanoseconds.
const LOOK_AROUND_NS: i64 = 100_000_000;

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's id.
pub(super) fn own_tid() -> u32 {
    TID.with(|tid| {
        if tid.get() == 0 {
            tid.set(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        }
        tid.get()
    })
}

/// The words.
#[derive(Clone, Copy)]
pub(super) struct Mutex<'a> {
    /// Owner's thread id, with the kernel's bits; 0 when free.
    pub(super) owner: &'a AtomicU32,
    /// 1 when an ordinary thread sleeps, or might.
    pub(super) sleepers: &'a AtomicU32,
    /// How often the lock was taken from an owner that had died without the kernel noticing.
    pub(super) takeovers: &'a AtomicU32,
    /// The context has ended: nobody need wait for anything. In this process's own memory.
    pub(super) ended: &'a AtomicBool,
}

impl Mutex<'_> {
    /// Takes the lock. Whoever gets it must look whether the last owner died.
    #[inline]
    pub(super) fn lock(self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    /// Gives it back, and wakes one that sleeps for it.
    #[inline]
    pub(super) fn unlock(self) {
        if self.owner.compare_exchange(own_tid(), 0, SeqCst, Relaxed).is_err() {
            // A real-time thread waits: the kernel hands the lock on. An error means that a participant scribbled on
            // the word; the others' own calls find that out.
            let _ = futex::unlock_pi(self.owner, futex::Flags::empty());
        }
        // Sequentially consistent with `sleep`: either this sees the sleeper, or the sleeper sees the free lock.
        if self.sleepers.load(SeqCst) != 0 {
            self.sleepers.store(0, SeqCst);
            let _ = futex::wake(self.sleepers, futex::Flags::empty(), 1);
        }
    }

    #[inline]
    fn try_lock(self) -> bool {
        self.owner.compare_exchange(0, own_tid(), SeqCst, Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(self) {
        if more_than_one_cpu() {
            for _ in 0..SPINS {
                std::hint::spin_loop();
                if self.owner.load(Relaxed) == 0 && self.try_lock() {
                    return;
                }
            }
        }
        // Asked anew each time: a thread's priority may have been lent to it a moment ago.
        let ordinary = !hold::is_lent() && sched::get(0).is_ok_and(|own| !own.is_realtime());
        if !(ordinary && self.sleep()) {
            self.lock_inheriting();
        }
    }

    /// Waits without a place in a queue. False when that took too long.
    fn sleep(self) -> bool {
        let until = futex::Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS };
        loop {
            // Also set by whoever got the lock after sleeping: there may be more sleepers than one.
            self.sleepers.store(1, SeqCst);
            if self.try_lock() {
                return true;
            }
            let slept = futex::wait(self.sleepers, futex::Flags::empty(), 1, Some(&until));
            if slept == Err(Errno::TIMEDOUT) {
                return false;
            }
        }
    }

    /// Waits in the kernel's queue, lending its priority to the owner. Also returns when the context has ended: whatever is
    /// done without the lock then concerns nobody.
    fn lock_inheriting(self) {
        while !self.ended.load(Relaxed) {
            let (takeovers, owner) = (self.takeovers.load(SeqCst), self.owner.load(SeqCst));
            match futex::lock_pi(self.owner, futex::Flags::empty(), Some(&soon())) {
                Ok(()) => {
                    // The kernel marks a lock whose owner died; the journal says what to undo, the mark must go.
                    self.owner.fetch_and(!futex::OWNER_DIED, Relaxed);
                    return;
                }
                // The owner died while nobody waited here: the kernel finds no such thread, or its id is a kernel thread's.
                Err(Errno::SRCH | Errno::PERM) => {
                    if self.take_from_dead(owner, takeovers) {
                        return;
                    }
                }
                // A stale word says that we hold it: a dead thread had our id.
                Err(Errno::DEADLK) => return,
                // Interrupted, after a while to look around, or the owner is just exiting (EAGAIN). EINVAL: the word is not
                // what the kernel's waiters wait for; one of them may be about to put it right.
                Err(_) => {}
            }
        }
    }
}

impl Mutex<'_> {
    /// After the kernel has found the owner dead: takes the lock, unless somebody else was faster. `owner` and `takeovers`
    /// were read before the kernel was asked.
    ///
    /// It is the word of that moment that the kernel has judged, and only that may be exchanged: a later one may be a
    /// living thread's that took the lock meanwhile. A dead owner's id leaves the word only by such an exchange (were
    /// there waiters in the kernel, which could hand the lock on, it would not have said this), and whoever makes one counts it before
    /// letting go. So without a new takeover, a word that was the same before and after was the same in between.
    fn take_from_dead(self, owner: u32, takeovers: u32) -> bool {
        let unchanged = owner != 0
            && self.owner.load(SeqCst) == owner
            && self.takeovers.load(SeqCst) == takeovers
            && self.owner.compare_exchange(owner, own_tid(), SeqCst, Relaxed).is_ok();
        if unchanged {
            self.takeovers.store(takeovers.wrapping_add(1), SeqCst);
        }
        unchanged
    }
}

/// When a wait in the kernel's queue, which counts by the real-time clock (futex(2)), is to end.
fn soon() -> futex::Timespec {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let nanoseconds = now.tv_nsec + LOOK_AROUND_NS;
    futex::Timespec { tv_sec: now.tv_sec + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 }
}

fn more_than_one_cpu() -> bool {
    static MANY: OnceLock<bool> = OnceLock::new();
    *MANY.get_or_init(|| std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, Barrier};

    use super::*;

    #[derive(Default)]
    struct Words {
        owner: AtomicU32,
        sleepers: AtomicU32,
        takeovers: AtomicU32,
        ended: AtomicBool,
        /// Only changed by the owner, in two steps.
        counted: AtomicU64,
    }

    impl Words {
        fn mutex(&self) -> Mutex<'_> {
            let Self { owner, sleepers, takeovers, ended, .. } = self;
            Mutex { owner, sleepers, takeovers, ended }
        }

        fn count(&self) {
            let counted = self.counted.load(Relaxed);
            std::hint::spin_loop();
            self.counted.store(counted + 1, Relaxed);
        }
    }

    #[test]
    fn of_many_that_find_the_owner_dead_one_gets_the_lock_at_a_time() {
        const ROUNDS: u64 = 300;
        const THREADS: u64 = 4;
        const TURNS: u64 = 20;
        let words = Arc::new(Words::default());
        let round = Arc::new(Barrier::new(THREADS as usize + 1));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (words, round) = (Arc::clone(&words), Arc::clone(&round));
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        round.wait();
                        for _ in 0..TURNS {
                            // As after a long wait.
                            if !words.mutex().try_lock() {
                                words.mutex().lock_inheriting();
                            }
                            words.count();
                            words.mutex().unlock();
                        }
                        round.wait();
                    }
                })
            })
            .collect();
        for _ in 0..ROUNDS {
            let dead = std::thread::spawn(own_tid).join().expect("no panic");
            words.owner.store(dead, SeqCst);
            round.wait();
            round.wait();
        }
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(words.counted.load(SeqCst), ROUNDS * THREADS * TURNS);
        assert_eq!(u64::from(words.takeovers.load(SeqCst)), ROUNDS);
    }

    #[test]
    fn nobody_waits_for_the_lock_of_a_context_that_has_ended() {
        let words = Arc::new(Words::default());
        words.mutex().lock();
        let waiting = std::thread::spawn({
            let words = Arc::clone(&words);
            move || words.mutex().lock()
        });
        words.ended.store(true, SeqCst);
        waiting.join().expect("no panic");
    }
}
