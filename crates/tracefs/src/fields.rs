//! Access by name to fields of events without a decoded form.

use std::borrow::Cow;

use crate::decode::slots::{Bytes, Number};
use crate::event::{Body, Event};
use crate::format::{Format, Kind};
use crate::formats::Formats;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer, or an address.
    Unsigned(u64),
    /// Text up to the first zero. Invalid UTF-8 is replaced.
    Text(Cow<'a, str>),
    /// An array or a structure, in the memory layout of the recording machine.
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// An integer; a negative one keeps its bits. `None` for text and bytes.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Signed(value) => Some(value.cast_unsigned()),
            Self::Unsigned(value) => Some(*value),
            Self::Text(_) | Self::Bytes(_) => None,
        }
    }

    /// Text; `None` for anything else.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The records of a trace's [`Body::Other`] events, and the formats that describe them.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub(crate) formats: Formats,
    pub(crate) bytes: Vec<u8>,
}

impl Others {
    /// An empty store for records of these formats.
    #[must_use]
    pub fn new(formats: Formats) -> Self {
        Self { formats, bytes: Vec::new() }
    }

    /// Stores a record, which begins with its format's id. Returns its position and length for
    /// [`Body::Other`]; `None` if the store is full.
    pub fn add(&mut self, record: &[u8]) -> Option<(u32, u32)> {
        let place = (u32::try_from(self.bytes.len()).ok()?, u32::try_from(record.len()).ok()?);
        u32::try_from(self.bytes.len() + record.len()).ok()?;
        self.bytes.extend_from_slice(record);
        Some(place)
    }

    /// The bytes of a [`Body::Other`]; empty if it does not belong to this trace.
    #[must_use]
    pub fn bytes(&self, at: u32, length: u32) -> &[u8] {
        self.bytes.get(at as usize..).and_then(|rest| rest.get(..length as usize)).unwrap_or_default()
    }

    pub(crate) fn field(&self, event: &Event, name: &str) -> Option<Value<'_>> {
        let (format, record) = self.record(event)?;
        let field = format.field(name)?;
        match field.kind {
            Kind::Number => {
                let value = Number::from(field)?.u64(record)?;
                Some(if field.signed { Value::Signed(value.cast_signed()) } else { Value::Unsigned(value) })
            }
            Kind::Text => {
                let bytes = Bytes::from(field).get(record)?;
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                Some(Value::Text(String::from_utf8_lossy(&bytes[..end])))
            }
            Kind::Bytes => Some(Value::Bytes(Bytes::from(field).get(record)?)),
        }
    }

    pub(crate) fn record(&self, event: &Event) -> Option<(&Format, &[u8])> {
        let Body::Other { at, length, .. } = event.body else { return None };
        let record = self.bytes(at, length);
        let id = u16::from_le_bytes(*record.first_chunk()?);
        Some((self.formats.by_id(id)?, record))
    }
}
