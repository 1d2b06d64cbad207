//! Service managers: the context manager (handle 0), and the names that it registers.
//!
//! Each stack has its own manager, in a separate context. Both managers use the same registry.
//! Their interfaces, method codes and parcels differ.

mod binder;
mod hwbinder;
mod registry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Binder, Error, Process, Service, Stack};
use registry::Registry;

/// The longest accepted name, in bytes: Android's limit.
pub const LONGEST_NAME: usize = 127;

/// The shortest (first) and the longest pause between two lookups of [`ServiceManager::wait`].
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Makes `process` the service manager of its context, for services of `stack`. The process's
/// loopers serve it.
///
/// # Errors
/// [`Error::Driver`] if the context already has a manager.
pub fn serve(process: &Arc<Process>, stack: Stack) -> Result<(), Error> {
    let registry = Arc::new(Registry::default());
    process.become_context_manager(match stack {
        Stack::Binder => Service::binder(binder::Manager { registry, dialect: process.dialect() }),
        Stack::Hwbinder => Service::hwbinder(hwbinder::Manager(registry)),
    })
}

/// A client of a context's service manager.
///
/// A name of the binder stack is 1 to 127 ASCII letters, digits and `._-/`. A name of the hwbinder
/// stack is a fully qualified interface and an instance: `package@1.0::IName/instance`.
#[derive(Clone, Debug)]
pub struct ServiceManager {
    process: Arc<Process>,
    stack: Stack,
}

impl ServiceManager {
    /// Makes a client for the manager of the context that `process` joined.
    #[must_use]
    pub fn new(process: &Arc<Process>, stack: Stack) -> Self {
        Self { process: process.clone(), stack }
    }

    /// Registers an object. A second registration of a name replaces the first. The manager removes
    /// a name when its object dies.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name; the errors of
    /// [`Proxy::transact`](crate::Proxy::transact).
    pub fn add(&self, name: &str, binder: &Binder) -> Result<(), Error> {
        check_name(self.stack, name)?;
        let manager = self.process.context_manager();
        match self.stack {
            Stack::Binder => binder::add(&manager, name, binder),
            Stack::Hwbinder => hwbinder::add(&manager, name, binder),
        }
    }

    /// Returns the object registered under a name.
    ///
    /// # Errors
    /// [`Error::NotRegistered`] if there is no such object; the errors of [`ServiceManager::add`].
    pub fn get(&self, name: &str) -> Result<Binder, Error> {
        check_name(self.stack, name)?;
        let manager = self.process.context_manager();
        let found = match self.stack {
            Stack::Binder => binder::check(&manager, name),
            Stack::Hwbinder => hwbinder::get(&manager, name),
        };
        found?.ok_or_else(|| Error::NotRegistered { name: name.to_owned() })
    }

    /// Returns all names in alphabetical order.
    ///
    /// # Errors
    /// The errors of [`Proxy::transact`](crate::Proxy::transact).
    pub fn list(&self) -> Result<Vec<String>, Error> {
        let manager = self.process.context_manager();
        match self.stack {
            Stack::Binder => binder::list(&manager),
            Stack::Hwbinder => hwbinder::list(&manager),
        }
    }

    /// Waits until the name is registered, and returns its object. The service manager need not
    /// have started yet. This method polls, so it needs no looper.
    ///
    /// # Errors
    /// [`Error::WaitedTooLong`] after `timeout`; the errors of [`ServiceManager::get`].
    pub fn wait(&self, name: &str, timeout: Duration) -> Result<Binder, Error> {
        let start = Instant::now();
        let mut pause = ASK_AGAIN.0;
        loop {
            match self.get(name) {
                // The name or the manager does not exist yet; either may still appear.
                Err(Error::NotRegistered { .. } | Error::DeadObject { handle: 0 }) => {}
                other => return other,
            }
            let waited = start.elapsed();
            if waited >= timeout {
                return Err(Error::WaitedTooLong { name: name.to_owned(), waited });
            }
            std::thread::sleep(pause.min(timeout - waited));
            pause = (pause * 2).min(ASK_AGAIN.1);
        }
    }
}

/// Checks a name's length and characters and, for hwbinder, its form.
fn check_name(stack: Stack, name: &str) -> Result<(), Error> {
    let separators = if stack == Stack::Hwbinder { "._-/@:" } else { "._-/" };
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || separators.contains(letter);
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_NAME {
        "it is longer than 127 bytes"
    } else if !name.chars().all(allowed) {
        match stack {
            Stack::Binder => "only letters, digits and ._-/ are allowed",
            Stack::Hwbinder => "only letters, digits and ._-/@: are allowed",
        }
    } else if stack == Stack::Hwbinder && split_name(name).is_none() {
        "hwbinder names look like package@1.0::IName/instance"
    } else {
        return Ok(());
    };
    Err(Error::Name { name: name.to_owned(), problem })
}

/// Splits a hwbinder name into interface and instance.
fn split_name(name: &str) -> Option<(&str, &str)> {
    let (interface, instance) = name.split_once('/')?;
    let (package, rest) = interface.split_once('@')?;
    let (version, kind) = rest.split_once("::")?;
    let parts = [package, version, kind, instance];
    parts.iter().all(|part| !part.is_empty()).then_some((interface, instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_for_length_characters_and_form() {
        assert!(check_name(Stack::Binder, "roundtrip.echo/0-a_b").is_ok());
        assert!(check_name(Stack::Hwbinder, "a.b@1.0::IName/default").is_ok());
        let long = "a".repeat(LONGEST_NAME);
        assert!(check_name(Stack::Binder, &long).is_ok());
        for (stack, name) in [
            (Stack::Binder, ""),
            (Stack::Binder, &format!("{long}a")),
            (Stack::Binder, "a b"),
            (Stack::Binder, "a:b"),
            (Stack::Binder, "ä"),
            (Stack::Hwbinder, "name"),
            (Stack::Hwbinder, "a@1.0::IName"),
            (Stack::Hwbinder, "a@1.0::/default"),
            (Stack::Hwbinder, "a@1.0::IName/"),
        ] {
            assert!(check_name(stack, name).is_err(), "{stack} {name}");
        }
        let error = check_name(Stack::Hwbinder, "name").unwrap_err();
        assert_eq!(
            error.to_string(),
            "'name' cannot be a service's name: hwbinder names look like package@1.0::IName/instance"
        );
    }
}
