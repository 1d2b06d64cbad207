//! A context that somebody else runs, found and joined to be looked at. Knows no command.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bench::ipc::Endpoint;
use binder::manager::ServiceManager;
use binder::{Process, Proxy, Stack};

/// A context that was joined, whose service manager answers.
pub(super) struct Found {
    pub(super) name: String,
    /// Which driver it is on.
    pub(super) backend: String,
    /// Whose services are registered there.
    pub(super) stack: Stack,
    pub(super) process: Arc<Process>,
}

/// A context's name, as the option takes it.
pub(super) fn name(endpoint: &Endpoint) -> &str {
    match endpoint {
        Endpoint::Emulated(name) | Endpoint::Kernel(name) => name,
    }
}

impl Found {
    /// Joins a context and asks its manager which stack's it is.
    pub(super) fn join(endpoint: &Endpoint) -> Result<Found> {
        let process = endpoint.connect()?;
        let manager = process.context_manager();
        let stack = stack_of(&manager)
            .with_context(|| format!("nobody in {} answers as its service manager", name(endpoint)))?;
        let backend = process.driver().backend().to_string();
        Ok(Found { name: name(endpoint).to_owned(), backend, stack, process })
    }

    /// The context that was named, or the only one whose manager answers.
    pub(super) fn one(named: Option<&str>) -> Result<Found> {
        if let Some(named) = named {
            return Found::join(&Endpoint::named(named));
        }
        let mut found: Vec<Found> =
            Endpoint::all().iter().filter_map(|endpoint| Found::join(endpoint).ok()).collect();
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        match names[..] {
            [_] => Ok(found.remove(0)),
            [] => bail!("{NONE}"),
            _ => bail!("several contexts run: choose one with --context: {}", names.join(", ")),
        }
    }

    /// The service that is registered under a name.
    pub(super) fn service(&self, name: &str) -> Result<Proxy> {
        let service = ServiceManager::new(&self.process, self.stack).get(name)?;
        Ok(service.remote().context("the service is this process's own")?.clone())
    }
}

/// What is said where there is nothing to look at.
pub(super) const NONE: &str = "no context with a service manager runs here that this user may join; \
    a running measurement has one, and so has a device whose Android is up";

/// Which stack's interface a service manager has. One that knows the question of one stack refuses the other's.
fn stack_of(manager: &Proxy) -> Result<Stack, binder::Error> {
    match manager.interface_descriptor(Stack::Binder) {
        Ok(_) => Ok(Stack::Binder),
        Err(error @ (binder::Error::DeadObject { .. } | binder::Error::Driver { .. })) => Err(error),
        Err(_) => manager.interface_descriptor(Stack::Hwbinder).map(|_| Stack::Hwbinder),
    }
}
