//! [`Error`]: what is wrong with stored data, and the place in it.

use std::fmt::{self, Display};

use roundtrip_files::Exceeded;
use serde::de::{Expected, Unexpected};

/// Why a value could not be stored or read.
// Boxed to keep results small, because most functions only pass the error on.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    /// The place, from the outermost field: `.results.samples[3]`.
    place: String,
    problem: String,
    /// Whether the text is not JSON, and whether only because it ends too early.
    is_json: bool,
    cut_off: bool,
}

impl Error {
    #[cold]
    pub(crate) fn new(problem: String) -> Self {
        Self(Box::new(Inner { place: String::new(), problem, is_json: true, cut_off: false }))
    }

    /// The value asks for more than its text may cost.
    #[cold]
    pub(crate) fn exceeded(what: Exceeded) -> Self {
        Self::new(what.to_string())
    }

    /// The text is not JSON, or a value cannot be represented in JSON.
    #[cold]
    pub(crate) fn of_text(error: serde_json::Error) -> Self {
        let cut_off = error.is_eof();
        let is_json = error.is_data();
        Self(Box::new(Inner { place: String::new(), problem: error.to_string(), is_json, cut_off }))
    }

    /// Adds a field or item around the place of the error.
    #[cold]
    pub(crate) fn inside(mut self, step: &dyn Display) -> Self {
        self.0.place.insert_str(0, &step.to_string());
        self
    }

    /// Whether the text is JSON, but not the expected value.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.0.is_json
    }

    /// Whether the text is valid, but ends too early.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.0.cut_off
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.place.strip_prefix('.').unwrap_or(&self.0.place) {
            "" => f.write_str(&self.0.problem),
            place => write!(f, "{place}: {}", self.0.problem),
        }
    }
}

impl std::error::Error for Error {}

/// Messages equal those of serde_json.
impl serde::de::Error for Error {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of_text(serde_json::Error::invalid_type(found, expected))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of_text(serde_json::Error::invalid_value(found, expected))
    }
}
