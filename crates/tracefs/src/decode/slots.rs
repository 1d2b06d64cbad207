//! The precomputed location of one value in a record. To read the value then takes only a bounds
//! check and a load.

use super::texts::Texts;
use crate::event::ThreadRef;
use crate::format::{Field, Format, Kind, Place};
use crate::name::Name;

/// An integer of 1, 2, 4 or 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    at: usize,
    size: usize,
    signed: bool,
}

impl Number {
    pub(crate) const fn new(at: usize, size: usize, signed: bool) -> Self {
        Self { at, size, signed }
    }

    /// A numeric field; `None` if the event has no field of this name, or it has another type.
    pub(crate) fn of(format: &Format, name: &str) -> Option<Self> {
        Self::from(format.field(name)?)
    }

    pub(crate) fn from(field: &Field) -> Option<Self> {
        (field.kind == Kind::Number && field.place == Place::Fixed)
            .then(|| Self::new(field.offset, field.size, field.signed))
    }

    /// Its value, sign- or zero-extended to 64 bits as its type requires.
    #[inline]
    pub(crate) fn u64(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.at..)?;
        if self.size == 4 {
            let word = u32::from_le_bytes(*bytes.first_chunk()?);
            return Some(if self.signed {
                i64::from(word.cast_signed()).cast_unsigned()
            } else {
                u64::from(word)
            });
        }
        Some(match (self.size, self.signed) {
            (8, _) => u64::from_le_bytes(*bytes.first_chunk()?),
            (2, false) => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            (2, true) => i64::from(i16::from_le_bytes(*bytes.first_chunk()?)).cast_unsigned(),
            (1, false) => u64::from(*bytes.first()?),
            (1, true) => i64::from(bytes.first()?.cast_signed()).cast_unsigned(),
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn i64(self, record: &[u8]) -> Option<i64> {
        self.u64(record).map(u64::cast_signed)
    }

    /// Its low 32 bits.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the fields that are read so have 32 bits or fewer that matter"
    )]
    pub(crate) fn u32(self, record: &[u8]) -> Option<u32> {
        self.u64(record).map(|value| value as u32)
    }

    #[inline]
    pub(crate) fn i32(self, record: &[u8]) -> Option<i32> {
        self.u32(record).map(u32::cast_signed)
    }
}

/// A sequence of bytes, wherever the field locates it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    at: usize,
    size: usize,
    place: Place,
}

impl Bytes {
    pub(crate) fn of(format: &Format, name: &str) -> Option<Self> {
        Some(Self::from(format.field(name)?))
    }

    pub(crate) fn from(field: &Field) -> Self {
        Self { at: field.offset, size: field.size, place: field.place }
    }

    #[inline]
    pub(crate) fn get(self, record: &[u8]) -> Option<&[u8]> {
        match self.place {
            Place::Fixed => record.get(self.at..self.at.checked_add(self.size)?),
            Place::Tail => record.get(self.at..),
            Place::DataLoc | Place::RelLoc => {
                let word = u32::from_le_bytes(*record.get(self.at..)?.first_chunk()?);
                let (offset, length) = ((word & 0xffff) as usize, (word >> 16) as usize);
                let begin = if self.place == Place::RelLoc { self.at + 4 + offset } else { offset };
                record.get(begin..begin + length)
            }
        }
    }
}

/// Text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(Bytes);

impl Text {
    pub(crate) fn of(format: &Format, name: &str) -> Option<Self> {
        let field = format.field(name)?;
        (field.kind == Kind::Text).then(|| Self(Bytes::from(field)))
    }

    #[inline]
    pub(crate) fn name(self, record: &[u8], texts: &mut Texts<'_>) -> Option<Name> {
        let bytes = self.0.get(record)?;
        Some(match bytes.first_chunk::<16>() {
            Some(comm) if bytes.len() == 16 => texts.comm(comm),
            _ => texts.text(bytes),
        })
    }
}

/// A thread in the form of the scheduler's events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    tid: Number,
    prio: Number,
    comm: Text,
}

impl Thread {
    pub(crate) fn of(format: &Format, prefix: &str) -> Option<Self> {
        Some(Self {
            tid: Number::of(format, &format!("{prefix}pid"))?,
            prio: Number::of(format, &format!("{prefix}prio"))?,
            comm: Text::of(format, &format!("{prefix}comm"))?,
        })
    }

    #[inline]
    pub(crate) fn get(self, record: &[u8], texts: &mut Texts<'_>) -> Option<ThreadRef> {
        Some(ThreadRef {
            tid: self.tid.u32(record)?,
            prio: self.prio.i32(record)?,
            comm: self.comm.name(record, texts)?,
        })
    }
}
