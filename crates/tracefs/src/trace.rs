//! A recording that has been read: all CPUs' events in chronological order, and the losses.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Event;
use crate::fields::{Others, Value};
use crate::format::Format;
use crate::name::Names;
use crate::packed::Packed;

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
    /// The events before those, if there are so many that they are packed; see [`Trace::all`].
    pub packed: Packed,
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
    /// Names of threads and processes that the recorder noted; see [`Trace::threads`].
    pub comms: BTreeMap<u32, String>,
    /// The recorded events, `system/event`. Others were not recorded even if they occurred.
    pub recorded: Vec<String>,
    /// Those of the events with a format that occur, `system/event`.
    pub occurred: Vec<String>,
    /// The recording machine's architecture, as in `uname -m`. Determines the names of system
    /// calls.
    pub machine: String,
    /// The records of events without a decoded form; see [`Trace::field`].
    pub others: Others,
}

impl Trace {
    /// All events in chronological order, packed or not.
    pub fn all(&self) -> impl Iterator<Item = Event> {
        self.packed.iter().chain(self.events.iter().copied())
    }

    /// The number of all events.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.packed.len() + self.events.len()
    }

    /// From the first event to the last, in nanoseconds; 0 without events.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.all().next().zip(self.last_ns()).map_or(0, |(first, last_ns)| last_ns - first.time_ns)
    }

    /// The time of the last event, in nanoseconds.
    #[must_use]
    pub fn last_ns(&self) -> Option<u64> {
        self.events.last().map(|event| event.time_ns).or_else(|| self.packed.last_ns())
    }

    /// Gives each event a time in nanoseconds, and sorts the events by it. Those of the same time
    /// stay in their order.
    pub fn retime(&mut self, time_ns: impl Fn(&Event) -> u64) {
        let packed = std::mem::take(&mut self.packed);
        let later = std::mem::take(&mut self.events);
        let mut retimed = Packed::default();
        for event in packed.into_events().chain(later) {
            retimed.push(&Event { time_ns: time_ns(&event), ..event });
        }
        self.packed = retimed.sorted();
    }

    /// Unpacks the events, so that all are in [`Trace::events`].
    pub fn unpack(&mut self) {
        if !self.packed.is_empty() {
            let packed = std::mem::take(&mut self.packed);
            let later = std::mem::take(&mut self.events);
            self.events.reserve_exact(packed.len() + later.len());
            self.events.extend(packed.iter().chain(later));
        }
    }

    /// The CPUs with damaged pages. The kernel did not lose the events that are missing there.
    #[must_use]
    pub fn damaged(&self) -> BTreeSet<u32> {
        self.losses.iter().filter(|loss| loss.damaged).map(|loss| loss.cpu).collect()
    }

    /// Uses that nothing of these CPUs is missing before their first event, unless a loss says
    /// otherwise: a CPU that is idle at first has no events. So each is complete from the first
    /// event of any CPU on.
    pub fn begin_whole(&mut self, cpus: &BTreeSet<u32>) {
        let Some(begin_ns) = self.complete_from_ns.values().copied().min() else { return };
        for (cpu, from_ns) in &mut self.complete_from_ns {
            let lost = self.losses.iter().any(|loss| loss.cpu == *cpu && loss.after_ns == 0);
            if cpus.contains(cpu) && !lost {
                *from_ns = begin_ns;
            }
        }
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

    /// The number in a field of a [`Body::Other`](crate::Body::Other) event. `None` also if the
    /// field is no number.
    #[must_use]
    pub fn number(&self, event: &Event, name: &str) -> Option<u64> {
        self.field(event, name)?.number()
    }

    /// The format and the bytes of a [`Body::Other`](crate::Body::Other) event. `None` if the event
    /// has a decoded form or its format was not recorded.
    #[must_use]
    pub fn record(&self, event: &Event) -> Option<(&Format, &[u8])> {
        self.others.record(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_without_loss_is_complete_from_the_first_event_of_any_cpu_on() {
        let loss = Loss { cpu: 2, after_ns: 0, before_ns: 900, events: None, damaged: false };
        let complete_from_ns = [(0, 100), (1, 700), (2, 900), (3, 800)].into();
        let mut trace = Trace { complete_from_ns, losses: vec![loss], ..Trace::default() };
        trace.begin_whole(&[0, 1, 2].into());
        assert_eq!(trace.complete_from_ns, [(0, 100), (1, 100), (2, 900), (3, 800)].into());
    }
}
