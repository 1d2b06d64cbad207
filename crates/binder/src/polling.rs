//! Serving calls on a thread that waits for other things too (`IPCThreadState::setupPolling`).

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use binder_driver::{Command, Lent};

use crate::{Error, Process};

impl Process {
    /// Makes the calling thread one that serves what has come, whenever it calls
    /// [`Process::handle_polled`], instead of a looper. When there is something,
    /// [`Process::polled_descriptor`] is readable, and [`Process::poll`] returns.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn setup_polling(self: &Arc<Self>) -> Result<(), Error> {
        let thread = self.thread();
        thread.push(Command::EnterLooper);
        thread.flush(self.connection())
    }

    /// The driver's descriptor, for epoll(7) or poll(2) on the thread that has called
    /// [`Process::setup_polling`]; `None` for the emulated driver, which has none.
    #[must_use]
    pub fn polled_descriptor(&self) -> Option<BorrowedFd<'_>> {
        if self.forked() { None } else { self.driver().descriptor() }
    }

    /// Waits until there is something for the calling thread to handle, at most for `timeout`
    /// (without one, for ever). False when that is over.
    ///
    /// # Errors
    /// [`Error::Driver`]: EINTR when a signal's handler ran, or when the driver is out of order.
    pub fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let polled = self.own_driver()?.poll(timeout);
        polled.map_err(|cause| Error::Driver { operation: "poll the driver", cause })
    }

    /// Serves and handles all that has come for the calling thread, and does not wait for more
    /// (`handlePolledCommands`).
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order; [`Error::Reported`] with an error that it
    /// returns.
    pub fn handle_polled(self: &Arc<Self>) -> Result<(), Error> {
        let thread = self.thread();
        loop {
            while let Some(asked) = thread.pending(false) {
                thread.handle(self, &asked)?;
            }
            // A reply goes out before anything is waited for.
            thread.flush(self.connection())?;
            if !self.poll(Some(Duration::ZERO))? {
                return Ok(());
            }
            thread.exchange(self.connection(), &Lent::default(), true)?;
        }
    }
}
