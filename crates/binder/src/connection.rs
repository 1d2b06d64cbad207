//! [`Connection`]: an opened driver, and who may use it. It knows no objects: a thread needs no
//! more to hand commands over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use binder_driver::{Driver, ForkGuard};

use crate::copies::CopyCounters;
use crate::{Dialect, Error};

/// See the module.
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

    /// Tells connections apart within one real process.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whose layout its parcels of the binder stack have.
    #[inline]
    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The driver below.
    #[inline]
    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// True in a fork of the process that opened the driver.
    #[inline]
    pub(crate) fn forked(&self) -> bool {
        self.fork_guard.forked()
    }

    /// The driver, unless this is a fork.
    ///
    /// # Errors
    /// [`Error::Forked`] in a fork.
    pub(crate) fn own_driver(&self) -> Result<&dyn Driver, Error> {
        if self.forked() { Err(Error::Forked) } else { Ok(&*self.driver) }
    }

    /// How many bytes its threads have copied.
    pub(crate) fn copies(&self) -> &CopyCounters {
        &self.copies
    }
}
