//! A recording that has been read: all CPUs' events in the order of time, and what was lost.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::fields::{Others, Value};
use crate::format::Format;
use crate::name::Names;

/// Events that the kernel, or a damaged page, did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// On which CPU.
    pub cpu: u32,
    /// The last instant known to be complete before it, in nanoseconds; 0 where recording began
    /// with it.
    pub after_ns: u64,
    /// The first instant known to be complete again; [`u64::MAX`] if there is none.
    pub before_ns: u64,
    /// How many events, where the kernel has counted.
    pub events: Option<u64>,
    /// Whether the bytes were damaged, rather than overwritten.
    pub damaged: bool,
}

/// What a recording says.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of time; of one instant, in the order of the CPUs.
    pub events: Vec<Event>,
    /// Gaps. Nothing that spans one may be taken as known.
    pub losses: Vec<Loss>,
    /// Texts.
    pub names: Names,
    /// From when on each CPU's events are complete, by CPU: in overwrite mode each buffer reaches
    /// back differently far.
    pub complete_from_ns: BTreeMap<u32, u64>,
    /// When recording stopped, in nanoseconds: no event follows. `None` when it was not stopped
    /// before it was read.
    pub stopped_ns: Option<u64>,
    /// The process of each known thread (from `saved_tgids`, or noted while recording).
    pub processes: BTreeMap<u32, u32>,
    /// The events that were recorded, `system/event`: what is not here cannot have been seen.
    pub recorded: Vec<String>,
    /// The recording machine's architecture, as `uname -m` says it: names system calls.
    pub machine: String,
    /// The records of the events that have no decoded form; see [`Trace::field`].
    pub others: Others,
}

impl Trace {
    /// The CPUs of which pages are damaged: what they held is missing, and is no loss of the
    /// kernel's.
    #[must_use]
    pub fn damaged(&self) -> BTreeSet<u32> {
        self.losses.iter().filter(|loss| loss.damaged).map(|loss| loss.cpu).collect()
    }

    /// Whether events of this kind (`system/event`) were recorded at all.
    #[must_use]
    pub fn has(&self, event: &str) -> bool {
        self.recorded.iter().any(|recorded| recorded == event)
    }

    /// A field of a [`Body::Other`](crate::Body::Other) event, by the name that its format has for
    /// it. `None` if the event has a decoded form, its format has no such field, or the record
    /// ends before it.
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
