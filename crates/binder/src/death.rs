//! Death notifications: who is to be told when another process's object dies, and what the driver
//! has to be told for it.

use std::sync::{Arc, PoisonError};

use binder_driver::Command;
use binder_driver::uapi::HandleCookie;

use crate::notices::{Death, DeathLink};
use crate::references::CONTEXT_MANAGER;
use crate::requests::PING;
use crate::thread::ThreadState;
use crate::{Error, Process, Proxy};

impl Proxy {
    /// Has `recipient` called, once and on a looper thread of this process, when the object dies.
    /// The link ends with the last clone of this proxy.
    ///
    /// The context manager's death is told too; the manager that comes after it can be linked to
    /// anew.
    ///
    /// # Errors
    /// [`Error::DeadObject`] when it is known to be dead, or when there is no context manager;
    /// [`Error::Driver`] when the driver cannot be asked, as for a context manager's own
    /// process.
    pub fn link_to_death(&self, recipient: impl FnOnce() + Send + 'static) -> Result<DeathLink, Error> {
        let is_manager = self.handle() == CONTEXT_MANAGER;
        if is_manager {
            // Without a manager the driver takes no reference on handle 0, and says nothing.
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
            // It has died in between: the driver may have had nothing to hold.
            self.unlink_to_death(link)?;
            return Err(error);
        }
        Ok(link)
    }

    /// Takes a recipient back, which is then dropped uncalled (`unlinkToDeath`). False when it is
    /// not linked any more: it has been, or is about to be, called.
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver is out of order.
    pub fn unlink_to_death(&self, link: DeathLink) -> Result<bool, Error> {
        let found = self.forget_link(link, true);
        self.0.process.thread().flush(self.0.process.connection())?;
        Ok(found)
    }

    /// Removes a recipient. Tells the driver, if it `knows`, when it was the last.
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
        drop(removed); // not under the lock: it may hold this very proxy
        true
    }

    /// Whether anybody answers, whatever the answer is.
    fn check_alive(&self) -> Result<(), Error> {
        match self.call(PING, |_| Ok(())) {
            Err(error @ (Error::DeadObject { .. } | Error::Driver { .. } | Error::Forked)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl ThreadState {
    /// The driver says that the object behind `cookie` is dead.
    pub(crate) fn told_of_death(&self, process: &Arc<Process>, cookie: u64) {
        self.push(Command::DeadBinderDone(cookie));
        let Some(proxy) = process.handles().take_asked(cookie).map(Proxy) else { return };
        // Handle 0 will be another object's.
        let after = if proxy.handle() == CONTEXT_MANAGER { Death::NotAsked } else { Death::Happened };
        let death = {
            let mut death = proxy.0.death.lock().unwrap_or_else(PoisonError::into_inner);
            // Unlinked and linked again meanwhile, it has another cookie.
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
