//! Converts records to events. Each group of events has a file here that turns a format into a
//! [`Reader`], a function that contains the fields' offsets. If a kernel's format lacks a field or
//! has another type, the event becomes [`Body::Other`]; nothing is guessed.
//!
//! A new kind of event is one arm in one group. Must not know pages, nor what events are used for.

mod binder;
mod irq;
mod kernel;
mod power;
mod sched;
pub(crate) mod slots;
mod syscalls;
mod texts;

use crate::error::Error;
use crate::event::{Body, Event};
use crate::format::Format;
use crate::formats::Formats;
use crate::name::{Name, Names};
use crate::page::{Damaged, Record};
use slots::Number;
use texts::Texts;

/// Reads the records of one kind of event; `None` for a record shorter than its fields.
type Reader = Box<dyn Fn(&[u8], &mut Texts<'_>) -> Option<Body>>;

/// The reader for a format, from the group that knows the event.
fn reader(format: &Format, names: &mut Names) -> Option<Reader> {
    sched::reader(format)
        .or_else(|| irq::reader(format, names))
        .or_else(|| power::reader(format))
        .or_else(|| syscalls::reader(format))
        .or_else(|| kernel::reader(format))
        .or_else(|| binder::reader(format))
}

/// What is known about one event id.
struct Known {
    event: Name,
    tid: Number,
    reader: Option<Reader>,
    /// Whether it has occurred.
    seen: bool,
}

/// Converts records to events.
pub(crate) struct Decoder<'a> {
    /// By event id.
    known: Vec<Option<Known>>,
    texts: Texts<'a>,
    /// The bytes of events that are not decoded.
    other: &'a mut Vec<u8>,
    /// The memory of names and bytes when it was last asked for, in bytes.
    known_bytes: usize,
}

/// Why a record did not become an event.
pub(crate) enum Refused {
    Damaged,
    Error(Error),
}

impl From<Damaged> for Refused {
    fn from(Damaged: Damaged) -> Self {
        Self::Damaged
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(formats: &'a Formats, names: &'a mut Names, other: &'a mut Vec<u8>) -> Self {
        let mut known: Vec<Option<Known>> = Vec::new();
        // Sorted by id, so that names are numbered the same way each time a recording is read.
        let mut all: Vec<&Format> = formats.iter().collect();
        all.sort_by_key(|format| format.id);
        for format in all {
            let id = usize::from(format.id);
            known.resize_with(id + 1, || None);
            let event = names.intern(&format!("{}/{}", format.system, format.name));
            let tid = Number::of(format, "common_pid").unwrap_or(COMMON_PID);
            known[id] = Some(Known { event, tid, reader: reader(format, names), seen: false });
        }
        Self { known, texts: Texts::new(names, formats), other, known_bytes: 0 }
    }

    /// Converts one record.
    #[inline]
    pub(crate) fn decode(&mut self, cpu: u32, record: Record<'_>) -> Result<Event, Refused> {
        let data = record.data;
        let id = u16::from_le_bytes(data.get(..2).and_then(|id| id.try_into().ok()).ok_or(Damaged)?);
        let Some(Some(known)) = self.known.get_mut(usize::from(id)) else {
            return self.unknown(cpu, record, id);
        };
        known.seen = true;
        let tid = known.tid.u32(data).ok_or(Damaged)?;
        let body = match &known.reader {
            Some(read) => read(data, &mut self.texts).ok_or(Damaged)?,
            None => {
                let event = known.event;
                self.keep(event, data)?
            }
        };
        Ok(Event { time_ns: record.time_ns, cpu, tid, body })
    }

    /// How much memory names and bytes take that are new since the last call, in bytes.
    #[inline]
    pub(crate) fn grown_bytes(&mut self) -> usize {
        let bytes = self.texts.names.memory_bytes() + self.other.len();
        bytes - std::mem::replace(&mut self.known_bytes, bytes)
    }

    /// The events that have occurred.
    pub(crate) fn occurred(&self) -> Vec<Name> {
        self.known.iter().flatten().filter(|known| known.seen).map(|known| known.event).collect()
    }

    /// An event whose format was not recorded. It is kept, and named by its id.
    #[cold]
    fn unknown(&mut self, cpu: u32, record: Record<'_>, id: u16) -> Result<Event, Refused> {
        let tid = COMMON_PID.u32(record.data).ok_or(Damaged)?;
        let event = self.texts.names.intern(&format!("unknown/{id}"));
        Ok(Event { time_ns: record.time_ns, cpu, tid, body: self.keep(event, record.data)? })
    }

    fn keep(&mut self, event: Name, data: &[u8]) -> Result<Body, Refused> {
        let at = u32::try_from(self.other.len()).map_err(|_| Refused::Error(Error::TooLarge))?;
        let length = u32::try_from(data.len()).map_err(|_| Damaged)?;
        self.other.extend_from_slice(data);
        Ok(Body::Other { event, at, length })
    }
}

/// The location of the thread id, the same in every event of every kernel so far.
const COMMON_PID: Number = Number::new(4, 4, true);
