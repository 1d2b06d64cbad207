//! Finds and joins another program's context to examine it. Knows no command.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use roundtrip_bench::NotHere;
use roundtrip_bench::ipc::Endpoint;
use roundtrip_binder::manager::ServiceManager;
use roundtrip_binder::{Dialect, Process, Proxy, Stack};

use super::Place;

/// A joined context whose service manager answers.
pub(super) struct Found {
    pub(super) name: String,
    /// The driver that it is on.
    pub(super) backend: String,
    /// The stack whose services are registered there.
    pub(super) stack: Stack,
    pub(super) process: Arc<Process>,
}

/// A context's name in the form of the option.
pub(super) fn name(endpoint: &Endpoint) -> &str {
    match endpoint {
        Endpoint::Emulated(name) | Endpoint::Kernel(name) => name,
    }
}

impl Found {
    /// Joins a context and asks its manager which stack it belongs to. Uses the given dialect for
    /// services on a device, else that of this phone. Emulated contexts always use this project's
    /// default dialect.
    pub(super) fn join(endpoint: &Endpoint, android: Option<Dialect>) -> Result<Self> {
        let dialect = match endpoint {
            Endpoint::Emulated(_) => Dialect::default(),
            Endpoint::Kernel(_) => android.or_else(of_this_phone).unwrap_or_default(),
        };
        let process = Process::in_dialect(endpoint.open()?, dialect);
        let manager = process.context_manager();
        let stack = stack_of(&manager)
            .with_context(|| format!("no service manager answers in {}", name(endpoint)))?;
        let backend = process.driver().backend().to_string();
        Ok(Self { name: name(endpoint).to_owned(), backend, stack, process })
    }

    /// The named context. If it cannot be joined, the error lists the contexts that can be joined.
    pub(super) fn named(named: &str, place: &Place) -> Result<Self> {
        Self::join(&Endpoint::named(named), place.android).map_err(|error| {
            let found = Self::all(place);
            let there = found.iter().map(|found| found.name.clone()).collect();
            let missing = NotHere::Context { named: named.to_owned(), cause: error.to_string(), there };
            roundtrip_bench::Error::from(missing).into()
        })
    }

    /// The named context, or the only one whose manager answers.
    pub(super) fn one(place: &Place) -> Result<Self> {
        if let Some(named) = &place.context {
            return Self::named(named, place);
        }
        let mut found = Self::all(place);
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        match names[..] {
            [_] => Ok(found.remove(0)),
            [] => bail!("{NONE}"),
            _ => bail!("several contexts run: choose one with --context: {}", names.join(", ")),
        }
    }

    /// All contexts whose managers answer.
    pub(super) fn all(place: &Place) -> Vec<Self> {
        Endpoint::all().iter().filter_map(|endpoint| Self::join(endpoint, place.android).ok()).collect()
    }

    /// The service registered under a name.
    pub(super) fn service(&self, name: &str) -> Result<Proxy> {
        let service = ServiceManager::new(&self.process, self.stack).get(name)?;
        Ok(service.remote().context("the service belongs to this process")?.clone())
    }
}

/// The message if there is nothing to examine.
pub(super) const NONE: &str = "this user can join no running context with a service manager; start a \
                               measurement, or use a device with Android running";

/// The stack that a service manager belongs to. A manager accepts only the interface of its own
/// stack, so this tries one.
fn stack_of(manager: &Proxy) -> Result<Stack, roundtrip_binder::Error> {
    match manager.interface_descriptor(Stack::Binder) {
        Ok(_) => Ok(Stack::Binder),
        Err(
            error @ (roundtrip_binder::Error::DeadObject { .. } | roundtrip_binder::Error::Driver { .. }),
        ) => Err(error),
        Err(_) => manager.interface_descriptor(Stack::Hwbinder).map(|_| Stack::Hwbinder),
    }
}

/// The dialect of an Android release, given by its version number.
pub(super) fn dialect_of_release(release: u32) -> Option<Dialect> {
    match release {
        10 => Some(Dialect::Android10),
        11 => Some(Dialect::Android11),
        12 => Some(Dialect::Android12),
        13 | 14 => Some(Dialect::Android13),
        15 => Some(Dialect::Android15),
        16 => Some(Dialect::Android16),
        _ => None,
    }
}

/// The dialect of the phone on which this program runs; `None` on other systems, and on newer
/// releases than the known ones.
fn of_this_phone() -> Option<Dialect> {
    let mut getprop = Command::new("getprop");
    let output =
        getprop.arg("ro.build.version.sdk").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    dialect_of_api(String::from_utf8(output.stdout).ok()?.trim().parse().ok()?)
}

/// The dialect of an API level. Android 12 has two API levels.
fn dialect_of_api(level: u32) -> Option<Dialect> {
    let release = match level {
        29..=31 => level - 19,
        32.. => level - 20,
        _ => return None,
    };
    dialect_of_release(release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phones_api_level_says_its_dialect() {
        let known = [
            (29, Dialect::Android10),
            (30, Dialect::Android11),
            (31, Dialect::Android12),
            (32, Dialect::Android12),
            (33, Dialect::Android13),
            (34, Dialect::Android13),
            (35, Dialect::Android15),
            (36, Dialect::Android16),
        ];
        for (level, dialect) in known {
            assert_eq!(dialect_of_api(level), Some(dialect), "{level}");
        }
        for unknown in [0, 28, 37, u32::MAX] {
            assert_eq!(dialect_of_api(unknown), None, "{unknown}");
        }
    }
}
