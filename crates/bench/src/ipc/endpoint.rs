//! Which driver a run uses, and how its processes find it. Must not know what they do with it.

use std::sync::Arc;
use std::time::Duration;

use binder::echo::{self, Benchmark};
use binder::manager::ServiceManager;
use binder::{Binder, Process, Proxy};
use binder_driver::Driver;
use binder_driver::kernel::Kernel;
use binder_emulator::{Context, Emulated, WakeUp};
use serde::{Deserialize, Serialize};

use super::device::Claim;
use super::server::ServiceManagerJob;
use crate::error::{Error, Result};
use crate::ipc::names;
use crate::job::Job;
use crate::worker::WorkerGroup;
use run::ipc::{AREA_BYTES, Backend, DriverChoice, DriverPlan, Profile, Stack};

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
    pub fn named(name: &str) -> Endpoint {
        let kind = if name.starts_with('/') { Endpoint::Kernel } else { Endpoint::Emulated };
        kind(name.to_owned())
    }

    /// Every context that could be looked at: the emulated ones that run here, and the binder devices at Android's usual
    /// places, whether anybody serves on them or not.
    pub fn all() -> Vec<Endpoint> {
        let emulated = binder_emulator::running().unwrap_or_default();
        let devices = super::device::usual_paths().into_iter();
        emulated.into_iter().map(Endpoint::Emulated).chain(devices.map(Endpoint::Kernel)).collect()
    }

    /// Opens the driver for this process.
    ///
    /// # Errors
    /// [`Error::Driver`] when the context is gone or full, or the device is not usable.
    pub fn open(&self) -> Result<Arc<dyn Driver>> {
        match self {
            // A worker executes no programs, so it loses nothing by giving up that they gain privileges.
            Endpoint::Emulated(address) => {
                Ok(Arc::new(Emulated::join_with(address, AREA_BYTES, WakeUp::NoNewPrivileges)?))
            }
            Endpoint::Kernel(path) => Ok(Arc::new(Kernel::open(path, AREA_BYTES)?)),
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
    Ok(echo::connect(find_proxy(process, stack, instance)?, names::stack(stack)))
}

/// The same, without saying yet which of its methods are called.
///
/// # Errors
/// As [`find`].
pub(crate) fn find_proxy(process: &Arc<Process>, stack: Stack, instance: &str) -> Result<Proxy> {
    let name = echo::service_name(names::stack(stack), instance);
    match ServiceManager::new(process, names::stack(stack)).wait(&name, REGISTERED_WITHIN)? {
        Binder::Remote(proxy) => Ok(proxy),
        Binder::Local(_) => Err(Error::Plan(format!("service {name} is this process's own"))),
    }
}

/// The parent's side of a driver: a context of its own for one stack, for as long as this value lives. It makes no name
/// in any file system, so nothing stays behind.
#[derive(Debug)]
pub struct Host {
    context: Held,
    /// Why a device of the kernel's was not taken where it was to be preferred.
    why_emulated: Option<String>,
}

#[derive(Debug)]
enum Held {
    Emulated { context: Context, profile: Profile },
    Kernel(Claim),
}

impl Host {
    /// Opens a context. Those that a process has open at the same time are of one kind.
    ///
    /// # Errors
    /// [`Error::Driver`] when the system refuses; [`Error::NotHere`] when the kernel's driver was asked for and no device of
    /// it is free.
    pub fn open(plan: DriverPlan) -> Result<Host> {
        let kernel = |claim| Host { context: Held::Kernel(claim), why_emulated: None };
        let emulated = |why_emulated| {
            let context = Context::create(names::profile(plan.profile))?;
            context.set_lending(names::lending(plan.lending));
            Ok(Host { context: Held::Emulated { context, profile: plan.profile }, why_emulated })
        };
        match plan.choice {
            DriverChoice::Emulated => emulated(None),
            DriverChoice::Kernel => Ok(kernel(Claim::any()?)),
            DriverChoice::Device(path) => Ok(kernel(Claim::of(path.as_str())?)),
            DriverChoice::Auto if Claim::is_held() => Ok(kernel(Claim::any()?)),
            DriverChoice::Auto => match Claim::one_of_two() {
                Ok(claim) => Ok(kernel(claim)),
                Err(error) => emulated(Claim::is_there().then(|| error.to_string())),
            },
        }
    }

    /// What workers open.
    pub fn endpoint(&self) -> Endpoint {
        match &self.context {
            Held::Emulated { context, .. } => Endpoint::Emulated(context.address().to_owned()),
            Held::Kernel(claim) => Endpoint::Kernel(claim.path().to_owned()),
        }
    }

    /// What every result must say that it was measured on.
    pub fn backend(&self) -> Backend {
        match &self.context {
            Held::Emulated { profile, .. } => Backend::Emulated { profile: *profile },
            Held::Kernel(claim) => names::backend(claim.backend()),
        }
    }

    /// Why the emulated driver was chosen although the kernel has a binder device, as one sentence.
    pub fn why_emulated(&self) -> Option<String> {
        self.why_emulated.as_ref().map(|why| format!("the kernel's driver was not used: {why}"))
    }

    /// Starts the context's service manager in the background of a group.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`].
    pub fn start_service_manager(&self, group: &mut WorkerGroup, stack: Stack) -> Result<()> {
        let job = Job::ServiceManager(ServiceManagerJob { endpoint: self.endpoint(), stack });
        group.spawn_background(format!("{stack} service manager"), &job)?;
        Ok(())
    }
}
