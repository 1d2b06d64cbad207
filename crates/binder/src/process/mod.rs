//! [`Process`]: one opened driver with what this process publishes, holds and runs over it.
//!
//! Both stacks share it; what differs between them lies in the kind of service and in the parcels.
//! It knows neither: a published object is whatever can serve ([`local::Object`]).

mod local;
mod proxy;

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use binder_driver::Driver;

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
/// Looper threads and proxies keep it alive; [`Process::stop`] ends the former.
#[derive(Debug)]
pub struct Process {
    connection: Arc<Connection>,
    nodes: Arc<Nodes>,
    handles: Handles<proxy::Handle>,
    pool: Pool,
    background_scheduling: AtomicBool,
    spam_suspicions: AtomicU64,
    /// Keeps the context manager's object, which the driver counts no references for.
    manager: Mutex<Option<Local>>,
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

    /// Its opened driver.
    #[inline]
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The calling thread's state.
    pub(crate) fn thread(&self) -> Rc<ThreadState> {
        ThreadState::current(&self.connection)
    }

    /// Whose layout its parcels of the binder stack have.
    #[must_use]
    #[inline]
    pub fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    /// True in a fork of the process that opened the driver.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.connection.forked()
    }

    /// The driver, unless this is a fork.
    pub(crate) fn own_driver(&self) -> Result<&dyn Driver, Error> {
        self.connection.own_driver()
    }

    pub(crate) fn suspected_of_spam(&self) {
        self.spam_suspicions.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the driver has said that this process's oneway calls fill an area
    /// ([`Process::set_oneway_spam_detection`]).
    #[must_use]
    pub fn spam_suspicions(&self) -> u64 {
        self.spam_suspicions.load(Ordering::Relaxed)
    }

    /// The driver below.
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

    /// How many looper threads the driver may ask for besides those that the process starts by
    /// itself; 0 at first.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver refuses.
    pub fn set_max_threads(&self, threads: u32) -> Result<(), Error> {
        self.own_driver()?
            .set_max_threads(threads)
            .map_err(|cause| Error::Driver { operation: "set the most looper threads", cause })
    }

    /// Whether a thread that serves a background caller of the binder stack runs as background;
    /// true at first.
    #[must_use]
    pub fn background_scheduling(&self) -> bool {
        self.background_scheduling.load(Ordering::Relaxed)
    }

    /// Switches background scheduling for calls from now on and for objects that are published from
    /// now on (Android's `disableBackgroundScheduling`).
    pub fn set_background_scheduling(&self, on: bool) {
        self.background_scheduling.store(on, Ordering::Relaxed);
    }

    /// Hands over what the calling thread has queued: buffers that it gives back, references that
    /// it drops. They go along with its next call by themselves; a thread that makes none for
    /// long calls this.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn flush(self: &Arc<Self>) -> Result<(), Error> {
        self.thread().flush(&self.connection)
    }

    /// Payload bytes that this process has copied into and out of parcels so far. The driver's own
    /// copy is not among them.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.connection.copies().total()
    }

    /// Ends the looper threads, waits for them (not for the calling thread, if it is one: it ends
    /// when its call is served), and lets go of objects that only other processes hold.
    pub fn stop(self: &Arc<Self>) {
        if self.forked() {
            return; // the threads are the parent's
        }
        let own = self.thread().looper.get();
        self.pool.stop(&**self.driver(), own.into());
        *self.manager() = None;
        self.nodes.release_all();
    }
}
