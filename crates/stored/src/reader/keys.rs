//! The keys of objects.

use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, IntoDeserializer as _, Visitor};
use serde::forward_to_deserialize_any;

use super::{Context, Result};
use crate::Error;

/// An object's key: text, which may represent a number or a variant's name.
pub(super) struct Key<'k, 'a> {
    pub(super) text: &'k str,
    pub(super) context: &'k Context<'a>,
}

impl Key<'_, '_> {
    /// Reads a key that is an integer in JSON's notation.
    fn visit_number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let plain = |number: &dyn Display| number.to_string() == self.text;
        match (self.text.parse::<u64>(), self.text.parse::<i64>()) {
            (Ok(number), _) if plain(&number) => visitor.visit_u64(number),
            (_, Ok(number)) if plain(&number) => visitor.visit_i64(number),
            _ => Err(Error::new("invalid value: expected key to be a number in quotes".to_owned())),
        }
    }
}

/// Methods for keys that are numbers.
macro_rules! number_keys {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            self.visit_number(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for Key<'_, '_> {
    type Error = Error;

    number_keys! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.context.keep_string(self.text)?;
        visitor.visit_str(self.text)
    }

    /// A field's name, which is not kept.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.text)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let name: StrDeserializer<'_, Error> = self.text.into_deserializer();
        visitor.visit_enum(name)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        ignored_any
    }
}
