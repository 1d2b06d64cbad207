//! Converts values that are stored or sent to JSON and back, with one writer and one reader for all
//! types.
//!
//! serde generates a type's code once per reader and writer, so all stored data goes through the
//! few functions here. To keep the generated code small, the reader reads structs only from
//! objects, and code that does not depend on the type is compiled once. Errors name the place in
//! the data.
//! This crate must not know the stored types, nor files.

mod error;
mod reader;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::Error;
pub use serde_json::Value;

/// Converts a value to compact JSON text. Numbers that are not finite (`f64::NAN`) become `null`.
///
/// # Errors
/// If JSON cannot represent the value: a map's keys must be text or numbers.
pub fn to_text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::of_text)
}

/// Converts a value to a JSON tree.
///
/// # Errors
/// Those of [`to_text`].
pub fn to_value(value: &impl Serialize) -> Result<Value, Error> {
    parse(to_text(value)?.as_bytes())
}

/// Parses JSON text into a tree.
///
/// # Errors
/// If the text is not JSON, with line and column. [`Error::is_cut_off`] says if it only ends too
/// early.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).map_err(Error::of_text)
}

/// Converts a JSON tree to a `T`.
///
/// # Errors
/// If it is not a `T`, with the place: `results.latency.plan: missing field ...`.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(reader::Reader(value))
}

/// Converts JSON text to a `T`: [`parse`], then [`read`].
///
/// # Errors
/// Those of both.
pub fn read_text<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    read(&parse(text)?)
}
