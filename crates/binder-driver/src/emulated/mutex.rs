//! The context's mutex: two words of shared memory that threads of all participants exclude each other with.
//!
//! The first word is a priority-inheriting futex (futex(2)): it holds the owner's thread id, the kernel lends a
//! real-time waiter's priority to the owner, and it notices an owner that died. But it also hands the lock to a sleeping
//! waiter on each release, and then a busy context is as slow as its context switches (a lock convoy: throughput of
//! eight processes fell to a tenth). So ordinary threads, which may be overtaken, spin for a moment, then sleep on the second
//! word, and whoever comes first when the lock is free gets it. Real-time threads wait on the first word at once, ordinary
//! ones after [`PATIENCE`], which also finds an owner that is dead.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::sched;

/// How often a waiter looks at the lock before it sleeps: longer than the lock is usually held.
const SPINS: u32 = 100;

/// How long an ordinary thread sleeps before it lends its priority to the owner, in nanoseconds.
const PATIENCE_NS: i64 = 5_000_000;

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

/// The two words.
#[derive(Clone, Copy)]
pub(super) struct Mutex<'a> {
    /// Owner's thread id, with the kernel's bits; 0 when free.
    pub(super) owner: &'a AtomicU32,
    /// 1 when an ordinary thread sleeps, or might.
    pub(super) sleepers: &'a AtomicU32,
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
        let ordinary = sched::get(0).is_ok_and(|own| !own.is_realtime());
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

    /// Waits in the kernel's queue, lending its priority to the owner.
    fn lock_inheriting(self) {
        loop {
            match futex::lock_pi(self.owner, futex::Flags::empty(), None) {
                Ok(()) => {
                    // The kernel marks a lock whose owner died; the journal says what to undo, the mark must go.
                    self.owner.fetch_and(!futex::OWNER_DIED, Relaxed);
                    return;
                }
                // The owner died while nobody waited here: the kernel finds no such thread. Whoever exchanges the dead
                // thread's id for its own has the lock.
                Err(Errno::SRCH) => {
                    let dead = self.owner.load(Relaxed);
                    let taken =
                        dead != 0 && self.owner.compare_exchange(dead, own_tid(), Acquire, Relaxed).is_ok();
                    if taken || self.try_lock() {
                        return;
                    }
                }
                // A stale word says that we hold it: a dead thread had our id.
                Err(Errno::DEADLK) => return,
                // Interrupted, or the owner is just exiting (EAGAIN).
                Err(_) => {}
            }
        }
    }
}

fn more_than_one_cpu() -> bool {
    static MANY: OnceLock<bool> = OnceLock::new();
    *MANY.get_or_init(|| std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1))
}
