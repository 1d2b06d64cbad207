//! [`Pool`]: counts a process's looper threads and stops them. It does not know what they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use roundtrip_binder_driver::Driver;
use roundtrip_binder_driver::sched_attr::SchedAttr;

use crate::sched;

/// How often a stopping pool wakes its loopers. One wakeup is not enough: a thread that is about to
/// wait misses it.
const WAKE_EVERY: Duration = Duration::from_millis(1);

/// A process's looper threads.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    stopping: AtomicBool,
    threads: Mutex<Threads>,
    left: Condvar,
    /// What the names of its threads begin with, if it was chosen.
    name: OnceLock<String>,
    /// The scheduling attributes that the first looper had before its first call.
    own_scheduling: OnceLock<SchedAttr>,
}

#[derive(Debug, Default)]
struct Threads {
    /// The number of looper threads, including those that joined the pool.
    looping: u32,
    /// The threads that the pool started.
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

    /// Restores the pool's own scheduling attributes on a looper that the driver requested. A
    /// serving thread started this looper, so the looper has the priority that the serving thread
    /// had inherited. If the system refuses the change, the looper keeps that priority.
    pub(crate) fn adopt_scheduling(&self, asked_for: bool) {
        let Some(now) = sched::attributes() else { return };
        let own = *self.own_scheduling.get_or_init(|| now);
        if asked_for && own != now {
            sched::set_attributes(own);
        }
    }

    pub(crate) fn name(&self, start: String) {
        let _ = self.name.set(start);
    }

    /// The name of the next thread. Chosen names are numbered as libbinder does, in hexadecimal.
    pub(crate) fn next_name(&self) -> String {
        let mut threads = self.lock();
        threads.named += 1;
        let number = threads.named;
        self.name.get().map_or_else(|| format!("looper-{number}"), |start| format!("{start}{number:X}"))
    }

    /// Stops all loopers except the calling thread and waits for them. `own` is 1 if the calling
    /// thread is a looper, otherwise 0.
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
                let _ = thread.join(); // a panicked looper has already reported its panic
            }
        }
    }

    /// Counts a thread that becomes a looper.
    pub(crate) fn enter(&self) {
        self.lock().looping += 1;
    }

    /// Counts a thread that is no longer a looper.
    pub(crate) fn leave(&self) {
        self.lock().looping -= 1;
        self.left.notify_all();
    }

    /// Stores the join handle of a started thread.
    pub(crate) fn keep(&self, thread: JoinHandle<()>) {
        self.lock().started.push(thread);
    }
}
