//! [`Json`]: a value inside another, to be read later.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Error, JSON, read_text, to_text};

/// A value of any type, as a part of a stored or sent one. Only this crate reads it.
#[derive(Debug, Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// A value's JSON.
    ///
    /// # Errors
    /// Those of [`to_text`].
    pub fn of(value: &impl Serialize) -> Result<Self, Error> {
        RawValue::from_string(to_text(value)?).map(Self).map_err(Error::of_text)
    }

    /// Applies `edit` to the value's text. Returns the value unchanged if the result is not JSON.
    #[must_use]
    pub fn edited(&self, edit: impl FnOnce(&str) -> String) -> Self {
        RawValue::from_string(edit(self.0.get())).map_or_else(|_| self.clone(), Self)
    }

    /// The value.
    ///
    /// # Errors
    /// Those of [`read_text`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        read_text(self.0.get().as_bytes())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(JSON, Text)
    }
}

/// Receives the text of a value.
struct Text;

impl Visitor<'_> for Text {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a JSON value")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Json, E> {
        RawValue::from_string(text.to_owned()).map(Json).map_err(E::custom)
    }
}
