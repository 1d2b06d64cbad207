//! Looper threads: those that wait for incoming calls and serve them, and their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use binder_driver::sched_attr::SchedAttr;
use binder_driver::{Command, Driver, Lent};

use crate::sched;
use crate::thread::ThreadState;
use crate::{Error, Process};

/// How often a stopping pool wakes its loopers. One wake-up is lost on a thread that is just about to wait.
const WAKE_EVERY: Duration = Duration::from_millis(1);

/// A process's looper threads.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    stopping: AtomicBool,
    threads: Mutex<Threads>,
    left: Condvar,
    /// How the first looper that the process started by itself was scheduled before it served anybody.
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

    /// A looper that the driver asked for was started by one that serves, and has inherited what that was lent for its
    /// call. It is to run as the first looper did. Where the system does not allow it, it stays as it is.
    fn adopt_scheduling(&self, asked_for: bool) {
        let Some(now) = sched::attributes() else { return };
        let own = *self.own_scheduling.get_or_init(|| now);
        if asked_for && own != now {
            sched::set_attributes(own);
        }
    }

    fn next_name(&self) -> u32 {
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
}

/// Counts a looper, from before its thread starts until it ends, even if a service panics in it.
struct Looping(Arc<Process>);

impl Looping {
    fn enter(process: &Arc<Process>) -> Self {
        process.pool.lock().looping += 1;
        Self(process.clone())
    }

    fn run(self, command: Command) -> Result<(), Error> {
        let process = &self.0;
        process.pool.adopt_scheduling(command == Command::RegisterLooper);
        let thread = ThreadState::current(process);
        thread.looper.set(true);
        thread.push(command);
        let serve_until_stopped = || {
            while !process.pool.stopping() {
                if let Some(asked) = thread.next(process, &Lent::default())? {
                    thread.handle(process, &asked)?;
                }
            }
            Ok(())
        };
        let result = serve_until_stopped();
        thread.looper.set(false);
        thread.push(Command::ExitLooper);
        result.and(thread.flush(process))
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        self.0.pool.lock().looping -= 1;
        self.0.pool.left.notify_all();
    }
}

impl Process {
    /// Makes the calling thread a looper, until [`Process::stop`].
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn join_thread_pool(self: &Arc<Self>) -> Result<(), Error> {
        Looping::enter(self).run(Command::EnterLooper)
    }

    /// Starts a looper thread.
    ///
    /// # Errors
    /// [`Error::Spawn`] when there cannot be one more thread.
    pub fn start_looper(self: &Arc<Self>) -> Result<(), Error> {
        self.spawn_looper(Command::EnterLooper)
    }

    /// Starts the looper thread that the driver asks for. Without it the others serve, as they do now.
    pub(crate) fn spawn_registered_looper(self: &Arc<Self>) {
        let _ = self.spawn_looper(Command::RegisterLooper);
    }

    fn spawn_looper(self: &Arc<Self>, command: Command) -> Result<(), Error> {
        let looping = Looping::enter(self);
        if self.pool.stopping() {
            return Ok(());
        }
        let name = format!("looper-{}", self.pool.next_name());
        // What it returns is the driver being out of order; the next call of any other thread says so.
        let thread = std::thread::Builder::new().name(name).spawn(move || drop(looping.run(command)));
        let thread = thread.map_err(|source| Error::Spawn { source })?;
        self.pool.lock().started.push(thread);
        Ok(())
    }
}
