//! The reader: presents JSON text to serde. It accepts what `serde_json::from_str` accepts, except
//! arrays for structs and struct variants. Nothing writes that form, and without it the generated
//! code of a type is half as large.
//!
//! The text is known to be JSON. It is read once, in order, so nothing is kept but what serde makes
//! of it, and that is charged to a [`Budget`].

mod inside;
mod keys;
mod variants;

use std::borrow::Cow;

use roundtrip_files::Budget;
use serde::de::{Deserializer, Error as _, Expected, Unexpected, Visitor};
use serde_json::Number;

use crate::text::{Kind, Text};
use crate::{Error, JSON};
use inside::{Entries, Items};
use variants::Variant;

type Result<T> = std::result::Result<T, Error>;

/// How deep values may be nested.
const MAX_DEPTH: u32 = 128;

/// What allocating a string takes beside its text, and the unit of allocations, in bytes.
const STRING_BYTES: usize = 16;

/// What all values of a text have in common.
pub(crate) struct Context<'a> {
    pub(crate) text: Text<'a>,
    pub(crate) budget: Budget,
    /// What is read in place of each string.
    pub(crate) shown: for<'b> fn(&'b str) -> Cow<'b, str>,
}

impl<'a> Context<'a> {
    /// Charges what serde makes of a value.
    fn keep(&self, bytes: usize) -> Result<()> {
        self.budget.memory(bytes).map_err(Error::exceeded)
    }

    /// Charges a string that serde makes.
    fn keep_string(&self, text: &str) -> Result<()> {
        self.keep((text.len() + STRING_BYTES).next_multiple_of(STRING_BYTES))
    }

    fn string(&self) -> Result<Cow<'a, str>> {
        Ok(match self.text.string()? {
            Cow::Borrowed(text) => (self.shown)(text),
            Cow::Owned(text) => Cow::Owned((self.shown)(&text).into_owned()),
        })
    }
}

/// The next value of the text.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    context: &'a Context<'a>,
    depth: u32,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Self { context, depth: 0 }
    }

    fn kind(self) -> Kind {
        self.context.text.kind()
    }

    /// The values inside this one.
    fn enter(self) -> Result<Self> {
        if self.depth == MAX_DEPTH {
            return Err(Error::new("values are nested too deeply".to_owned()));
        }
        self.context.text.enter();
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// The error for a value of an unexpected kind.
    #[cold]
    fn mismatch(self, expected: &dyn Expected) -> Error {
        let (kind, text) = (self.kind(), &self.context.text);
        let of = |found: Unexpected<'_>| Error::invalid_type(found, expected);
        match kind {
            Kind::Null => of(Unexpected::Unit),
            Kind::Bool => of(Unexpected::Bool(text.value() == "true")),
            Kind::Number => match whole(text.value()) {
                Ok(Whole::Positive(value)) => of(Unexpected::Unsigned(value)),
                Ok(Whole::Negative(value)) => of(Unexpected::Signed(value)),
                Ok(Whole::No(value)) => of(Unexpected::Float(value)),
                Err(error) => error,
            },
            Kind::String => match text.string() {
                Ok(text) => of(Unexpected::Str(&text)),
                Err(error) => error,
            },
            Kind::Array => of(Unexpected::Seq),
            Kind::Object => of(Unexpected::Map),
        }
    }

    fn visit_null<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.context.text.value();
        visitor.visit_unit()
    }

    fn visit_bool<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_bool(self.context.text.value() == "true")
    }

    fn visit_number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match whole(self.context.text.value())? {
            Whole::Positive(value) => visitor.visit_u64(value),
            Whole::Negative(value) => visitor.visit_i64(value),
            Whole::No(value) => visitor.visit_f64(value),
        }
    }

    fn visit_string<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let text = self.context.string()?;
        self.context.keep_string(&text)?;
        visitor.visit_str(&text)
    }

    fn visit_list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        self.visit_array(true, visitor)
    }

    fn visit_tuple<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        self.visit_array(false, visitor)
    }

    fn visit_array<V: Visitor<'a>>(self, kept: bool, visitor: V) -> Result<V::Value> {
        let mut items = Items { inside: self.enter()?, taken: 0, ended: false, kept };
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    fn visit_object<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_map(Entries { inside: self.enter()?, key: Cow::Borrowed("") })
    }
}

/// A number in the form that visitors receive.
enum Whole {
    Positive(u64),
    Negative(i64),
    No(f64),
}

fn whole(text: &str) -> Result<Whole> {
    if let Ok(value) = text.parse() {
        return Ok(Whole::Positive(value));
    }
    let number: Number = serde_json::from_str(text).map_err(Error::of_text)?;
    Ok(match number.as_i64() {
        Some(value) => Whole::Negative(value),
        // Every other number is an f64, because serde_json's arbitrary precision is off.
        None => Whole::No(number.as_f64().unwrap_or(f64::NAN)),
    })
}

/// Methods that each accept one kind of JSON value.
macro_rules! only {
    ($kind:ident => $visit:ident: $($method:ident($($argument:ident: $type:ty),*))+) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value> {
            $(let _ = $argument;)*
            match self.kind() {
                Kind::$kind => self.$visit(visitor),
                _ => Err(self.mismatch(&visitor)),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.kind() {
            Kind::Null => self.visit_null(visitor),
            Kind::Bool => self.visit_bool(visitor),
            Kind::Number => self.visit_number(visitor),
            Kind::String => self.visit_string(visitor),
            Kind::Array => self.visit_list(visitor),
            Kind::Object => self.visit_object(visitor),
        }
    }

    only! { Null => visit_null: deserialize_unit() deserialize_unit_struct(name: &'static str) }
    only! { Bool => visit_bool: deserialize_bool() }
    only! { Number => visit_number:
    deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
    deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
    deserialize_f32() deserialize_f64() }
    only! { String => visit_string:
    deserialize_char() deserialize_str() deserialize_string() deserialize_identifier() }
    only! { Array => visit_list: deserialize_seq() }
    only! { Array => visit_tuple:
    deserialize_tuple(length: usize) deserialize_tuple_struct(name: &'static str, length: usize) }
    only! { Object => visit_object:
    deserialize_map() deserialize_struct(name: &'static str, fields: &'static [&'static str]) }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.kind() {
            Kind::String => self.visit_string(visitor),
            Kind::Array => self.visit_list(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.kind() {
            Kind::Null => {
                self.context.text.value();
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        match name == JSON {
            true => visitor.visit_str(self.context.text.value()),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(Variant::of(self)?)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.visit_null(visitor)
    }
}
