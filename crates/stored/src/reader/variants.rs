//! Variants of enums.

use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer as _, EnumAccess, Error as _, IntoDeserializer as _, Unexpected,
    VariantAccess, Visitor,
};

use super::{Reader, Result};
use crate::Error;
use crate::text::Kind;

/// A variant of an enum: its name, alone or as the only key of an object.
pub(super) struct Variant<'a> {
    name: Cow<'a, str>,
    content: Option<Reader<'a>>,
}

impl<'a> Variant<'a> {
    pub(super) fn of(value: Reader<'a>) -> Result<Self> {
        let text = &value.context.text;
        match value.kind() {
            Kind::String => Ok(Variant { name: value.context.string()?, content: None }),
            Kind::Object => {
                let inside = value.enter()?;
                let single = text.ahead(|ahead| {
                    let has_one = !ahead.leave();
                    ahead.value();
                    ahead.value();
                    has_one && ahead.leave()
                });
                match single {
                    true => Ok(Variant { name: value.context.string()?, content: Some(inside) }),
                    false => Err(Error::invalid_value(Unexpected::Map, &"map with a single key")),
                }
            }
            _ => Err(value.mismatch(&"string or map")),
        }
    }

    fn content(&self, expected: &'static str) -> Result<Reader<'a>> {
        self.content.ok_or_else(|| Error::invalid_type(Unexpected::UnitVariant, &expected))
    }

    #[cold]
    fn place(&self, error: Error) -> Error {
        error.inside(&format_args!(".{}", self.name))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let name: StrDeserializer<'_, Error> = (*self.name).into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        let Some(content) = self.content else { return Ok(()) };
        match content.kind() {
            Kind::Null => content.context.text.value(),
            _ => return Err(self.place(content.mismatch(&"unit"))),
        };
        content.context.text.leave();
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        let content = self.content("newtype variant")?;
        let value = seed.deserialize(content).map_err(|error| self.place(error))?;
        content.context.text.leave();
        Ok(value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value> {
        let content = self.content("tuple variant")?;
        let value = content.deserialize_tuple(length, visitor).map_err(|error| self.place(error))?;
        content.context.text.leave();
        Ok(value)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let content = self.content("struct variant")?;
        let value = content.deserialize_struct("", fields, visitor).map_err(|error| self.place(error))?;
        content.context.text.leave();
        Ok(value)
    }
}
