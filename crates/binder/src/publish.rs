//! Publishing objects with the options of their stack, and becoming the context manager.

use crate::{Binder, Error, Local, NodeOptions, Process, Service};

impl Process {
    /// Publishes an object with the options of its stack; see [`Process::publish_with`].
    #[must_use]
    pub fn publish(&self, service: Service) -> Binder {
        let options = self.options_for(&service);
        self.publish_with(service, options)
    }

    /// Publishes an object. It can be written to parcels, and every receiver can call it. It stays
    /// published while this `Binder` exists or another process holds a reference.
    #[must_use]
    pub fn publish_with(&self, service: Service, options: NodeOptions) -> Binder {
        Binder::Local(Local(self.nodes().publish(Box::new(service), options)))
    }

    /// The options of the service's stack. As on Android, if the process disables background
    /// scheduling, its threads inherit no nice value above 0.
    fn options_for(&self, service: &Service) -> NodeOptions {
        let options = NodeOptions::from(service.stack());
        if self.background_scheduling() { options } else { NodeOptions { least_priority: 0, ..options } }
    }

    /// Makes this process the context manager: `service` gets the calls to handle 0.
    ///
    /// # Errors
    /// [`Error::Driver`] if the context already has a manager.
    pub fn become_context_manager(&self, service: Service) -> Result<(), Error> {
        let driver = self.own_driver()?;
        let options = self.options_for(&service);
        let mut manager = self.manager();
        let become_manager = || match &*manager {
            Some(_) => Err(roundtrip_binder_driver::Error::ContextManagerTaken),
            None => {
                // Publish first, because calls may arrive as soon as the ioctl succeeds.
                let node = self.nodes().publish_context_manager(Box::new(service), options);
                driver.become_context_manager(options.flags()).map(|()| Local(node))
            }
        };
        *manager = Some(
            become_manager()
                .map_err(|cause| Error::Driver { operation: "become the context manager", cause })?,
        );
        Ok(())
    }
}
