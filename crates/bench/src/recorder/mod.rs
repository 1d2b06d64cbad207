//! A run's flight recorder: scheduler events in a private trace instance. Must not know what it
//! waits for, nor what its recordings show.

pub mod selection;

use std::cell::Cell;

use roundtrip_tracefs::{Instance, Selection, Tracefs};

use crate::clock::now_ns;
use crate::conditions;
use crate::error::{Error, Result};
use crate::guard::Guard;
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
    /// Until when another program had certainly changed nothing.
    unchanged_ns: Cell<u64>,
    /// Removes the instance if this process is killed. Dropped after it.
    _guard: Option<Guard>,
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
        let unchanged_ns = Cell::new(now_ns());
        let tracefs = Tracefs::open()?;
        let selection = select(&tracefs)?;
        let guard = Guard::start();
        let instance = Instance::create(&tracefs, &selection, kilobytes)?;
        if instance.clock() != "boot" {
            return Err(Error::TraceClock { clock: instance.clock().to_owned() });
        }
        Ok(Self { instance, tracefs, kilobytes, unchanged_ns, _guard: guard })
    }

    /// What another program has done to the recording since it was last asked, with the time, in
    /// words; `None` if nothing. With `is_on`, the recorder must be on.
    pub(crate) fn changed(&self, is_on: bool) -> Option<String> {
        let now_ns = now_ns();
        let Some(what) = self.instance.changed(is_on) else {
            self.unchanged_ns.set(now_ns);
            return None;
        };
        Some(without_events(&what, [self.unchanged_ns.get(), now_ns]))
    }

    pub(crate) fn info(&self) -> RecorderInfo {
        RecorderInfo {
            events: self.instance.events().to_vec(),
            missing: self.instance.missing().to_vec(),
            kilobytes: self.kilobytes,
        }
    }
}

/// The line about what another program did to a recording within a span of time.
pub(crate) fn without_events(what: &str, span_ns: [u64; 2]) -> String {
    let [from_s, to_s] = span_ns.map(|ns| conditions::since_begin_ns(ns) as f64 / 1e9);
    format!("{what} between {from_s:.1} s and {to_s:.1} s, so that events are missing")
}
