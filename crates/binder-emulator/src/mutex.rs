#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! The context's mutex: a few words of shared memory by which threads of all participants exclude
//! each other.
//!
//! The first word is a priority-inheriting futex (futex(2)). It holds the owner's thread id; the
//! kernel boosts the owner to a real-time waiter's priority, and notices an owner that died. But it
//! also hands the lock to a sleeping waiter on each release, which makes a busy context as slow as
//! its context switches (a lock convoy: the throughput of eight processes fell to a tenth). So
//! ordinary threads, which may be overtaken, spin for a moment, then sleep on the second word. The
//! first thread that finds the lock free gets it. Real-time threads wait on the first word at
//! once, ordinary ones after [`PATIENCE_NS`], which also finds a dead owner.
//!
//! A participant may write anything into these words, or stop while it owns the lock. So a thread
//! that waits long calls its caller's check every [`LOOK`], and may give up; `lock/mod.rs` decides
//! when.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

use crate::pi_futex;
use crate::sched;

/// How often a waiter checks the lock before it sleeps: longer than the lock is usually held.
const SPINS: u32 = 100;

/// How long an ordinary thread sleeps before it boosts the owner, in nanoseconds.
const PATIENCE_NS: i64 = 5_000_000;

/// How long a thread waits in the kernel before it calls the check.
const LOOK: Duration = Duration::from_millis(100);

/// How long it waits if the kernel does not let it queue.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's id.
pub(crate) fn own_tid() -> u32 {
    TID.with(|tid| {
        if tid.get() == 0 {
            tid.set(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        }
        tid.get()
    })
}

/// The words.
#[derive(Clone, Copy)]
pub(crate) struct Mutex<'a> {
    /// The owner's thread id, with the kernel's bits; 0 when free.
    pub(crate) owner: &'a AtomicU32,
    /// 1 when an ordinary thread sleeps, or might.
    pub(crate) sleepers: &'a AtomicU32,
    /// How often the lock was taken from an owner that had died without the kernel noticing.
    pub(crate) takeovers: &'a AtomicU32,
}

impl Mutex<'_> {
    /// Takes the lock. The caller must then check whether the last owner died. A thread that waits
    /// long calls `gives_up` every [`LOOK`]; false if that returned true.
    #[inline]
    pub(crate) fn lock(self, gives_up: impl FnMut() -> bool) -> bool {
        self.try_lock() || self.lock_contended(gives_up)
    }

    /// Releases the lock, and wakes one sleeper.
    #[inline]
    pub(crate) fn unlock(self) {
        if self.owner.compare_exchange(own_tid(), 0, SeqCst, Relaxed).is_err() {
            // A real-time thread waits: the kernel hands the lock on. An error means that a
            // participant has overwritten the word; the others' own calls find that out.
            let _ = futex::unlock_pi(self.owner, futex::Flags::empty());
        }
        // Sequentially consistent with `sleep`: either this sees the sleeper, or the sleeper sees
        // the free lock.
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
    fn lock_contended(self, gives_up: impl FnMut() -> bool) -> bool {
        if more_than_one_cpu() {
            for _ in 0..SPINS {
                std::hint::spin_loop();
                if self.owner.load(Relaxed) == 0 && self.try_lock() {
                    return true;
                }
            }
        }
        // Checked each time: a thread may have been boosted a moment ago.
        let ordinary = !pi_futex::is_raised() && sched::get(0).is_ok_and(|own| !own.is_realtime());
        (ordinary && self.sleep()) || self.lock_inheriting(gives_up)
    }

    /// Waits without a place in a queue. False if that took too long.
    fn sleep(self) -> bool {
        let until = futex::Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS };
        loop {
            // Also set by a thread that got the lock after sleeping: there may be more sleepers.
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

    /// Waits in the kernel's queue, boosting the owner.
    fn lock_inheriting(self, mut gives_up: impl FnMut() -> bool) -> bool {
        // Check before the first wait, too: the context may have ended.
        let mut waited = LOOK;
        loop {
            if waited >= LOOK {
                waited = Duration::ZERO;
                if gives_up() {
                    return false;
                }
            }
            let (takeovers, owner) = (self.takeovers.load(SeqCst), self.owner.load(SeqCst));
            match pi_futex::lock_for(self.owner, LOOK) {
                Ok(()) => {
                    // The kernel marks a lock whose owner died. The journal says what to undo, and
                    // the mark must be cleared.
                    self.owner.fetch_and(!futex::OWNER_DIED, Relaxed);
                    return true;
                }
                // The owner died while no thread waited here: the kernel finds no such thread, or
                // its id is a kernel thread's.
                Err(Errno::SRCH | Errno::PERM) => {
                    if self.take_from_dead(owner, takeovers) {
                        return true;
                    }
                }
                // A stale word names this thread as the owner: a dead thread had its id.
                Err(Errno::DEADLK) => return true,
                Err(Errno::TIMEDOUT) => waited = LOOK,
                // Interrupted, or the owner is just exiting.
                Err(Errno::INTR | Errno::AGAIN) => {}
                // EINVAL: the word does not match the kernel's waiters. A thread that inherits the
                // lock from a dead owner may be about to repair that, and must get time to run,
                // also beside a real-time thread.
                Err(_) => {
                    std::thread::sleep(PAUSE);
                    waited += PAUSE;
                }
            }
        }
    }
}

impl Mutex<'_> {
    /// After the kernel has found the owner dead: takes the lock, unless another thread was faster.
    /// `owner` and `takeovers` were read before the kernel was asked.
    ///
    /// The kernel judged the word of that moment, so only that word may be exchanged: a later one
    /// may belong to a living thread that took the lock meanwhile. A dead owner's id leaves the
    /// word only by such an exchange. (If the kernel had waiters to hand the lock to, it would not
    /// have returned this error.) Each exchange is counted in `takeovers` before the lock is
    /// released. So if `takeovers` has not changed, a word that was the same before and after was
    /// the same in between.
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
        /// Only the owner changes it, in two steps.
        counted: AtomicU64,
    }

    impl Words {
        fn mutex(&self) -> Mutex<'_> {
            let Self { owner, sleepers, takeovers, .. } = self;
            Mutex { owner, sleepers, takeovers }
        }

        fn count(&self) {
            let counted = self.counted.load(Relaxed);
            std::hint::spin_loop();
            self.counted.store(counted + 1, Relaxed);
        }
    }

    #[test]
    fn threads_that_find_the_owner_dead_get_the_lock_one_at_a_time() {
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
                                assert!(words.mutex().lock_inheriting(|| false));
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
    fn a_thread_can_give_up_waiting_for_a_lock() {
        let words = Arc::new(Words::default());
        assert!(words.mutex().lock(|| false));
        let waiting = std::thread::spawn({
            let words = Arc::clone(&words);
            let mut looks = 0;
            let mut third = move || {
                looks += 1;
                looks == 3
            };
            move || words.mutex().lock(&mut third)
        });
        assert!(!waiting.join().expect("no panic"));
        words.mutex().unlock();
        assert!(words.mutex().lock(|| true), "the one that gave up left nothing behind");
    }

    #[test]
    fn an_ordinary_thread_that_waits_may_be_overtaken_at_first() {
        let words = Arc::new(Words::default());
        assert!(words.mutex().lock(|| false));
        let waiting = std::thread::spawn({
            let words = Arc::clone(&words);
            move || {
                assert!(words.mutex().lock(|| false));
                words.mutex().unlock();
            }
        });
        let begin = std::time::Instant::now();
        while words.sleepers.load(SeqCst) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "it waits in the kernel's queue");
            std::thread::yield_now();
        }
        words.mutex().unlock();
        waiting.join().expect("no panic");
        assert_eq!(words.owner.load(SeqCst), 0);
    }

    #[test]
    fn a_boosted_thread_waits_in_the_kernels_queue_immediately() {
        let words = Arc::new(Words::default());
        assert!(words.mutex().lock(|| false));
        let waiting = std::thread::spawn({
            let words = Arc::clone(&words);
            move || {
                pi_futex::set_raised(true);
                assert!(words.mutex().lock(|| false));
                words.mutex().unlock();
            }
        });
        let begin = std::time::Instant::now();
        while words.owner.load(SeqCst) & futex::WAITERS == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "the thread does not wait");
            std::thread::yield_now();
        }
        assert_eq!(words.sleepers.load(SeqCst), 0, "it may be overtaken");
        words.mutex().unlock();
        waiting.join().expect("no panic");
    }
}
