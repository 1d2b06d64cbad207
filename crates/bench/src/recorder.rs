//! The flight recorder of a run: the kernel's scheduler events in a trace instance of its own. Must
//! not know what it waits for, nor what its recordings say.

use tracefs::{Instance, Selection, Tracefs};

use crate::error::{Error, Result};
use crate::selection;
use run::RecorderInfo;

/// How threads are called whose system calls are recorded: clients, and the loopers of servers.
const COMMS: [&str; 2] = ["client-*", "looper-*"];

/// A recorder, off at first. It and all its settings end with this value.
#[derive(Debug)]
pub(crate) struct Recorder {
    // Before the mount that it lies in.
    pub(crate) instance: Instance,
    pub(crate) tracefs: Tracefs,
    kilobytes: u64,
}

impl Recorder {
    /// Makes one.
    ///
    /// # Errors
    /// [`Error::Trace`] where this process may not, or the kernel refuses; [`Error::TraceClock`]
    /// where calls cannot be placed in its recordings.
    pub(crate) fn open(kilobytes: u64, system_calls: bool) -> Result<Self> {
        Self::of(kilobytes, |tracefs| {
            let has = |event: &str| tracefs.has_event(event);
            let selection = selection::flight_recorder(has)?;
            Ok(if system_calls { selection::with_system_calls(selection, &COMMS, has) } else { selection })
        })
    }

    /// Makes one for a selection of one's own.
    ///
    /// # Errors
    /// As [`Recorder::open`].
    pub(crate) fn of(
        kilobytes: u64,
        select: impl FnOnce(&Tracefs) -> tracefs::Result<Selection>,
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
