//! The names that a service manager registers. This file knows nothing about parcels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Binder;

/// Registered objects by name.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<BTreeMap<String, Binder>>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Binder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an object until it dies. It replaces an earlier object of the same name.
    pub(super) fn add(self: &Arc<Self>, name: &str, binder: Binder) {
        let old = self.lock().insert(name.to_owned(), binder.clone());
        drop(old); // outside the lock: dropping a reference talks to the driver
        if let Binder::Remote(proxy) = &binder {
            let registry = Arc::downgrade(self);
            let (name, handle) = (name.to_owned(), proxy.handle());
            let forget = move || {
                if let Some(registry) = registry.upgrade() {
                    registry.remove(&name, handle);
                }
            };
            // Linking fails only if the object is already dead.
            if proxy.link_to_death(forget.clone()).is_err() {
                forget();
            }
        }
    }

    /// Removes a name, unless it has been registered for another object meanwhile.
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
