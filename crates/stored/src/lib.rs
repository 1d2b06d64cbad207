//! Converts values that are stored or sent to JSON and back, with one writer and one reader for all
//! types.
//!
//! serde generates a type's code once per reader and writer, so all stored data goes through the
//! few functions here. To keep the generated code small, the reader reads structs only from
//! objects, and code that does not depend on the type is compiled once. Errors name the place in
//! the data. What reading may cost is limited, see [`Budget`].
//! This crate must not know the stored types, nor where their text comes from.

mod error;
mod json;
mod reader;
mod text;

use std::borrow::Cow;

use reader::{Context, Reader};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use text::Text;

pub use error::Error;
pub use json::Json;
pub use roundtrip_files::Budget;

/// The name under which the reader recognises a [`Json`].
const JSON: &str = "$roundtrip::Json";

/// What says which kind of text this is. Both are null where the text says nothing.
#[derive(Debug, Default, Deserialize)]
pub struct Form {
    /// The kind's name.
    #[serde(default)]
    pub schema: Value,
    /// The version of the kind's layout.
    #[serde(default)]
    pub version: Value,
}

/// Converts a value to compact JSON text. Numbers that are not finite (`f64::NAN`) become `null`.
///
/// # Errors
/// If JSON cannot represent the value: a map's keys must be text or numbers.
pub fn to_text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::of_text)
}

/// The memory for what a text contains, in bytes.
pub const MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Converts JSON text to a `T` that takes at most [`MAX_MEMORY_BYTES`].
///
/// # Errors
/// If it is not JSON, with line and column; [`Error::is_cut_off`] says if it only ends too early.
/// If it is not a `T`, with the place: `results.latency.plan: missing field ...`. If it takes more
/// than the budget.
pub fn read_text<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    read_within(text, |text| Cow::Borrowed(text), Budget::new(MAX_MEMORY_BYTES, u64::MAX, u64::MAX))
}

/// Like [`read_text`], with `shown` of each string in its place, also of the keys, and with a
/// budget of the caller's own.
///
/// # Errors
/// Those of [`read_text`].
pub fn read_within<T: DeserializeOwned>(
    text: &[u8],
    shown: for<'a> fn(&'a str) -> Cow<'a, str>,
    budget: Budget,
) -> Result<T, Error> {
    let context = Context { text: Text::of(text)?, budget, shown };
    T::deserialize(Reader::new(&context))
}
