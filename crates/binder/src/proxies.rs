//! A process's proxies, by handle, and those that it has asked the driver about, by cookie. It
//! talks to no driver.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Proxy;
use crate::proxy::Handle;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Proxies(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    handles: HashMap<u32, Weak<Handle>>,
    asked: HashMap<u64, Weak<Handle>>,
    last_cookie: u64,
}

impl Proxies {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The proxy for a handle, if there is one.
    pub(crate) fn find(&self, handle: u32) -> Option<Proxy> {
        self.lock().handles.get(&handle).and_then(Weak::upgrade).map(Proxy)
    }

    /// The proxy for a handle, and whether it was made now.
    pub(crate) fn find_or_insert(&self, handle: u32, make: impl FnOnce() -> Arc<Handle>) -> (Proxy, bool) {
        let mut tables = self.lock();
        if let Some(known) = tables.handles.get(&handle).and_then(Weak::upgrade) {
            return (Proxy(known), false);
        }
        let new = make();
        tables.handles.insert(handle, Arc::downgrade(&new));
        (Proxy(new), true)
    }

    pub(crate) fn forget(&self, handle: u32) {
        let mut tables = self.lock();
        if tables.handles.get(&handle).is_some_and(|proxy| proxy.strong_count() == 0) {
            tables.handles.remove(&handle);
        }
    }

    /// A new cookie for what the driver is to tell of a handle's object.
    pub(crate) fn ask(&self, handle: &Arc<Handle>) -> u64 {
        let mut tables = self.lock();
        tables.last_cookie += 1;
        let cookie = tables.last_cookie;
        tables.asked.insert(cookie, Arc::downgrade(handle));
        cookie
    }

    /// The driver's answer to a cookie means nothing any more.
    pub(crate) fn unask(&self, cookie: u64) {
        self.lock().asked.remove(&cookie);
    }

    /// Whose cookie this is.
    pub(crate) fn find_asked(&self, cookie: u64) -> Option<Proxy> {
        self.lock().asked.get(&cookie).and_then(Weak::upgrade).map(Proxy)
    }

    /// Whose cookie this was. It is forgotten.
    pub(crate) fn take_asked(&self, cookie: u64) -> Option<Proxy> {
        self.lock().asked.remove(&cookie)?.upgrade().map(Proxy)
    }
}
