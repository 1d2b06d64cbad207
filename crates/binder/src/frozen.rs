//! Freeze notifications: who is to be told when the process that owns an object is frozen and
//! thawed, and what the driver has to be told for it. Linux 6.12 and the emulated driver have them.

use std::sync::{Arc, MutexGuard, PoisonError};

use binder_driver::Command;
use binder_driver::uapi::{FrozenStateInfo, HandleCookie};

use crate::notices::{Asked, Frozen, FrozenLink, Listener};
use crate::references::CONTEXT_MANAGER;
use crate::thread::ThreadState;
use crate::{Error, Process, Proxy};

impl Proxy {
    /// Has `listener` called with true when the process that owns the object is frozen, and with
    /// false when it is thawed; first with its state of now (`addFrozenStateChangeCallback`). It is
    /// called on a looper thread of this process, or, when another listener has been told already,
    /// first on this one. It ends with the last clone of this proxy. A death is told by
    /// [`Proxy::link_to_death`] alone.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver cannot be asked: EINVAL from kernels before 6.12, and
    /// without a context manager for its proxy.
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
        // Under the lock: what the driver tells of the request waits for it, and so does who adds
        // another listener.
        if let Err(error) = self.ask_for_freezes(cookie) {
            process.handles().unask(cookie);
            drop(frozen);
            drop(listener); // not under the lock: it may hold this very proxy
            return Err(error);
        }
        *frozen = Frozen::Asked(Asked { cookie, state: None, listeners: vec![(link, listener)] });
        Ok(link)
    }

    /// Has the driver tell of the owner's state under this cookie.
    fn ask_for_freezes(&self, cookie: u64) -> Result<(), Error> {
        let process = &self.0.process;
        let thread = process.thread();
        if self.handle() == CONTEXT_MANAGER {
            thread.take_references(CONTEXT_MANAGER);
        }
        // First what was queued before: a driver that refuses the request takes nothing of what
        // comes with it.
        thread.flush(process.connection())?;
        thread.push(Command::RequestFreezeNotification(HandleCookie { handle: self.handle(), cookie }));
        let asked = thread.flush(process.connection());
        if asked.is_err() {
            thread.release_manager(self.handle());
            let _ = thread.flush(process.connection()); // what it says of that is what it has said
        }
        asked
    }

    /// Removes a listener (`removeFrozenStateChangeCallback`). It may be in a call on another
    /// thread meanwhile. False when it is not there any more.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
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
        drop(removed); // not under the lock: it may hold this very proxy
        thread.flush(process.connection())?;
        Ok(true)
    }

    fn frozen(&self) -> MutexGuard<'_, Frozen> {
        self.0.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ThreadState {
    /// The driver says whether the owner of the object behind a cookie is frozen. It tells no more
    /// under this cookie until it is told that this was heard, so listeners are called in order.
    pub(crate) fn told_of_freeze(&self, process: &Process, told: FrozenStateInfo) {
        if let Some(proxy) = process.handles().find_asked(told.cookie).map(Proxy) {
            let state = told.is_frozen != 0;
            let listeners = match &mut *proxy.frozen() {
                // It tells the same again after changes that came to nothing.
                Frozen::Asked(asked) if asked.cookie == told.cookie && asked.state != Some(state) => {
                    asked.state = Some(state);
                    asked.listeners.clone()
                }
                _ => Vec::new(),
            };
            listeners.iter().for_each(|(_, listener)| listener(state));
        }
        self.push(Command::FreezeNotificationDone(told.cookie));
    }
}
