//! A recording that has been read: all CPUs' events in chronological order, and the losses.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::fields::{Others, Value};
use crate::format::Format;
use crate::name::Names;

/// Events that the kernel dropped or that a damaged page lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The CPU.
    pub cpu: u32,
    /// The last instant before the loss that is known to be complete, in nanoseconds; 0 if
    /// recording started with the loss.
    pub after_ns: u64,
    /// The first instant after the loss that is known to be complete; [`u64::MAX`] if there is
    /// none.
    pub before_ns: u64,
    /// How many events, if the kernel counted them.
    pub events: Option<u64>,
    /// Whether bytes were damaged, rather than overwritten.
    pub damaged: bool,
}

/// The contents of a recording.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In chronological order; events of the same time by CPU.
    pub events: Vec<Event>,
    /// Losses. Nothing that spans one is certain.
    pub losses: Vec<Loss>,
    /// The strings.
    pub names: Names,
    /// From when on each CPU's events are complete, by CPU. In overwrite mode, buffers reach back
    /// to different times.
    pub complete_from_ns: BTreeMap<u32, u64>,
    /// When recording stopped, in nanoseconds: no event is later. `None` if it was not stopped
    /// before it was read.
    pub stopped_ns: Option<u64>,
    /// The process of each known thread (from `saved_tgids`, or noted while recording).
    pub processes: BTreeMap<u32, u32>,
    /// The recorded events, `system/event`. Others were not recorded even if they occurred.
    pub recorded: Vec<String>,
    /// The recording machine's architecture, as in `uname -m`. Determines the names of system
    /// calls.
    pub machine: String,
    /// The records of events without a decoded form; see [`Trace::field`].
    pub others: Others,
}

impl Trace {
    /// The CPUs with damaged pages. The kernel did not lose the events that are missing there.
    #[must_use]
    pub fn damaged(&self) -> BTreeSet<u32> {
        self.losses.iter().filter(|loss| loss.damaged).map(|loss| loss.cpu).collect()
    }

    /// Whether events of this kind (`system/event`) were recorded.
    #[must_use]
    pub fn has(&self, event: &str) -> bool {
        self.recorded.iter().any(|recorded| recorded == event)
    }

    /// A field of a [`Body::Other`](crate::Body::Other) event, by its name in the format. `None` if
    /// the event has a decoded form, its format has no such field, or the record ends before the
    /// field.
    #[must_use]
    pub fn field(&self, event: &Event, name: &str) -> Option<Value<'_>> {
        self.others.field(event, name)
    }

    /// The format and the bytes of a [`Body::Other`](crate::Body::Other) event. `None` if the event
    /// has a decoded form or its format was not recorded.
    #[must_use]
    pub fn record(&self, event: &Event) -> Option<(&Format, &[u8])> {
        self.others.record(event)
    }
}
