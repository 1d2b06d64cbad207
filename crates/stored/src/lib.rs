//! What is stored or sent as JSON, to text and back: one writer and one reader for every type.
//!
//! serde compiles a type's code once for each reader and each writer that it is used with. All that
//! is stored therefore goes through the few functions here, and the reader is made to be small:
//! structs are only ever read from objects, and whatever does not depend on the type is compiled
//! once. It also says where in the text something is wrong. This crate knows no type
//! that is stored, and no file.

mod error;
mod reader;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::Error;
pub use serde_json::Value;

/// A value as compact JSON text. Numbers that are none (`f64::NAN`) become `null`.
///
/// # Errors
/// [`Error`] for what JSON cannot hold: maps whose keys are neither text nor numbers.
pub fn to_text(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::of_text)
}

/// A value as JSON that can be looked into, or put into something else.
///
/// # Errors
/// As [`to_text`].
pub fn to_value(value: &impl Serialize) -> Result<Value, Error> {
    parse(to_text(value)?.as_bytes())
}

/// JSON text as a value that can be looked into.
///
/// # Errors
/// [`Error`] for what is not JSON, with line and column; [`Error::is_cut_off`] tells when it only
/// ends too early.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).map_err(Error::of_text)
}

/// What a JSON value stands for.
///
/// # Errors
/// [`Error`] for what is no `T`, with the place: `results.latency.plan: missing field ...`.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(reader::Reader(value))
}

/// What JSON text stands for: [`parse`], then [`read`].
///
/// # Errors
/// Those of both.
pub fn read_text<T: DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    read(&parse(text)?)
}
