//! What a process asks of the driver besides calls: to freeze another process, and to be told of
//! its own oneway spam.

use std::time::Duration;

use binder_driver::uapi::FrozenStatusInfo;

use crate::{Error, Process};

impl Process {
    /// Freezes the process `pid` (`IPCThreadState::freeze`): synchronous calls to it fail with
    /// [`Error::Frozen`], oneway ones are kept for it. Waits up to `timeout` for the calls that
    /// it still serves.
    ///
    /// # Errors
    /// [`Error::Driver`]: EAGAIN when it still serves some, and is not frozen then; EINVAL for a
    /// process without this driver, and from kernels before 5.12.
    pub fn freeze(&self, pid: u32, timeout: Duration) -> Result<(), Error> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.own_driver()?
            .set_frozen(pid, true, timeout_ms)
            .map_err(|cause| Error::Driver { operation: "freeze a process", cause })
    }

    /// Lets a frozen process run again.
    ///
    /// # Errors
    /// [`Error::Driver`] as [`Process::freeze`].
    pub fn unfreeze(&self, pid: u32) -> Result<(), Error> {
        self.own_driver()?
            .set_frozen(pid, false, 0)
            .map_err(|cause| Error::Driver { operation: "unfreeze a process", cause })
    }

    /// What came for a process since it was frozen (`IPCThreadState::getProcessFreezeInfo`).
    ///
    /// # Errors
    /// [`Error::Driver`] as [`Process::freeze`].
    pub fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        self.own_driver()?
            .frozen_info(pid)
            .map_err(|cause| Error::Driver { operation: "ask what arrived for a frozen process", cause })
    }

    /// Whether the driver is to say when this process's oneway calls look like the reason why
    /// another's area runs full (`ProcessState::enableOnewaySpamDetection`). It is counted:
    /// [`Process::spam_suspicions`].
    ///
    /// # Errors
    /// [`Error::Driver`]: EINVAL from kernels before 5.13.
    pub fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        self.own_driver()?
            .set_oneway_spam_detection(on)
            .map_err(|cause| Error::Driver { operation: "switch oneway spam detection", cause })
    }
}
