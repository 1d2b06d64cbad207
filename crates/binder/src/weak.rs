//! [`WeakProxy`]: another process's object, known and not held.

use std::sync::Arc;

use binder_driver::Command;

use crate::references::CONTEXT_MANAGER;
use crate::{Process, Proxy};

/// Another process's object that this one does not keep alive. Its handle stays its own while this
/// lives, so two of them are equal when they name the same object.
///
/// It can be promoted while any [`Proxy`] for the object is left in this process. When none is,
/// only the driver could tell whether the object still lives, and Linux's never could
/// (`BC_ATTEMPT_ACQUIRE` is refused): it counts as gone, as in Android's library.
#[derive(Clone, Debug)]
pub struct WeakProxy(Arc<WeakHandle>);

/// One weak reference of the driver's.
#[derive(Debug)]
struct WeakHandle {
    process: Arc<Process>,
    handle: u32,
}

impl Proxy {
    /// The object, known and not held.
    #[must_use]
    pub fn downgrade(&self) -> WeakProxy {
        let process = self.process().clone();
        if self.handle() != CONTEXT_MANAGER {
            let thread = process.thread();
            thread.push(Command::Increfs(self.handle()));
            // As for a new proxy: the strong reference keeps the handle until the weak one is
            // taken.
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

    /// The object, if this process still holds it.
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
