//! [`Proxy`]: another process's object, by this process's handle for it, and the references that
//! the driver counts for it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Process;
use crate::Stability;
use crate::notices::{Death, Frozen};
use crate::parcel::Kept;
use crate::references::CONTEXT_MANAGER;

/// Another process's object, by this process's handle for it. Clones share one handle; the last one
/// gives it back.
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

    /// What the object's interface promises, as its owner said when it was received.
    #[must_use]
    pub fn stability(&self) -> Stability {
        self.0.stability
    }

    /// The process that calls are made from.
    #[must_use]
    pub fn process(&self) -> &Arc<Process> {
        &self.0.process
    }

    /// True when both are one handle.
    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its reference, to be held for a while.
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
        // Handle 0 is there without a reference; only who asks for its death holds one.
        if self.handle != CONTEXT_MANAGER {
            thread.give_references(self.handle);
        }
        thread.flush_unless_soon(self.process.connection());
    }
}

impl Process {
    /// The manager of this process's context; whether there is one shows when it is called.
    #[must_use]
    pub fn context_manager(self: &Arc<Self>) -> Proxy {
        self.proxy_for(CONTEXT_MANAGER, Stability::System)
    }

    /// The proxy for a handle that the driver gave to this process, in a buffer that this thread
    /// holds.
    pub(crate) fn proxy_for(self: &Arc<Self>, handle: u32, stability: Stability) -> Proxy {
        let (held, new) = self.handles().find_or_insert(handle, || {
            let (death, frozen) = (Mutex::default(), Mutex::default());
            Arc::new(Handle { process: self.clone(), handle, stability, death, frozen })
        });
        // Handle 0 is always there and needs no reference. The buffer keeps any other alive until
        // this thread gives it back: its commands go out in order, so these come first.
        if new && handle != CONTEXT_MANAGER {
            let thread = self.thread();
            thread.take_references(handle);
            // Another thread may give up its clone, and the references with it, before these are
            // taken: the proxy lives until they are.
            thread.keep_until_sent(held.clone());
            thread.flush_unless_soon(self.connection());
        }
        Proxy(held)
    }
}
