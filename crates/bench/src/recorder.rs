//! The flight recorder of a run: the kernel's scheduler events in a trace instance of its own. Must not know what it waits
//! for, nor what its recordings say.

use serde::{Deserialize, Serialize};
use tracefs::{Instance, Selection, Tracefs};

use crate::error::{Error, Result};

/// The size of each CPU's buffer, in kilobytes, where nothing else is asked for. Calls that follow each other without a
/// pause fill about 100 MB in a second, and so this goes back 40 ms at least; for most of what is measured, seconds.
pub const DEFAULT_KILOBYTES: u64 = 4096;

/// How threads are called whose system calls are recorded: clients, and the loopers of servers.
const COMMS: [&str; 2] = ["client-*", "looper-*"];

/// What a recorder records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderInfo {
    /// The events, `system/event`.
    pub events: Vec<String>,
    /// Events that would have told more, and that this kernel does not have.
    pub missing: Vec<String>,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}

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
    /// [`Error::Trace`] where this process may not, or the kernel refuses; [`Error::Plan`] where calls cannot be placed in
    /// its recordings.
    pub(crate) fn open(kilobytes: u64, system_calls: bool) -> Result<Recorder> {
        Recorder::of(kilobytes, |tracefs| {
            let has = |event: &str| tracefs.has_event(event);
            let selection = Selection::flight_recorder(has)?;
            Ok(if system_calls { selection.with_system_calls(&COMMS, has) } else { selection })
        })
    }

    /// Makes one for a selection of one's own.
    ///
    /// # Errors
    /// As [`Recorder::open`].
    pub(crate) fn of(
        kilobytes: u64,
        select: impl FnOnce(&Tracefs) -> tracefs::Result<Selection>,
    ) -> Result<Recorder> {
        let tracefs = Tracefs::open()?;
        let selection = select(&tracefs)?;
        let instance = Instance::create(&tracefs, &selection, kilobytes)?;
        if instance.clock() != "boot" {
            return Err(Error::Plan(format!(
                "the kernel's trace has no clock 'boot', only '{}': calls cannot be found in it; it needs Linux 4.10",
                instance.clock()
            )));
        }
        Ok(Recorder { instance, tracefs, kilobytes })
    }

    pub(crate) fn info(&self) -> RecorderInfo {
        RecorderInfo {
            events: self.instance.events().to_vec(),
            missing: self.instance.missing().to_vec(),
            kilobytes: self.kilobytes,
        }
    }
}
