//! [`Proxy`]: a remote object, with this process's handle for it and the references on that handle.

use std::sync::{Arc, Mutex, PoisonError};

use super::Process;
use crate::Stability;
use crate::notices::{Death, Frozen};
use crate::parcel::Kept;
use crate::references::CONTEXT_MANAGER;

/// A remote object, with this process's handle for it. Clones share one handle; the last clone
/// releases it.
#[derive(Clone, Debug)]
pub struct Proxy(pub(crate) Arc<Handle>);

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) process: Arc<Process>,
    pub(crate) handle: u32,
    stability: Stability,
    pub(crate) death: Mutex<Death>,
    pub(crate) frozen: Mutex<Frozen>,
}

impl Proxy {
    /// This process's handle for the object.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// The interface's stability, as the received parcel stated it.
    #[must_use]
    pub fn stability(&self) -> Stability {
        self.0.stability
    }

    /// The process that makes the calls.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.0.process
    }

    /// Returns true if both share one handle.
    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A reference that keeps the handle alive.
    pub(crate) fn kept(&self) -> Kept {
        self.0.clone()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.process.handles().forget(self.handle);
        let thread = self.process.thread();
        let asked = self.death.get_mut().unwrap_or_else(PoisonError::into_inner).cookie();
        if let Some(cookie) = asked {
            self.process.handles().unask(cookie);
            thread.clear_death(self.handle, cookie);
        }
        let asked = self.frozen.get_mut().unwrap_or_else(PoisonError::into_inner).cookie();
        if let Some(cookie) = asked {
            self.process.handles().unask(cookie);
            thread.clear_frozen(self.handle, cookie);
        }
        // Handle 0 exists without a reference. Only notification requests take references on it.
        if self.handle != CONTEXT_MANAGER {
            thread.give_references(self.handle);
        }
        thread.flush_unless_soon(self.process.connection());
    }
}

impl Process {
    /// Returns a proxy for the context manager. A call fails if there is none.
    #[must_use]
    pub fn context_manager(self: &Arc<Self>) -> Proxy {
        self.proxy_for(CONTEXT_MANAGER, Stability::System)
    }

    /// Returns the proxy for a handle that was received in a buffer of this thread.
    pub(crate) fn proxy_for(self: &Arc<Self>, handle: u32, stability: Stability) -> Proxy {
        let (held, new) = self.handles().find_or_insert(handle, || {
            let (death, frozen) = (Mutex::default(), Mutex::default());
            Arc::new(Handle { process: self.clone(), handle, stability, death, frozen })
        });
        // Handle 0 always exists and needs no reference. The buffer keeps any other handle alive
        // until this thread frees the buffer. Commands are sent in order, so the driver takes the
        // references first.
        if new && handle != CONTEXT_MANAGER {
            let thread = self.thread();
            thread.take_references(handle);
            // Keep the proxy until the driver has taken the references. Otherwise another thread
            // could drop the last clone and release references that were not yet taken.
            thread.keep_until_sent(held.clone());
            thread.flush_unless_soon(self.connection());
        }
        Proxy(held)
    }
}
