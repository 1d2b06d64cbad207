//! Driver controls other than calls: freezing a process, and oneway spam detection.

use std::time::Duration;

use roundtrip_binder_driver::uapi::FrozenStatusInfo;

use crate::{Error, Process};

impl Process {
    /// Freezes the process `pid` (`IPCThreadState::freeze`). Synchronous calls to a frozen process
    /// fail with [`Error::Frozen`]; oneway calls are queued. Waits up to `timeout` for calls that
    /// the process is serving.
    ///
    /// # Errors
    /// [`Error::Driver`]: EAGAIN if the process still serves calls after `timeout`; it is not
    /// frozen then. EINVAL if the process has not opened this driver, and on kernels before 5.12.
    pub fn freeze(&self, pid: u32, timeout: Duration) -> Result<(), Error> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.own_driver()?
            .set_frozen(pid, true, timeout_ms)
            .map_err(|cause| Error::Driver { operation: "freeze a process", cause })
    }

    /// Thaws a frozen process.
    ///
    /// # Errors
    /// [`Error::Driver`] as [`Process::freeze`].
    pub fn unfreeze(&self, pid: u32) -> Result<(), Error> {
        self.own_driver()?
            .set_frozen(pid, false, 0)
            .map_err(|cause| Error::Driver { operation: "unfreeze a process", cause })
    }

    /// Returns which calls arrived for a process since it was frozen
    /// (`IPCThreadState::getProcessFreezeInfo`).
    ///
    /// # Errors
    /// [`Error::Driver`] as [`Process::freeze`].
    pub fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        self.own_driver()?
            .frozen_info(pid)
            .map_err(|cause| Error::Driver { operation: "query the calls to a frozen process", cause })
    }

    /// Enables or disables oneway spam detection (`ProcessState::enableOnewaySpamDetection`). The
    /// driver then reports when this process's oneway calls seem to fill another process's area.
    /// [`Process::spam_suspicions`] counts the reports.
    ///
    /// # Errors
    /// [`Error::Driver`]: EINVAL on kernels before 5.13.
    pub fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        self.own_driver()?
            .set_oneway_spam_detection(on)
            .map_err(|cause| Error::Driver { operation: "enable or disable oneway spam detection", cause })
    }
}
