//! The parent's side of a driver: opens the context that workers join, and starts its service
//! manager. Must not know what is measured over it.

use roundtrip_binder_emulator::Context;
use roundtrip_run::ipc::{Backend, DriverChoice, DriverPlan, Profile, Stack};

use super::device::Claim;
use super::endpoint::Endpoint;
use super::server::ServiceManagerJob;
use crate::error::Result;
use crate::worker::WorkerGroup;

/// The parent's side of a driver: a private context for one stack, which lives as long as this
/// value. It has no name in any file system, so nothing remains afterwards.
#[derive(Debug)]
pub struct Host {
    context: Held,
    /// Why no device of the kernel's driver was used although the plan prefers one.
    why_emulated: Option<String>,
}

#[derive(Debug)]
enum Held {
    Emulated { context: Context, profile: Profile },
    Kernel(Claim),
}

impl Host {
    /// Opens a context. All contexts that a process has open use the same driver.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the system refuses;
    /// [`Error::NotHere`](crate::Error::NotHere) if the plan requires the kernel's driver and none
    /// of its devices is free.
    pub fn open(plan: &DriverPlan) -> Result<Self> {
        let kernel = |claim| Self { context: Held::Kernel(claim), why_emulated: None };
        let emulated = |why_emulated| {
            let context = Context::create(plan.profile)?;
            context.set_inherit_by(plan.inherit_by);
            Ok(Self { context: Held::Emulated { context, profile: plan.profile }, why_emulated })
        };
        match &plan.choice {
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
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        match &self.context {
            Held::Emulated { context, .. } => Endpoint::Emulated(context.address().to_owned()),
            Held::Kernel(claim) => Endpoint::Kernel(claim.path().to_owned()),
        }
    }

    /// The backend that every result must name.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &self.context {
            Held::Emulated { profile, .. } => Backend::Emulated { profile: *profile },
            Held::Kernel(claim) => claim.backend(),
        }
    }

    /// Why the emulated driver is used although the kernel has a binder device, as one sentence.
    #[must_use]
    pub fn why_emulated(&self) -> Option<String> {
        self.why_emulated.as_ref().map(|why| format!("the kernel's driver was not used: {why}"))
    }

    /// Starts the context's service manager in the background of a group.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`].
    pub fn start_service_manager(&self, group: &mut WorkerGroup, stack: Stack) -> Result<()> {
        let job = ServiceManagerJob { endpoint: self.endpoint(), stack };
        group.spawn_background(format!("{stack} service manager"), &job)?;
        Ok(())
    }
}
