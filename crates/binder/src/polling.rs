//! Serving calls on a thread that also waits for other events (`IPCThreadState::setupPolling`).

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use roundtrip_binder_driver::{Command, ReadableMemory};

use crate::{Error, Process};

impl Process {
    /// Makes the calling thread a polling thread instead of a looper: it serves pending work when
    /// it calls [`Process::handle_polled`]. When work is pending, [`Process::polled_descriptor`] is
    /// readable and [`Process::poll`] returns true.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    pub fn setup_polling(self: &Arc<Self>) -> Result<(), Error> {
        let thread = self.thread();
        thread.push(Command::EnterLooper);
        thread.flush(self.connection())
    }

    /// The driver's descriptor, for epoll(7) or poll(2) on the thread that called
    /// [`Process::setup_polling`]. `None` for the emulated driver, which has no descriptor, and in
    /// a fork.
    #[must_use]
    pub fn polled_descriptor(&self) -> Option<BorrowedFd<'_>> {
        if self.forked() { None } else { self.driver().descriptor() }
    }

    /// Waits up to `timeout` until work is pending for the calling thread (`None`: no limit).
    /// Returns false after the timeout.
    ///
    /// # Errors
    /// [`Error::Driver`]: EINTR if a signal handler ran; other errors if the driver fails.
    pub fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let polled = self.own_driver()?.poll(timeout);
        polled.map_err(|cause| Error::Driver { operation: "poll the driver", cause })
    }

    /// Serves all pending work of the calling thread without waiting for more
    /// (`handlePolledCommands`).
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails; [`Error::Reported`] for a `BR_ERROR`.
    pub fn handle_polled(self: &Arc<Self>) -> Result<(), Error> {
        let thread = self.thread();
        loop {
            while let Some(asked) = thread.pending(false) {
                thread.handle(self, &asked)?;
            }
            // Send a queued reply before waiting.
            thread.flush(self.connection())?;
            if !self.poll(Some(Duration::ZERO))? {
                return Ok(());
            }
            thread.exchange(self.connection(), &ReadableMemory::default(), true)?;
        }
    }
}
