//! [`Process`]: one opened driver, with the objects, proxies and looper threads that use it.
//!
//! Both stacks use it. They differ only in services and parcels, about which this module knows
//! nothing: a published object is any [`local::Object`].

mod local;
mod proxy;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use roundtrip_binder_driver::Driver;

use crate::connection::Connection;
use crate::handles::Handles;
use crate::pool::Pool;
use crate::thread::ThreadState;
use crate::{Dialect, Error};

pub use local::Local;
pub(crate) use local::{Nodes, Object};
pub use proxy::Proxy;

/// One opened driver: published objects, proxies, and looper threads.
///
/// Looper threads and proxies keep this value alive. [`Process::stop`] ends the looper threads.
#[derive(Debug)]
pub struct Process {
    connection: Arc<Connection>,
    nodes: Arc<Nodes>,
    handles: Handles<proxy::Handle>,
    pool: Pool,
    background_scheduling: AtomicBool,
    spam_suspicions: AtomicU64,
    /// Keeps the context manager's object alive: the driver counts no references on it.
    manager: Mutex<Option<Local>>,
}

impl Process {
    /// Makes a process that uses an opened driver and the newest dialect.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        Self::in_dialect(driver, Dialect::default())
    }

    /// Makes a process that exchanges parcels with processes of an Android release.
    #[must_use]
    pub fn in_dialect(driver: Arc<dyn Driver>, dialect: Dialect) -> Arc<Self> {
        Arc::new(Self {
            connection: Arc::new(Connection::new(driver, dialect)),
            nodes: Nodes::new(),
            handles: Handles::default(),
            pool: Pool::default(),
            background_scheduling: AtomicBool::new(true),
            spam_suspicions: AtomicU64::new(0),
            manager: Mutex::default(),
        })
    }

    /// The opened driver.
    #[inline]
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The calling thread's state.
    pub(crate) fn thread(&self) -> Rc<ThreadState> {
        ThreadState::current(&self.connection)
    }

    /// The parcel layout that this process uses in the binder stack.
    #[must_use]
    #[inline]
    pub fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    /// Returns true in a fork of the process that opened the driver.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.connection.forked()
    }

    /// Returns the driver, or [`Error::Forked`] in a fork.
    pub(crate) fn own_driver(&self) -> Result<&dyn Driver, Error> {
        self.connection.own_driver()
    }

    pub(crate) fn suspected_of_spam(&self) {
        self.spam_suspicions.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the driver reported that this process's oneway calls seem to fill an area
    /// ([`Process::set_oneway_spam_detection`]).
    #[must_use]
    pub fn spam_suspicions(&self) -> u64 {
        self.spam_suspicions.load(Ordering::Relaxed)
    }

    /// The underlying driver.
    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        self.connection.driver()
    }

    pub(crate) fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    pub(crate) fn handles(&self) -> &Handles<proxy::Handle> {
        &self.handles
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The context manager's object, while this process is the manager.
    pub(crate) fn manager(&self) -> MutexGuard<'_, Option<Local>> {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many looper threads the driver may request, besides those that the process starts
    /// itself. The default is 0.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses.
    pub fn set_max_threads(&self, threads: u32) -> Result<(), Error> {
        self.own_driver()?
            .set_max_threads(threads)
            .map_err(|cause| Error::Driver { operation: "set the maximum number of looper threads", cause })
    }

    /// Returns true if a thread gets the background scheduling class while it serves a background
    /// caller of the binder stack. The default is true.
    #[must_use]
    pub fn background_scheduling(&self) -> bool {
        self.background_scheduling.load(Ordering::Relaxed)
    }

    /// Enables or disables background scheduling for later calls and later published objects
    /// (Android's `disableBackgroundScheduling`).
    pub fn set_background_scheduling(&self, on: bool) {
        self.background_scheduling.store(on, Ordering::Relaxed);
    }

    /// Sends the calling thread's queued commands to the driver: buffers to free and references to
    /// drop. They also go out with the thread's next call. A thread that makes no call for a long
    /// time should call this.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    pub fn flush(self: &Arc<Self>) -> Result<(), Error> {
        self.thread().flush(&self.connection)
    }

    /// The payload bytes that this process copied into and out of parcels so far, without the
    /// driver's own copy.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.connection.copies().total()
    }

    /// Stops the looper threads, waits for them, and drops objects that only other processes
    /// reference. If the calling thread is a looper, it stops when its current call is served.
    pub fn stop(self: &Arc<Self>) {
        if self.forked() {
            return; // the threads belong to the parent
        }
        let own = self.thread().looper.get();
        self.pool.stop(&**self.driver(), own.into());
        *self.manager() = None;
        self.nodes.release_all();
    }
}
