//! Deliberate disturbances: makes some round trips slow, each in a known way at a known time. This
//! shows what each cause looks like, and whether an explanation names it correctly. Must not know
//! how round trips are measured or explained.

mod handler;
mod injector;
mod log;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::worker::WorkerGroup;
use crate::worker::privileges::lent;
pub(crate) use handler::Handler;
pub use injector::InjectorJob;
pub(crate) use injector::{PACKET_BYTES, flood};
use roundtrip_run::injection::{Cause, Injection};

/// The parent's side: what servers and the injector share.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    injection: &'a Injection,
    /// An unlinked file to lock.
    lock: Option<OwnedFd>,
    log: Option<OwnedFd>,
}

impl<'a> Host<'a> {
    /// # Errors
    /// [`Error::System`] if there is no memory for the lock; [`Error::File`] if the log cannot be
    /// written.
    pub(crate) fn new(injection: &'a Injection) -> Result<Self> {
        let lock = injection.cause.takes_lock().then(|| {
            rustix::fs::memfd_create("roundtrip-lock", MemfdFlags::CLOEXEC)
                .map_err(|source| Error::system("make a lock to wait for", source))
        });
        let log = injection.log.as_deref().map(log::create).transpose()?;
        Ok(Host { injection, lock: lock.transpose()?, log })
    }

    /// What the servers' handlers must do.
    pub(crate) fn handler(&self) -> HandlerPlan {
        let Injection { cause, every_ns, for_ns, .. } = *self.injection;
        HandlerPlan {
            cause,
            every_ns,
            for_ns,
            lock: self.lock.as_ref().map(lent),
            log: self.log.as_ref().map(lent),
        }
    }

    /// Starts the injector, if it has work, in the background of a group.
    ///
    /// # Errors
    /// As [`WorkerGroup::spawn`].
    pub(crate) fn start(&self, group: &mut WorkerGroup, servers: &[u32], cpus: &[u32]) -> Result<()> {
        let job = InjectorJob {
            injection: self.injection.clone(),
            log: self.log.as_ref().map(lent),
            lock: self.lock.as_ref().map(lent),
            servers: servers.to_vec(),
            cpus: self.injection.cpus.clone().unwrap_or_else(|| cpus.to_vec()),
        };
        if job.has_work() {
            group.spawn_background("injector", &job)?;
        }
        Ok(())
    }
}

/// What a server's handler does now and then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerPlan {
    cause: Cause,
    every_ns: u64,
    for_ns: u64,
    lock: Option<PathBuf>,
    log: Option<PathBuf>,
}
