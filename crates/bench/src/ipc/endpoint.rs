//! How to find a driver, and how a process opens it. Must not know what it is used for.

use std::sync::Arc;
use std::time::Duration;

use roundtrip_binder::manager::ServiceManager;
use roundtrip_binder::{Binder, Process, Proxy};
use roundtrip_binder_driver::Driver;
use roundtrip_binder_driver::kernel::Kernel;
use roundtrip_binder_emulator::{Emulated, WakeUp};
use roundtrip_echo::Benchmark;
use serde::{Deserialize, Serialize};

use crate::error::{JobFault, Result};
use roundtrip_run::ipc::{AREA_BYTES, Stack};

/// How long a client waits for a service to be registered.
const REGISTERED_WITHIN: Duration = Duration::from_secs(10);

/// How to find a context. Sent to workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endpoint {
    /// An emulated context's address.
    Emulated(String),
    /// A binder device's path.
    Kernel(String),
}

impl Endpoint {
    /// Parses what users write: a binder device's path, or the address of an emulated context.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let kind = if name.starts_with('/') { Endpoint::Kernel } else { Endpoint::Emulated };
        kind(name.to_owned())
    }

    /// All contexts that could be examined: the running emulated ones, and the binder devices at
    /// Android's usual paths, whether or not a process serves on them.
    pub fn all() -> Vec<Self> {
        let emulated = roundtrip_binder_emulator::running().unwrap_or_default();
        let devices = super::device::usual_paths().into_iter();
        emulated.into_iter().map(Endpoint::Emulated).chain(devices.map(Endpoint::Kernel)).collect()
    }

    /// Opens the driver for this process.
    ///
    /// # Errors
    /// [`crate::Error::Driver`] if the context has ended or is full, or the device is unusable.
    pub fn open(&self) -> Result<Arc<dyn Driver>> {
        match self {
            // A worker executes no programs, so it loses nothing by setting no_new_privs.
            Self::Emulated(address) => {
                Ok(Arc::new(Emulated::join_with(address, AREA_BYTES, WakeUp::NoNewPrivileges)?))
            }
            Self::Kernel(path) => Ok(Arc::new(Kernel::open(path, AREA_BYTES)?)),
        }
    }

    /// Opens the driver and creates a stack's process on it.
    ///
    /// # Errors
    /// As [`Endpoint::open`].
    pub fn connect(&self) -> Result<Arc<Process>> {
        Ok(Process::new(self.open()?))
    }
}

/// Finds a benchmark service by its instance name. Waits until it is registered.
///
/// # Errors
/// [`Error::Ipc`] if it is not registered within ten seconds.
pub(crate) fn find(process: &Arc<Process>, stack: Stack, instance: &str) -> Result<Box<dyn Benchmark>> {
    Ok(roundtrip_echo::connect(find_proxy(process, stack, instance)?, stack))
}

/// Like [`find`], for a proxy that is not yet bound to an interface.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_proxy(process: &Arc<Process>, stack: Stack, instance: &str) -> Result<Proxy> {
    let name = roundtrip_echo::service_name(stack, instance);
    match ServiceManager::new(process, stack).wait(&name, REGISTERED_WITHIN)? {
        Binder::Remote(proxy) => Ok(proxy),
        Binder::Local(_) => Err(JobFault::OwnService { name }.into()),
    }
}
