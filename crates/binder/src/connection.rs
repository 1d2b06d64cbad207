//! [`Connection`]: an opened driver and the process that may use it. A thread needs nothing else to
//! exchange commands. The connection knows nothing about objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use roundtrip_binder_driver::{Driver, ForkGuard};

use crate::copies::CopyCounters;
use crate::{Dialect, Error};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    driver: Arc<dyn Driver>,
    dialect: Dialect,
    fork_guard: ForkGuard,
    copies: CopyCounters,
}

impl Connection {
    pub(crate) fn new(driver: Arc<dyn Driver>, dialect: Dialect) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            driver,
            dialect,
            fork_guard: ForkGuard::new(),
            copies: CopyCounters::default(),
        }
    }

    /// A number that is unique among the connections of one OS process.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The parcel layout that the binder stack uses here.
    #[inline]
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The underlying driver.
    #[inline]
    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// Returns true in a fork of the process that opened the driver.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.fork_guard.forked()
    }

    /// Returns the driver.
    ///
    /// # Errors
    /// [`Error::Forked`] in a fork.
    pub(crate) fn own_driver(&self) -> Result<&dyn Driver, Error> {
        if self.forked() { Err(Error::Forked) } else { Ok(&*self.driver) }
    }

    /// Counts the payload bytes that this process's threads copied.
    pub(crate) fn copies(&self) -> &CopyCounters {
        &self.copies
    }
}
