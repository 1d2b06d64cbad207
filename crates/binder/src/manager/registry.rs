//! The names that a service manager knows. It knows no parcels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Binder;

/// Names and what is registered under them.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<BTreeMap<String, Binder>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Binder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an object, in place of another of the same name, for as long as it lives.
    pub(super) fn add(self: &Arc<Self>, name: &str, binder: Binder) {
        let old = self.lock().insert(name.to_owned(), binder.clone());
        drop(old); // outside the lock: giving up a reference talks to the driver
        if let Binder::Remote(proxy) = &binder {
            let registry = Arc::downgrade(self);
            let (name, handle) = (name.to_owned(), proxy.handle());
            let forget = move || {
                if let Some(registry) = registry.upgrade() {
                    registry.remove(&name, handle);
                }
            };
            // Only an object that is dead already cannot be watched.
            if proxy.link_to_death(forget.clone()).is_err() {
                forget();
            }
        }
    }

    /// Forgets a name, unless another object has taken it meanwhile.
    fn remove(&self, name: &str, handle: u32) {
        let mut names = self.lock();
        let same = |binder: &Binder| binder.remote().is_some_and(|proxy| proxy.handle() == handle);
        let gone = if names.get(name).is_some_and(same) { names.remove(name) } else { None };
        drop(names);
        drop(gone);
    }

    pub(super) fn get(&self, name: &str) -> Option<Binder> {
        self.lock().get(name).cloned()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}
