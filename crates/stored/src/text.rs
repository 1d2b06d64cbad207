//! Goes through JSON text from value to value. Must not know what the values mean.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::value::RawValue;

use crate::Error;

/// What kind of value comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// The unread rest of a text that is JSON.
pub(crate) struct Text<'a> {
    rest: Cell<&'a str>,
}

impl<'a> Text<'a> {
    /// A whole text.
    ///
    /// # Errors
    /// If it is not JSON.
    pub(crate) fn of(text: &'a [u8]) -> Result<Self, Error> {
        let value: &RawValue = serde_json::from_slice(text).map_err(Error::of_text)?;
        Ok(Self { rest: Cell::new(value.get()) })
    }

    /// The kind of the next value.
    pub(crate) fn kind(&self) -> Kind {
        match self.next_byte() {
            b'n' => Kind::Null,
            b't' | b'f' => Kind::Bool,
            b'"' => Kind::String,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Number,
        }
    }

    /// Reads over the next value, and returns its text.
    pub(crate) fn value(&self) -> &'a str {
        let first = self.next_byte();
        let rest = self.rest.get();
        let bytes = rest.as_bytes();
        let (value, rest) = rest.split_at(match first {
            b'"' => string_end(bytes, 0),
            b'[' | b'{' => nested_end(bytes),
            _ => bytes.iter().position(|byte| b",]} \n\r\t".contains(byte)).unwrap_or(bytes.len()),
        });
        self.rest.set(rest);
        value
    }

    /// Reads over the next value, a string, and returns it without quotes and escapes.
    ///
    /// # Errors
    /// If it contains half of a character.
    pub(crate) fn string(&self) -> Result<Cow<'a, str>, Error> {
        let text = self.value();
        match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
            _ => serde_json::from_str(text).map(Cow::Owned).map_err(Error::of_text),
        }
    }

    /// Enters the next value, an array or an object.
    pub(crate) fn enter(&self) {
        self.next_byte();
        self.skip(1);
    }

    /// Leaves the array or the object around this place, if it has ended.
    pub(crate) fn leave(&self) -> bool {
        let ended = matches!(self.next_byte(), b']' | b'}' | 0);
        if ended {
            self.skip(1);
        }
        ended
    }

    /// Does something without moving on.
    pub(crate) fn ahead<T>(&self, look: impl FnOnce(&Self) -> T) -> T {
        look(&Self { rest: self.rest.clone() })
    }

    /// Moves on to the next byte that is not between values, and returns it; 0 at the end.
    fn next_byte(&self) -> u8 {
        let bytes = self.rest.get().as_bytes();
        let between = bytes.iter().take_while(|byte| b",: \n\r\t".contains(byte)).count();
        self.skip(between);
        bytes.get(between).copied().unwrap_or(0)
    }

    fn skip(&self, bytes: usize) {
        self.rest.set(self.rest.get().get(bytes..).unwrap_or_default());
    }
}

/// The end of a string that begins here.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of an array or an object that begins at the start.
fn nested_end(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at - 1),
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth == 1 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}
