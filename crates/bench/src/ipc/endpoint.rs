//! Where a driver is found, and how a process opens it. Must not know what is done with it.

use std::sync::Arc;
use std::time::Duration;

use binder::manager::ServiceManager;
use binder::{Binder, Process, Proxy};
use binder_driver::Driver;
use binder_driver::kernel::Kernel;
use binder_emulator::{Emulated, WakeUp};
use echo::Benchmark;
use serde::{Deserialize, Serialize};

use crate::error::{JobFault, Result};
use run::ipc::{AREA_BYTES, Stack};

/// How long a client waits for a service to be registered.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);

/// Where a context is found: sent to workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// An emulated context's address.
    Emulated(String),
    /// A binder device's path.
    Kernel(String),
}

impl Endpoint {
    /// A context as people name it: a binder device's path, or the address of an emulated one.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let kind = if name.starts_with('/') { Endpoint::Kernel } else { Endpoint::Emulated };
        kind(name.to_owned())
    }

    /// Every context that could be looked at: the emulated ones that run here, and the binder
    /// devices at Android's usual places, whether anybody serves on them or not.
    pub fn all() -> Vec<Self> {
        let emulated = binder_emulator::running().unwrap_or_default();
        let devices = super::device::usual_paths().into_iter();
        emulated.into_iter().map(Endpoint::Emulated).chain(devices.map(Endpoint::Kernel)).collect()
    }

    /// Opens the driver for this process.
    ///
    /// # Errors
    /// [`crate::Error::Driver`] when the context is gone or full, or the device is not usable.
    pub fn open(&self) -> Result<Arc<dyn Driver>> {
        match self {
            // A worker executes no programs, so it loses nothing by giving up that they gain
            // privileges.
            Self::Emulated(address) => {
                Ok(Arc::new(Emulated::join_with(address, AREA_BYTES, WakeUp::NoNewPrivileges)?))
            }
            Self::Kernel(path) => Ok(Arc::new(Kernel::open(path, AREA_BYTES)?)),
        }
    }

    /// Opens the driver and puts a stack's process on it.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub fn connect(&self) -> Result<Arc<Process>> {
        Ok(Process::new(self.open()?))
    }
}

/// Finds a benchmark service by its instance's name, as soon as it is registered.
///
/// # Errors
/// [`Error::Ipc`] when it is not registered within ten seconds.
pub(crate) fn find(process: &Arc<Process>, stack: Stack, instance: &str) -> Result<Box<dyn Benchmark>> {
    Ok(echo::connect(find_proxy(process, stack, instance)?, stack))
}

/// The same, without saying yet which of its methods are called.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_proxy(process: &Arc<Process>, stack: Stack, instance: &str) -> Result<Proxy> {
    let name = echo::service_name(stack, instance);
    match ServiceManager::new(process, stack).wait(&name, REGISTERED_WITHIN)? {
        Binder::Remote(proxy) => Ok(proxy),
        Binder::Local(_) => Err(JobFault::OwnService { name }.into()),
    }
}
