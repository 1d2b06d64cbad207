//! The reader: presents a JSON tree to serde. It accepts what `serde_json::from_value` accepts,
//! except arrays for structs and struct variants. Nothing writes that form, and without it the
//! generated code of a type is half as large.

use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer as _, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Number, Value, map};

use crate::Error;

type Result<T> = std::result::Result<T, Error>;

/// A value to read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a Value);

impl Reader<'_> {
    /// The error for a value of an unexpected kind.
    #[cold]
    fn mismatch(self, expected: &dyn Expected) -> Error {
        let found = match self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match whole(number) {
                Whole::Positive(value) => Unexpected::Unsigned(value),
                Whole::Negative(value) => Unexpected::Signed(value),
                Whole::No(value) => Unexpected::Float(value),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }
}

/// A number in the form that visitors receive.
enum Whole {
    Positive(u64),
    Negative(i64),
    No(f64),
}

fn whole(number: &Number) -> Whole {
    match (number.as_u64(), number.as_i64()) {
        (Some(value), _) => Whole::Positive(value),
        (None, Some(value)) => Whole::Negative(value),
        // Every other number is an f64, because serde_json's arbitrary precision is off.
        (None, None) => Whole::No(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value> {
    match whole(number) {
        Whole::Positive(value) => visitor.visit_u64(value),
        Whole::Negative(value) => visitor.visit_i64(value),
        Whole::No(value) => visitor.visit_f64(value),
    }
}

fn visit_array<'de, V: Visitor<'de>>(items: &'de [Value], visitor: V) -> Result<V::Value> {
    let mut rest = Items { items, taken: 0 };
    let value = visitor.visit_seq(&mut rest)?;
    rest.end()?;
    Ok(value)
}

fn visit_object<'de, V: Visitor<'de>>(object: &'de map::Map<String, Value>, visitor: V) -> Result<V::Value> {
    visitor.visit_map(Entries { rest: object.iter(), current: None })
}

/// Methods that each accept one kind of JSON value.
macro_rules! only {
    ($pattern:pat => $visit:expr, $visitor:ident: $($method:ident($($argument:ident: $type:ty),*))+) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* $visitor: V) -> Result<V::Value> {
            $(let _ = $argument;)*
            match self.0 {
                $pattern => $visit,
                _ => Err(self.mismatch(&$visitor)),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => visit_number(number, visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(items) => visit_array(items, visitor),
            Value::Object(object) => visit_object(object, visitor),
        }
    }

    only! { Value::Null => visitor.visit_unit(), visitor:
    deserialize_unit() deserialize_unit_struct(name: &'static str) }
    only! { Value::Bool(value) => visitor.visit_bool(*value), visitor: deserialize_bool() }
    only! { Value::Number(number) => visit_number(number, visitor), visitor:
    deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
    deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
    deserialize_f32() deserialize_f64() }
    only! { Value::String(text) => visitor.visit_str(text), visitor:
    deserialize_char() deserialize_str() deserialize_string() deserialize_identifier() }
    only! { Value::Array(items) => visit_array(items, visitor), visitor:
    deserialize_seq() deserialize_tuple(length: usize)
    deserialize_tuple_struct(name: &'static str, length: usize) }
    only! { Value::Object(object) => visit_object(object, visitor), visitor:
    deserialize_map() deserialize_struct(name: &'static str, fields: &'static [&'static str]) }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Array(items) => visit_array(items, visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
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
        visitor.visit_unit()
    }
}

/// The unread items of an array.
struct Items<'a> {
    items: &'a [Value],
    taken: usize,
}

impl<'a> Items<'a> {
    fn take(&mut self) -> Option<Reader<'a>> {
        let item = self.items.get(self.taken)?;
        self.taken += 1;
        Some(Reader(item))
    }

    /// Fails if unread items are left.
    fn end(&self) -> Result<()> {
        match self.taken == self.items.len() {
            true => Ok(()),
            false => Err(Error::invalid_length(self.items.len(), &"fewer elements in array")),
        }
    }

    #[cold]
    fn inside(&self, error: Error) -> Error {
        error.inside(&format_args!("[{}]", self.taken - 1))
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.take() {
            Some(item) => seed.deserialize(item).map(Some).map_err(|error| self.inside(error)),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.taken)
    }
}

/// The unread entries of an object.
struct Entries<'a> {
    rest: map::Iter<'a>,
    /// The value whose key was read last.
    current: Option<(&'a str, &'a Value)>,
}

impl<'a> Entries<'a> {
    fn take(&mut self) -> Option<Key<'a>> {
        let (key, value) = self.rest.next()?;
        self.current = Some((key, value));
        Some(Key(key))
    }

    fn value(&self) -> Result<Reader<'a>> {
        match self.current {
            Some((_, value)) => Ok(Reader(value)),
            None => Err(Error::new("a value was asked for before its key".to_owned())),
        }
    }

    #[cold]
    fn inside(&self, error: Error) -> Error {
        let key = self.current.map_or("", |(key, _)| key);
        error.inside(&format_args!(".{key}"))
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.take() {
            Some(key) => seed.deserialize(key).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.value()?).map_err(|error| self.inside(error))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// An object's key: text, which may represent a number or a variant's name.
struct Key<'a>(&'a str);

impl Key<'_> {
    /// Reads a key that is an integer in JSON's notation.
    fn visit_number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let plain = |number: &dyn Display| number.to_string() == self.0;
        match (self.0.parse::<u64>(), self.0.parse::<i64>()) {
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

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    number_keys! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.0)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(Variant { name: self.0, content: None })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// A variant of an enum: its name, alone or as the only key of an object.
struct Variant<'a> {
    name: &'a str,
    content: Option<Reader<'a>>,
}

impl<'a> Variant<'a> {
    fn of(value: Reader<'a>) -> Result<Self> {
        match value.0 {
            Value::String(name) => Ok(Variant { name, content: None }),
            Value::Object(object) => match object.iter().next() {
                Some((name, content)) if object.len() == 1 => {
                    Ok(Variant { name, content: Some(Reader(content)) })
                }
                _ => Err(Error::invalid_value(Unexpected::Map, &"map with a single key")),
            },
            _ => Err(value.mismatch(&"string or map")),
        }
    }

    fn content(&self, expected: &'static str) -> Result<Reader<'a>> {
        self.content.ok_or_else(|| Error::invalid_type(Unexpected::UnitVariant, &expected))
    }

    #[cold]
    fn inside(&self, error: Error) -> Error {
        error.inside(&format_args!(".{}", self.name))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        match self.content {
            None | Some(Reader(Value::Null)) => Ok(()),
            Some(other) => Err(self.inside(other.mismatch(&"unit"))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.content("newtype variant")?).map_err(|error| self.inside(error))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value> {
        let content = self.content("tuple variant")?;
        content.deserialize_tuple(length, visitor).map_err(|error| self.inside(error))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let content = self.content("struct variant")?;
        content.deserialize_struct("", fields, visitor).map_err(|error| self.inside(error))
    }
}
