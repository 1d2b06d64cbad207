//! A run's flight recorder: scheduler events in a private trace instance. Must not know what it
//! waits for, nor what its recordings show.

pub mod selection;

use roundtrip_tracefs::{Instance, Selection, Tracefs};

use crate::error::{Error, Result};
use roundtrip_run::RecorderInfo;

/// How far a snapshot reaches back before its first call or write, in nanoseconds, to show which
/// threads ran or waited where.
pub(crate) const HISTORY_NS: u64 = 50_000_000;

/// Names of the threads whose system calls are recorded: clients, and the loopers of servers.
const COMMS: [&str; 2] = ["client-*", "looper-*"];

/// A recorder, initially off. Dropping it removes its instance with all settings.
#[derive(Debug)]
pub(crate) struct Recorder {
    // Dropped before the mount that it is in.
    pub(crate) instance: Instance,
    pub(crate) tracefs: Tracefs,
    kilobytes: u64,
}

impl Recorder {
    /// Creates a recorder.
    ///
    /// # Errors
    /// [`Error::Trace`] if this process lacks permission or the kernel refuses;
    /// [`Error::TraceClock`] if the trace does not have the clock that times calls.
    pub(crate) fn open(kilobytes: u64, system_calls: bool) -> Result<Self> {
        Self::of(kilobytes, |tracefs| {
            let has = |event: &str| tracefs.has_event(event);
            let selection = selection::flight_recorder(has)?;
            Ok(if system_calls { selection::with_system_calls(selection, &COMMS, has) } else { selection })
        })
    }

    /// Creates a recorder for a given selection of events.
    ///
    /// # Errors
    /// As [`Recorder::open`].
    pub(crate) fn of(
        kilobytes: u64,
        select: impl FnOnce(&Tracefs) -> roundtrip_tracefs::Result<Selection>,
    ) -> Result<Self> {
        let tracefs = Tracefs::open()?;
        let selection = select(&tracefs)?;
        let instance = Instance::create(&tracefs, &selection, kilobytes)?;
        if instance.clock() != "boot" {
            return Err(Error::TraceClock { clock: instance.clock().to_owned() });
        }
        Ok(Self { instance, tracefs, kilobytes })
    }

    pub(crate) fn info(&self) -> RecorderInfo {
        RecorderInfo {
            events: self.instance.events().to_vec(),
            missing: self.instance.missing().to_vec(),
            kilobytes: self.kilobytes,
        }
    }
}
