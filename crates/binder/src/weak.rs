//! [`WeakProxy`]: a weak reference to a remote object.

use std::sync::Arc;

use roundtrip_binder_driver::Command;

use crate::references::CONTEXT_MANAGER;
use crate::{Process, Proxy};

/// A weak reference to a remote object, which it does not keep alive. The handle is not reused
/// while this value exists, so two weak references to the same object are equal.
///
/// It can be promoted while this process has a [`Proxy`] for the object. Otherwise the object
/// counts as dead, as in Android's library: only the driver could tell whether it is alive, but
/// Linux's driver refuses `BC_ATTEMPT_ACQUIRE`.
#[derive(Clone, Debug)]
pub struct WeakProxy(Arc<WeakHandle>);

/// One weak reference on a handle.
#[derive(Debug)]
struct WeakHandle {
    process: Arc<Process>,
    handle: u32,
}

impl Proxy {
    /// Returns a weak reference to the object.
    #[must_use]
    pub fn downgrade(&self) -> WeakProxy {
        let process = self.process().clone();
        if self.handle() != CONTEXT_MANAGER {
            let thread = process.thread();
            thread.push(Command::Increfs(self.handle()));
            // The strong reference keeps the handle valid until the driver has taken the weak one.
            thread.keep_until_sent(self.kept());
            thread.flush_unless_soon(process.connection());
        }
        WeakProxy(Arc::new(WeakHandle { process, handle: self.handle() }))
    }
}

impl WeakProxy {
    /// This process's handle for the object.
    #[must_use]
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// Returns the object if this process still holds a strong reference.
    #[must_use]
    pub fn promote(&self) -> Option<Proxy> {
        self.0.process.handles().find(self.0.handle).map(Proxy)
    }
}

impl PartialEq for WeakProxy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.process, &other.0.process) && self.0.handle == other.0.handle
    }
}

impl Eq for WeakProxy {}

impl Drop for WeakHandle {
    fn drop(&mut self) {
        if self.handle != CONTEXT_MANAGER {
            let thread = self.process.thread();
            thread.push(Command::Decrefs(self.handle));
            thread.flush_unless_soon(self.process.connection());
        }
    }
}
