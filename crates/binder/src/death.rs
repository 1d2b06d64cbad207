//! Death notifications: the recipients of a remote object's death, and the driver commands for it.

use std::sync::{Arc, PoisonError};

use roundtrip_binder_driver::Command;
use roundtrip_binder_driver::uapi::HandleCookie;

use crate::notices::{Death, DeathLink};
use crate::references::CONTEXT_MANAGER;
use crate::requests::PING;
use crate::thread::ThreadState;
use crate::{Error, Process, Proxy};

impl Proxy {
    /// Links `recipient` to the object's death (`linkToDeath`). A looper thread of this process
    /// calls it once when the object dies. Dropping the last clone of this proxy ends the link.
    ///
    /// A link to the context manager works too. After its death, a caller can link to the next
    /// context manager.
    ///
    /// # Errors
    /// [`Error::DeadObject`] if the object is known to be dead, or if there is no context manager.
    /// [`Error::Driver`] if the driver refuses the request, for example because this process is the
    /// context manager itself.
    pub fn link_to_death(&self, recipient: impl FnOnce() + Send + 'static) -> Result<DeathLink, Error> {
        let is_manager = self.handle() == CONTEXT_MANAGER;
        if is_manager {
            // Without a context manager the driver takes no reference on handle 0 and reports no
            // error.
            self.check_alive()?;
        }
        let link = DeathLink::new();
        let mut death = self.0.death.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *death {
            Death::Happened => return Err(Error::DeadObject { handle: self.handle() }),
            Death::Asked(_, recipients) => recipients.push((link, Box::new(recipient))),
            Death::NotAsked => {
                let process = &self.0.process;
                let cookie = process.handles().ask(&self.0);
                *death = Death::Asked(cookie, vec![(link, Box::new(recipient))]);
                drop(death);
                let thread = process.thread();
                if is_manager {
                    thread.take_references(CONTEXT_MANAGER);
                }
                let target = HandleCookie { handle: self.handle(), cookie };
                thread.push(Command::RequestDeathNotification(target));
                if let Err(error) = thread.flush(process.connection()) {
                    self.forget_link(link, false);
                    return Err(error);
                }
            }
        }
        if is_manager && let Err(error) = self.check_alive() {
            // The manager died in between, so the driver may have found no node to reference.
            self.unlink_to_death(link)?;
            return Err(error);
        }
        Ok(link)
    }

    /// Unlinks a recipient and drops it without calling it (`unlinkToDeath`). Returns false if it
    /// is no longer linked: it was called, or is about to be.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver fails.
    pub fn unlink_to_death(&self, link: DeathLink) -> Result<bool, Error> {
        let found = self.forget_link(link, true);
        self.0.process.thread().flush(self.0.process.connection())?;
        Ok(found)
    }

    /// Removes a recipient. If it was the last and the driver `knows` of the request, queues the
    /// command that clears the request.
    fn forget_link(&self, link: DeathLink, knows: bool) -> bool {
        let mut death = self.0.death.lock().unwrap_or_else(PoisonError::into_inner);
        let Death::Asked(cookie, recipients) = &mut *death else { return false };
        let cookie = *cookie;
        let Some(at) = recipients.iter().position(|(other, _)| *other == link) else { return false };
        let removed = recipients.swap_remove(at);
        if recipients.is_empty() {
            *death = Death::NotAsked;
            self.0.process.handles().unask(cookie);
            if knows {
                self.0.process.thread().clear_death(self.handle(), cookie);
            }
        }
        drop(death);
        drop(removed); // not under the lock: the recipient may own a clone of this proxy
        true
    }

    /// Checks that the object answers a ping. Any answer will do.
    fn check_alive(&self) -> Result<(), Error> {
        match self.call(PING, |_| Ok(())) {
            Err(error @ (Error::DeadObject { .. } | Error::Driver { .. } | Error::Forked)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl ThreadState {
    /// Handles `BR_DEAD_BINDER`: the object with the death notification `cookie` has died.
    pub(crate) fn told_of_death(&self, process: &Arc<Process>, cookie: u64) {
        self.push(Command::DeadBinderDone(cookie));
        let Some(proxy) = process.handles().take_asked(cookie).map(Proxy) else { return };
        // The next context manager reuses handle 0.
        let after = if proxy.handle() == CONTEXT_MANAGER { Death::NotAsked } else { Death::Happened };
        let death = {
            let mut death = proxy.0.death.lock().unwrap_or_else(PoisonError::into_inner);
            // If it was unlinked and linked again meanwhile, the cookie differs.
            if death.cookie() != Some(cookie) {
                return;
            }
            std::mem::replace(&mut *death, after)
        };
        self.release_manager(proxy.handle());
        if let Death::Asked(_, recipients) = death {
            recipients.into_iter().for_each(|(_, recipient)| recipient());
        }
    }
}
