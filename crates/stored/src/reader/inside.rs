//! What is inside an array or an object.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess};

use super::keys::Key;
use super::{Reader, Result};
use crate::Error;

/// The unread items of an array.
pub(super) struct Items<'a> {
    pub(super) inside: Reader<'a>,
    pub(super) taken: usize,
    pub(super) ended: bool,
    /// Whether serde keeps each item in a place of its own, not within that of the array.
    pub(super) kept: bool,
}

impl<'a> Items<'a> {
    fn take(&mut self, bytes: usize) -> Result<Option<Reader<'a>>> {
        self.ended = self.ended || self.inside.context.text.leave();
        if self.ended {
            return Ok(None);
        }
        self.taken += 1;
        if self.kept {
            self.inside.context.keep(bytes)?;
        }
        Ok(Some(self.inside))
    }

    /// Fails if unread items are left.
    pub(super) fn end(&mut self) -> Result<()> {
        let taken = self.taken;
        while let Some(item) = self.take(0)? {
            item.context.text.value();
        }
        match self.taken == taken {
            true => Ok(()),
            false => Err(Error::invalid_length(self.taken, &"fewer elements in array")),
        }
    }

    #[cold]
    fn place(&self, error: Error) -> Error {
        error.inside(&format_args!("[{}]", self.taken - 1))
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.take(size_of::<T::Value>())? {
            Some(item) => seed.deserialize(item).map(Some).map_err(|error| self.place(error)),
            None => Ok(None),
        }
    }
}

/// The unread entries of an object.
pub(super) struct Entries<'a> {
    pub(super) inside: Reader<'a>,
    /// The key that was read last.
    pub(super) key: Cow<'a, str>,
}

impl<'a> Entries<'a> {
    fn take(&mut self) -> Result<Option<Key<'_, 'a>>> {
        if self.inside.context.text.leave() {
            return Ok(None);
        }
        self.key = self.inside.context.string()?;
        Ok(Some(Key { text: &self.key, context: self.inside.context }))
    }

    fn value(&mut self, bytes: usize) -> Result<Reader<'a>> {
        self.inside.context.keep(bytes)?;
        Ok(self.inside)
    }

    #[cold]
    fn place(&self, error: Error) -> Error {
        error.inside(&format_args!(".{}", self.key))
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.take()? {
            Some(key) => seed.deserialize(key).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        let value = self.value(size_of::<T::Value>())?;
        seed.deserialize(value).map_err(|error| self.place(error))
    }
}
