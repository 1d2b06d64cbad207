//! The handles that a process holds, and its notification requests by cookie. This file does not
//! talk to a driver, and does not know what is stored for a handle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Handles<H>(Mutex<Tables<H>>);

#[derive(Debug)]
struct Tables<H> {
    handles: HashMap<u32, Weak<H>>,
    asked: HashMap<u64, Weak<H>>,
    last_cookie: u64,
}

impl<H> Default for Handles<H> {
    fn default() -> Self {
        Self(Mutex::new(Tables { handles: HashMap::new(), asked: HashMap::new(), last_cookie: 0 }))
    }
}

impl<H> Handles<H> {
    fn lock(&self) -> MutexGuard<'_, Tables<H>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the proxy for a handle.
    pub(crate) fn find(&self, handle: u32) -> Option<Arc<H>> {
        self.lock().handles.get(&handle).and_then(Weak::upgrade)
    }

    /// Returns the proxy for a handle, and true if it is new.
    pub(crate) fn find_or_insert(&self, handle: u32, make: impl FnOnce() -> Arc<H>) -> (Arc<H>, bool) {
        let mut tables = self.lock();
        if let Some(known) = tables.handles.get(&handle).and_then(Weak::upgrade) {
            return (known, false);
        }
        let new = make();
        tables.handles.insert(handle, Arc::downgrade(&new));
        (new, true)
    }

    pub(crate) fn forget(&self, handle: u32) {
        let mut tables = self.lock();
        if tables.handles.get(&handle).is_some_and(|proxy| proxy.strong_count() == 0) {
            tables.handles.remove(&handle);
        }
    }

    /// Makes a new cookie for a notification request for a handle's object.
    pub(crate) fn ask(&self, handle: &Arc<H>) -> u64 {
        let mut tables = self.lock();
        tables.last_cookie += 1;
        let cookie = tables.last_cookie;
        tables.asked.insert(cookie, Arc::downgrade(handle));
        cookie
    }

    /// Forgets a cookie. Later notifications with it are ignored.
    pub(crate) fn unask(&self, cookie: u64) {
        self.lock().asked.remove(&cookie);
    }

    /// Returns the proxy for which a cookie was made.
    pub(crate) fn find_asked(&self, cookie: u64) -> Option<Arc<H>> {
        self.lock().asked.get(&cookie).and_then(Weak::upgrade)
    }

    /// Returns the proxy for which a cookie was made, and forgets the cookie.
    pub(crate) fn take_asked(&self, cookie: u64) -> Option<Arc<H>> {
        self.lock().asked.remove(&cookie)?.upgrade()
    }
}
