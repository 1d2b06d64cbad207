//! Publishing objects: making them callable, with the options of their stack, and becoming the
//! context's manager.

use crate::{Binder, Error, Local, NodeOptions, Process, Service};

impl Process {
    /// Publishes an object with the options of its stack; see [`Process::publish_with`].
    #[must_use]
    pub fn publish(&self, service: Service) -> Binder {
        let options = self.options_for(&service);
        self.publish_with(service, options)
    }

    /// Publishes an object: it can be written to parcels, and called by whoever receives one, while
    /// this `Binder` or a reference in another process is left.
    #[must_use]
    pub fn publish_with(&self, service: Service, options: NodeOptions) -> Binder {
        Binder::Local(Local(self.nodes().publish(Box::new(service), options)))
    }

    /// The options of the service's stack. As on Android, a process without background scheduling
    /// has no nice value above 0 lent to its binder objects.
    fn options_for(&self, service: &Service) -> NodeOptions {
        let options = NodeOptions::from(service.stack());
        if self.background_scheduling() { options } else { NodeOptions { least_priority: 0, ..options } }
    }

    /// Makes this process the manager of its context: calls to handle 0 arrive at `service`.
    ///
    /// # Errors
    /// [`Error::Driver`] when the context has a manager already.
    pub fn become_context_manager(&self, service: Service) -> Result<(), Error> {
        let driver = self.own_driver()?;
        let options = self.options_for(&service);
        let mut manager = self.manager();
        let become_manager = || match &*manager {
            Some(_) => Err(binder_driver::Error::ContextManagerTaken),
            None => {
                // First, since a call may arrive as soon as the driver agrees.
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
