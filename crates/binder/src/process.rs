//! [`Process`]: one opened driver with what this process publishes, holds and runs over it.
//!
//! Both stacks share it; what differs between them lies in the kind of service and in the parcels.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use binder_driver::Driver;

use crate::looper::Pool;
use crate::node::{Nodes, Service};
use crate::proxies::Proxies;
use crate::thread::{Copies, ThreadState};
use crate::{Binder, Dialect, Error, NodeOptions};
use binder_driver::ForkGuard;

/// One opened driver: published objects, proxies, and looper threads.
///
/// Looper threads and proxies keep it alive; [`Process::stop`] ends the former.
#[derive(Debug)]
pub struct Process {
    id: u64,
    driver: Arc<dyn Driver>,
    dialect: Dialect,
    fork_guard: ForkGuard,
    nodes: Arc<Nodes>,
    proxies: Proxies,
    pub(crate) pool: Pool,
    background_scheduling: AtomicBool,
    spam_suspicions: AtomicU64,
    /// Copies made by threads that are gone, and the counters of those that are not.
    copies: Mutex<(u64, Vec<Arc<Copies>>)>,
    /// Keeps the context manager's object, which the driver counts no references for.
    manager: Mutex<Option<Binder>>,
}

impl Process {
    /// A process over an opened driver, in the newest dialect.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Self::in_dialect(driver, Dialect::default())
    }

    /// A process that exchanges binder-stack parcels with those of an Android release.
    #[must_use]
    pub fn in_dialect(driver: Arc<dyn Driver>, dialect: Dialect) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            driver,
            dialect,
            fork_guard: ForkGuard::new(),
            nodes: Nodes::new(),
            proxies: Proxies::default(),
            pool: Pool::default(),
            background_scheduling: AtomicBool::new(true),
            spam_suspicions: AtomicU64::new(0),
            copies: Mutex::default(),
            manager: Mutex::default(),
        })
    }

    /// Tells processes apart within one real process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whose layout its parcels of the binder stack have.
    #[must_use]
    #[inline]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// True in a fork of the process that opened the driver.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.fork_guard.forked()
    }

    /// The driver, unless this is a fork.
    pub(crate) fn own_driver(&self) -> Result<&dyn Driver, Error> {
        if self.forked() { Err(Error::Forked) } else { Ok(&*self.driver) }
    }

    pub(crate) fn suspected_of_spam(&self) {
        self.spam_suspicions.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the driver has said that this process's oneway calls fill an area ([`Process::set_oneway_spam_detection`]).
    #[must_use]
    pub fn spam_suspicions(&self) -> u64 {
        self.spam_suspicions.load(Ordering::Relaxed)
    }

    /// The driver below.
    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(crate) fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    pub(crate) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// Publishes an object with the options of its stack; see [`Process::publish_with`].
    #[must_use]
    pub fn publish(&self, service: Service) -> Binder {
        let options = self.options_for(&service);
        self.publish_with(service, options)
    }

    /// Publishes an object: it can be written to parcels, and called by whoever receives one, while this `Binder` or a
    /// reference in another process is left.
    #[must_use]
    pub fn publish_with(&self, service: Service, options: NodeOptions) -> Binder {
        Binder::Local(self.nodes.publish(service, options))
    }

    /// The options of the service's stack. As on Android, a process without background scheduling has no nice value above
    /// 0 lent to its binder objects.
    fn options_for(&self, service: &Service) -> NodeOptions {
        let options = NodeOptions::from(service.stack());
        if self.background_scheduling() { options } else { NodeOptions { least_priority: 0, ..options } }
    }

    /// Makes this process the manager of its context: calls to handle 0 arrive at `service`.
    ///
    /// # Errors
    /// [`Error::Driver`] when the context has a manager already.
    pub fn become_context_manager(&self, service: Service) -> Result<(), Error> {
        let driver = self.own_driver()?;
        let options = self.options_for(&service);
        let mut manager = self.manager.lock().unwrap_or_else(PoisonError::into_inner);
        let become_manager = || match &*manager {
            Some(_) => Err(binder_driver::Error::ContextManagerTaken),
            None => {
                // First, since a call may arrive as soon as the driver agrees.
                let local = self.nodes.publish_context_manager(service, options);
                driver.become_context_manager(options.flags()).map(|()| Binder::Local(local))
            }
        };
        *manager = Some(
            become_manager()
                .map_err(|source| Error::Driver { operation: "become the context manager", source })?,
        );
        Ok(())
    }

    /// How many looper threads the driver may ask for besides those that the process starts by itself; 0 at first.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    pub fn set_max_threads(&self, threads: u32) -> Result<(), Error> {
        self.own_driver()?
            .set_max_threads(threads)
            .map_err(|source| Error::Driver { operation: "set the most looper threads", source })
    }

    /// Whether a thread that serves a background caller of the binder stack runs as background; true at first.
    #[must_use]
    pub fn background_scheduling(&self) -> bool {
        self.background_scheduling.load(Ordering::Relaxed)
    }

    /// Switches background scheduling for calls from now on and for objects that are published from now on (Android's
    /// `disableBackgroundScheduling`).
    pub fn set_background_scheduling(&self, on: bool) {
        self.background_scheduling.store(on, Ordering::Relaxed);
    }

    /// Hands over what the calling thread has queued: buffers that it gives back, references that it drops. They go
    /// along with its next call by themselves; a thread that makes none for long calls this.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn flush(self: &Arc<Self>) -> Result<(), Error> {
        ThreadState::current(self).flush(self)
    }

    /// Payload bytes that this process has copied into and out of parcels so far. The driver's own copy is not among them.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.0 + copies.1.iter().map(|copies| copies.total()).sum::<u64>()
    }

    /// A counter for a new thread.
    pub(crate) fn new_copies(&self) -> Arc<Copies> {
        let new = Arc::new(Copies::default());
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).1.push(new.clone());
        new
    }

    /// A thread is gone; what it counted stays.
    pub(crate) fn retire_copies(&self, gone: &Arc<Copies>) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.0 += gone.total();
        copies.1.retain(|other| !Arc::ptr_eq(other, gone));
    }

    /// Ends the looper threads, waits for them (not for the calling thread, if it is one: it ends when its call is
    /// served), and lets go of objects that only other processes hold.
    pub fn stop(self: &Arc<Self>) {
        if self.forked() {
            return; // the threads are the parent's
        }
        let own = ThreadState::current(self).looper.get();
        self.pool.stop(&*self.driver, own.into());
        *self.manager.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.nodes.release_all();
    }
}
