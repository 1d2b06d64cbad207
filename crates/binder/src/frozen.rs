//! Freeze notifications: the listeners for the frozen state of an object's owner, and the driver
//! commands for it. Linux since 6.12 and the emulated driver support them.

use std::sync::{Arc, MutexGuard, PoisonError};

use roundtrip_binder_driver::Command;
use roundtrip_binder_driver::uapi::{FrozenStateInfo, HandleCookie};

use crate::notices::{Asked, Frozen, FrozenLink, Listener};
use crate::references::CONTEXT_MANAGER;
use crate::thread::ThreadState;
use crate::{Error, Process, Proxy};

impl Proxy {
    /// Adds a listener for the frozen state of the process that owns the object
    /// (`addFrozenStateChangeCallback`). `listener` gets true when the process is frozen, and false
    /// when it is thawed. Its first call reports the current state.
    ///
    /// A looper thread of this process calls the listener. If the proxy already knows the state,
    /// the calling thread makes the first call. Dropping the last clone of this proxy removes the
    /// listener. The listener gets no death notification; see [`Proxy::link_to_death`].
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses the request: EINVAL on kernels before 6.12, and for
    /// handle 0 without a context manager.
    pub fn add_frozen_listener(
        &self,
        listener: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<FrozenLink, Error> {
        let link = FrozenLink::new();
        let listener: Listener = Arc::new(listener);
        let process = &self.0.process;
        let mut frozen = self.frozen();
        if let Frozen::Asked(asked) = &mut *frozen {
            asked.listeners.push((link, listener.clone()));
            let state = asked.state;
            drop(frozen);
            if let Some(state) = state {
                listener(state);
            }
            return Ok(link);
        }
        let cookie = process.handles().ask(&self.0);
        // Hold the lock, so that the driver's first notification and other calls of this method
        // wait until the request is stored.
        if let Err(error) = self.ask_for_freezes(cookie) {
            process.handles().unask(cookie);
            drop(frozen);
            drop(listener); // not under the lock: the listener may own a clone of this proxy
            return Err(error);
        }
        *frozen = Frozen::Asked(Asked { cookie, state: None, listeners: vec![(link, listener)] });
        Ok(link)
    }

    /// Requests notifications of the owner's frozen state with this cookie.
    fn ask_for_freezes(&self, cookie: u64) -> Result<(), Error> {
        let process = &self.0.process;
        let thread = process.thread();
        if self.handle() == CONTEXT_MANAGER {
            thread.take_references(CONTEXT_MANAGER);
        }
        // Flush earlier commands first: a driver that refuses the request rejects every command in
        // the same exchange.
        thread.flush(process.connection())?;
        thread.push(Command::RequestFreezeNotification(HandleCookie { handle: self.handle(), cookie }));
        let asked = thread.flush(process.connection());
        if asked.is_err() {
            thread.release_manager(self.handle());
            let _ = thread.flush(process.connection()); // `asked` already has the error
        }
        asked
    }

    /// Removes a listener (`removeFrozenStateChangeCallback`). Another thread may still be running
    /// it. Returns false if the listener was already removed.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    pub fn remove_frozen_listener(&self, link: FrozenLink) -> Result<bool, Error> {
        let process = &self.0.process;
        let thread = process.thread();
        let mut frozen = self.frozen();
        let Frozen::Asked(asked) = &mut *frozen else { return Ok(false) };
        let Some(at) = asked.listeners.iter().position(|(other, _)| *other == link) else { return Ok(false) };
        let removed = asked.listeners.remove(at);
        if asked.listeners.is_empty() {
            let cookie = asked.cookie;
            *frozen = Frozen::NotAsked;
            process.handles().unask(cookie);
            thread.clear_frozen(self.handle(), cookie);
        }
        drop(frozen);
        drop(removed); // not under the lock: the listener may own a clone of this proxy
        thread.flush(process.connection())?;
        Ok(true)
    }

    fn frozen(&self) -> MutexGuard<'_, Frozen> {
        self.0.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadState {
    /// Handles `BR_FROZEN_BINDER`: the frozen state of the process that owns the object. The driver
    /// sends the next notification with this cookie only after `BC_FREEZE_NOTIFICATION_DONE`, so
    /// listeners are called in order.
    pub(crate) fn freeze_state_changed(&self, process: &Process, info: FrozenStateInfo) {
        if let Some(proxy) = process.handles().find_asked(info.cookie).map(Proxy) {
            let state = info.is_frozen != 0;
            let listeners = match &mut *proxy.frozen() {
                // The driver reports the same state again if the state changed back before the
                // notification.
                Frozen::Asked(asked) if asked.cookie == info.cookie && asked.state != Some(state) => {
                    asked.state = Some(state);
                    asked.listeners.clone()
                }
                _ => Vec::new(),
            };
            listeners.iter().for_each(|(_, listener)| listener(state));
        }
        self.push(Command::FreezeNotificationDone(info.cookie));
    }
}
