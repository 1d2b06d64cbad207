//! [`Pool`]: how many looper threads a process has, and how they are told to end. It does not know
//! what they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use binder_driver::Driver;
use binder_driver::sched_attr::SchedAttr;

use crate::sched;

/// How often a stopping pool wakes its loopers. One wake-up is lost on a thread that is just about
/// to wait.
const WAKE_EVERY: Duration = Duration::from_millis(1);

/// A process's looper threads.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    stopping: AtomicBool,
    threads: Mutex<Threads>,
    left: Condvar,
    /// How the first looper that the process started by itself was scheduled before it served
    /// anybody.
    own_scheduling: OnceLock<SchedAttr>,
}

#[derive(Debug, Default)]
struct Threads {
    /// Threads in the loop, whoever started them.
    looping: u32,
    /// Those that the pool started.
    started: Vec<JoinHandle<()>>,
    named: u32,
}

impl Pool {
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A looper that the driver asked for was started by one that serves, and has inherited what
    /// that was lent for its call. It is to run as the first looper did. Where the system does
    /// not allow it, it stays as it is.
    pub(crate) fn adopt_scheduling(&self, asked_for: bool) {
        let Some(now) = sched::attributes() else { return };
        let own = *self.own_scheduling.get_or_init(|| now);
        if asked_for && own != now {
            sched::set_attributes(own);
        }
    }

    pub(crate) fn next_name(&self) -> u32 {
        let mut threads = self.lock();
        threads.named += 1;
        threads.named
    }

    /// Ends all loopers but the calling thread (`own` is 1 if it is one) and waits for them.
    pub(crate) fn stop(&self, driver: &dyn Driver, own: u32) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut threads = self.lock();
        while threads.looping > own {
            driver.interrupt();
            threads = self.left.wait_timeout(threads, WAKE_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
        let started = std::mem::take(&mut threads.started);
        drop(threads);
        for thread in started {
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join(); // a looper that panicked has said so already
            }
        }
    }

    /// Counts a thread that enters the loop.
    pub(crate) fn enter(&self) {
        self.lock().looping += 1;
    }

    /// Counts a thread that has left it.
    pub(crate) fn leave(&self) {
        self.lock().looping -= 1;
        self.left.notify_all();
    }

    /// Keeps a thread that was started, to wait for its end.
    pub(crate) fn keep(&self, thread: JoinHandle<()>) {
        self.lock().started.push(thread);
    }
}
