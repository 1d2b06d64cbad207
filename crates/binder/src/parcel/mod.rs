//! [`Parcel`]: outgoing data in the layout of Android's `Parcel.cpp`.
//!
//! Values are little-endian. Every item is padded with zeros to 4 bytes. Binders and headers have
//! the layout of the [`Dialect`]'s release; all other items are the same in every release. A parcel
//! consists of bytes, offsets, and the objects in the bytes. It knows nothing about threads or
//! drivers.

mod descriptor;
mod header;
mod object;
mod reader;
mod text;
mod token;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use reader::ParcelReader;
pub use token::InterfaceToken;

use roundtrip_binder_driver::{RawBytes, copy};

use crate::{Dialect, Error};

/// The length of a null string or vector.
const NULL: i32 = -1;

/// An object that must stay alive until the driver holds its own references to it.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// Outgoing data. A cleared parcel keeps its capacity for the next call.
#[derive(Debug)]
pub struct Parcel {
    /// The layout; `None` for hwbinder's.
    dialect: Option<Dialect>,
    data: Vec<u8>,
    /// The offsets of the objects in `data`: native 64-bit words, as the bytes that the driver
    /// reads.
    offsets: Vec<u8>,
    /// Keeps the objects alive until the driver holds its own references.
    objects: Vec<Kept>,
    /// The descriptors whose numbers are in the bytes. They stay open until the parcel is cleared.
    descriptors: Vec<OwnedFd>,
    copied: Cell<u64>,
}

/// Rounds `length` up to a parcel's 4-byte alignment.
pub(crate) const fn padded(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// Converts a length to its form on the wire, a nonnegative 32-bit integer.
fn wire_length(what: &'static str, length: usize) -> Result<i32, Error> {
    i32::try_from(length)
        .map_err(|_| Error::Unsendable { what, problem: "it has more than 2147483647 items" })
}

impl Default for Parcel {
    fn default() -> Self {
        Self::in_dialect(Dialect::default())
    }
}

impl Parcel {
    /// Makes an empty parcel in the newest dialect. Only a process of that dialect can send it; see
    /// [`Parcel::in_dialect`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty parcel in a process's dialect
    /// ([`Process::dialect`](crate::Process::dialect)).
    #[must_use]
    pub fn in_dialect(dialect: Dialect) -> Self {
        Self::with_layout(Some(dialect))
    }

    /// The plain part of a hwbinder parcel.
    pub(crate) fn of_hwbinder() -> Self {
        Self::with_layout(None)
    }

    fn with_layout(dialect: Option<Dialect>) -> Self {
        Self {
            dialect,
            data: Vec::new(),
            offsets: Vec::new(),
            objects: Vec::new(),
            descriptors: Vec::new(),
            copied: Cell::new(0),
        }
    }

    pub(crate) fn is_hwbinder(&self) -> bool {
        self.dialect.is_none()
    }

    /// Refuses a parcel whose layout differs from the process's.
    pub(crate) fn check_dialect(&self, of_process: Dialect) -> Result<(), Error> {
        match self.dialect {
            Some(dialect) if dialect == of_process => Ok(()),
            _ => Err(Error::Unsendable {
                what: "a call's data",
                problem: "the parcel is in another dialect than the process (make it with Parcel::in_dialect)",
            }),
        }
    }

    /// Makes an empty parcel with a capacity of `bytes` bytes, in the newest dialect.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { data: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Clears the parcel and keeps its capacity.
    pub fn clear(&mut self) {
        self.data.clear();
        self.offsets.clear();
        self.objects.clear();
        self.descriptors.clear();
        self.copied.set(0);
    }

    /// The bytes written so far.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The ascending offsets of the objects in [`Parcel::data`], as native 64-bit words.
    #[must_use]
    pub fn offsets(&self) -> &[u8] {
        &self.offsets
    }

    /// The bytes of strings and vectors copied into this parcel since it was made, cleared, or last
    /// sent.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.copied.get()
    }

    /// Returns [`Parcel::copied_bytes`] and resets it to 0.
    pub(crate) fn take_copied(&self) -> u64 {
        self.copied.take()
    }

    /// Moves the objects that the parcel keeps alive to `to`.
    pub(crate) fn move_objects(&mut self, to: &RefCell<Vec<Kept>>) {
        if !self.objects.is_empty() {
            to.borrow_mut().append(&mut self.objects);
        }
    }

    pub(crate) fn count_copy(&self, bytes: usize) {
        self.copied.set(self.copied.get() + bytes as u64);
    }

    /// Appends zeros up to the next multiple of 4 bytes.
    fn pad(&mut self) {
        self.data.resize(padded(self.data.len()), 0);
    }

    /// Writes a 32-bit integer.
    pub fn write_i32(&mut self, value: i32) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes an unsigned 32-bit integer.
    pub fn write_u32(&mut self, value: u32) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a 64-bit integer, aligned to 4 bytes only.
    pub fn write_i64(&mut self, value: i64) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes an unsigned 64-bit integer.
    pub fn write_u64(&mut self, value: u64) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a 32-bit floating-point number.
    pub fn write_f32(&mut self, value: f32) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a 64-bit floating-point number.
    pub fn write_f64(&mut self, value: f64) {
        self.data.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a boolean: a 32-bit 0 or 1.
    pub fn write_bool(&mut self, value: bool) {
        self.write_i32(value.into());
    }

    /// Writes a signed byte as a 32-bit integer.
    pub fn write_byte(&mut self, value: i8) {
        self.write_i32(value.into());
    }

    /// Writes a string as UTF-16: its length in 16-bit units, the units, a 2-byte NUL, padding
    /// (`writeString16`).
    ///
    /// # Errors
    /// [`Error::Unsendable`] for a string of 2³¹ units or more.
    pub fn write_string16(&mut self, text: &str) -> Result<(), Error> {
        let length = self.data.len();
        self.write_i32(0);
        for unit in text.encode_utf16() {
            self.data.extend_from_slice(&unit.to_le_bytes());
        }
        let bytes = self.data.len() - length - 4;
        let Ok(units) = wire_length("a string", bytes / 2) else {
            self.data.truncate(length);
            return wire_length("a string", bytes / 2).map(drop);
        };
        self.data[length..length + 4].copy_from_slice(&units.to_le_bytes());
        self.data.extend_from_slice(&[0, 0]);
        self.pad();
        self.count_copy(bytes);
        Ok(())
    }

    /// Writes a string as UTF-16, or null.
    ///
    /// # Errors
    /// See [`Parcel::write_string16`].
    pub fn write_nullable_string16(&mut self, text: Option<&str>) -> Result<(), Error> {
        match text {
            Some(text) => self.write_string16(text),
            None => {
                self.write_i32(NULL);
                Ok(())
            }
        }
    }

    /// Writes a string as UTF-8: its length in bytes, the bytes, a NUL, padding (`writeString8`).
    ///
    /// # Errors
    /// [`Error::Unsendable`] for a string of 2³¹ bytes or more.
    pub fn write_string8(&mut self, text: &str) -> Result<(), Error> {
        self.write_i32(wire_length("a string", text.len())?);
        copy::append(&mut self.data, text.as_bytes());
        self.data.push(0);
        self.pad();
        self.count_copy(text.len());
        Ok(())
    }

    /// Writes a string as UTF-8, or null.
    ///
    /// # Errors
    /// See [`Parcel::write_string8`].
    pub fn write_nullable_string8(&mut self, text: Option<&str>) -> Result<(), Error> {
        match text {
            Some(text) => self.write_string8(text),
            None => {
                self.write_i32(NULL);
                Ok(())
            }
        }
    }

    /// Writes a NUL-terminated string without its length (`writeCString`), as in hwbinder's
    /// interface tokens.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for a string that contains a NUL.
    pub fn write_c_string(&mut self, text: &str) -> Result<(), Error> {
        if text::has_nul(text) {
            return Err(Error::Unsendable { what: "a C string", problem: "it contains a NUL" });
        }
        copy::append(&mut self.data, text.as_bytes());
        self.data.push(0);
        self.pad();
        self.count_copy(text.len());
        Ok(())
    }

    /// Writes a byte vector: its length, the bytes, padding (`writeByteVector`). The hwbinder stack
    /// avoids this copy (scatter-gather).
    ///
    /// # Errors
    /// [`Error::Unsendable`] for 2³¹ bytes or more.
    pub fn write_bytes<'a>(&mut self, bytes: impl Into<RawBytes<'a>>) -> Result<(), Error> {
        let bytes = bytes.into();
        self.write_i32(wire_length("a byte vector", bytes.len())?);
        bytes.append_to(&mut self.data);
        self.pad();
        self.count_copy(bytes.len());
        Ok(())
    }

    /// Writes a byte vector, or null.
    ///
    /// # Errors
    /// See [`Parcel::write_bytes`].
    pub fn write_nullable_bytes(&mut self, bytes: Option<&[u8]>) -> Result<(), Error> {
        match bytes {
            Some(bytes) => self.write_bytes(bytes),
            None => {
                self.write_i32(NULL);
                Ok(())
            }
        }
    }

    /// Writes a vector of 32-bit integers: the number of items, then each item.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for 2³¹ or more.
    pub fn write_i32_vec(&mut self, values: &[i32]) -> Result<(), Error> {
        self.write_i32(wire_length("a vector", values.len())?);
        self.data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.count_copy(size_of_val(values));
        Ok(())
    }

    /// Writes a vector of 64-bit integers: the number of items, then each item.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for 2³¹ or more.
    pub fn write_i64_vec(&mut self, values: &[i64]) -> Result<(), Error> {
        self.write_i32(wire_length("a vector", values.len())?);
        self.data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.count_copy(size_of_val(values));
        Ok(())
    }

    /// Writes a vector of strings: the number of items, then each item as
    /// [`Parcel::write_string16`] does.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for 2³¹ or more.
    pub fn write_string16_vec<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<(), Error> {
        self.write_i32(wire_length("a vector", texts.len())?);
        texts.iter().try_for_each(|text| self.write_string16(text.as_ref()))
    }
}

#[cfg(test)]
mod tests;
