//! [`ParcelReader`]: reads received data in the order in which it was written.
//!
//! The bytes come from another process and may change at any time. Every read checks the remaining
//! length, allocates memory at most in proportion to it, and returns an error instead of panicking.
//! The reader reads each number once, copies strings before it checks them, and returns byte
//! vectors as [`RawBytes`].

use std::marker::PhantomData;
use std::sync::Arc;

use roundtrip_binder_driver::RawBytes;

use super::{NULL, Parcel, padded};
use crate::copies::Copies;
use crate::{Dialect, Error, Process, work_source};

/// Reads received data. A reader is not `Send`: the references to objects that it reads are queued
/// as commands of its thread, and must reach the driver before the command that frees the data.
///
/// ```compile_fail,E0277
/// fn moves<T: Send>(_: T) {}
/// moves(roundtrip_binder::ParcelReader::new(&[], &[]));
/// ```
#[derive(Clone, Debug)]
pub struct ParcelReader<'a> {
    data: RawBytes<'a>,
    pub(super) offsets: RawBytes<'a>,
    pub(super) at: usize,
    /// The index of the first offset that may be at or after `at`.
    pub(crate) next_offset: usize,
    pub(crate) process: Option<&'a Arc<Process>>,
    copies: Option<&'a Copies>,
    /// The layout; `None` for hwbinder's.
    pub(super) dialect: Option<Dialect>,
    /// The work source in the interface token, once it was read.
    pub(super) work_source: u32,
    of_this_thread: PhantomData<*const ()>,
}

impl Parcel {
    /// Makes a reader for the bytes written so far. It cannot read binders or descriptors.
    #[must_use]
    pub fn reader(&self) -> ParcelReader<'_> {
        ParcelReader::new(&self.data, &self.offsets).with_layout(self.dialect)
    }
}

impl<'a> ParcelReader<'a> {
    /// Makes a reader for arbitrary bytes. `offsets` are native 64-bit words: the offsets of the
    /// objects in `data`. The reader has no process, so it cannot read binders or descriptors.
    #[must_use]
    pub fn new(data: &'a [u8], offsets: &'a [u8]) -> Self {
        Self::over(data.into(), offsets.into())
    }

    /// Like [`ParcelReader::new`], for bytes that other processes may change.
    #[must_use]
    pub fn over(data: RawBytes<'a>, offsets: RawBytes<'a>) -> Self {
        Self {
            data,
            offsets,
            at: 0,
            next_offset: 0,
            process: None,
            copies: None,
            dialect: Some(Dialect::default()),
            work_source: work_source::UNSET,
            of_this_thread: PhantomData,
        }
    }

    /// Changes the dialect, which is the newest by default.
    #[must_use]
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        self.with_layout(Some(dialect))
    }

    pub(crate) fn with_layout(self, dialect: Option<Dialect>) -> Self {
        Self { dialect, ..self }
    }

    pub(crate) fn received(
        data: RawBytes<'a>,
        offsets: RawBytes<'a>,
        process: &'a Arc<Process>,
        copies: &'a Copies,
    ) -> Self {
        let dialect = Some(process.dialect());
        Self { process: Some(process), copies: Some(copies), dialect, ..Self::over(data, offsets) }
    }

    /// All bytes, from the first.
    #[must_use]
    pub fn data(&self) -> RawBytes<'a> {
        self.data
    }

    /// The offset of the next read, in bytes from the start.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.data.len() - self.at
    }

    /// The uid on whose behalf the call is made, from the interface token. Available after the
    /// token was checked. `None` if the caller set no work source.
    #[must_use]
    pub fn work_source(&self) -> Option<u32> {
        (self.work_source != work_source::UNSET).then_some(self.work_source)
    }

    pub(crate) fn malformed(&self, what: &'static str, problem: &'static str) -> Error {
        Error::Malformed { what, at: self.at, problem }
    }

    pub(crate) fn count_copy(&self, bytes: usize) {
        if let Some(copies) = self.copies {
            copies.add(bytes as u64);
        }
    }

    /// Takes `length` bytes and their padding. The padding may be missing at the end of the data.
    pub(crate) fn take(&mut self, what: &'static str, length: usize) -> Result<RawBytes<'a>, Error> {
        let bytes = self.peek(length).ok_or_else(|| self.too_short(what))?;
        self.at += padded(length).min(self.remaining());
        Ok(bytes)
    }

    #[cold]
    pub(super) fn too_short(&self, what: &'static str) -> Error {
        self.malformed(what, "the parcel ends too early")
    }

    /// Moves to `length` bytes after `start`, which is at or before the current position.
    pub(super) fn skip_from(&mut self, what: &'static str, start: usize, length: i32) -> Result<(), Error> {
        let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
        let end = end.filter(|end| (self.at..=self.data.len()).contains(end));
        self.at = end.ok_or_else(|| self.malformed(what, "its length is invalid"))?;
        Ok(())
    }

    pub(super) fn peek(&self, length: usize) -> Option<RawBytes<'a>> {
        self.data.part(self.at, length)
    }

    pub(super) fn peek_array<const N: usize>(&self) -> Option<[u8; N]> {
        self.data.array(self.at)
    }

    fn take_array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        const { assert!(N.is_multiple_of(4), "no padding follows") };
        let array = self.peek_array().ok_or_else(|| self.too_short(what))?;
        self.at += N;
        Ok(array)
    }

    /// Reads a number of items; `None` for null. Checks that `unit` bytes are left for each item.
    fn take_length(&mut self, what: &'static str, unit: usize) -> Result<Option<usize>, Error> {
        let start = self.at;
        let length = self.read_i32()?;
        if length == NULL {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Error::Malformed {
            what,
            at: start,
            problem: "its length is negative",
        })?;
        if length.checked_mul(unit).is_none_or(|bytes| bytes > self.remaining()) {
            return Err(Error::Malformed { what, at: start, problem: "it is longer than the parcel" });
        }
        Ok(Some(length))
    }

    fn not_null<T>(&self, what: &'static str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.malformed(what, "it is null"))
    }

    /// Reads a 32-bit integer.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the parcel ends too early. All read methods return it for data that
    /// they cannot decode.
    pub fn read_i32(&mut self) -> Result<i32, Error> {
        Ok(i32::from_le_bytes(self.take_array("a 32-bit integer")?))
    }

    /// Reads an unsigned 32-bit integer.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.take_array("a 32-bit integer")?))
    }

    /// Reads a 64-bit integer.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_i64(&mut self) -> Result<i64, Error> {
        Ok(i64::from_le_bytes(self.take_array("a 64-bit integer")?))
    }

    /// Reads an unsigned 64-bit integer.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.take_array("a 64-bit integer")?))
    }

    /// Reads a 32-bit floating-point number.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_f32(&mut self) -> Result<f32, Error> {
        Ok(f32::from_le_bytes(self.take_array("a 32-bit number")?))
    }

    /// Reads a 64-bit floating-point number.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_f64(&mut self) -> Result<f64, Error> {
        Ok(f64::from_le_bytes(self.take_array("a 64-bit number")?))
    }

    /// Reads a boolean. Any word other than 0 is true, as on Android.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_bool(&mut self) -> Result<bool, Error> {
        Ok(self.read_i32()? != 0)
    }

    /// Reads a signed byte: the lowest byte of a 32-bit integer, as on Android.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_byte(&mut self) -> Result<i8, Error> {
        Ok(self.read_i32()? as i8)
    }

    /// Takes a string and returns its UTF-16 units without the NUL; `None` for null. The iterator
    /// reads each unit once.
    pub(super) fn take_units(
        &mut self,
    ) -> Result<Option<impl ExactSizeIterator<Item = u16> + use<'a>>, Error> {
        const WHAT: &str = "a UTF-16 string";
        let Some(units) = self.take_length(WHAT, 2)? else { return Ok(None) };
        let bytes = self.take(WHAT, units * 2 + 2)?;
        if bytes.array(units * 2) != Some([0, 0]) {
            return Err(self.malformed(WHAT, "it does not end with a NUL"));
        }
        let unit = move |index| bytes.array(index * 2).map_or(0, u16::from_le_bytes);
        Ok(Some((0..units).map(unit)))
    }

    /// Reads a UTF-16 string.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for null, a missing NUL and lone surrogates.
    pub fn read_string16(&mut self) -> Result<String, Error> {
        let text = self.read_nullable_string16()?;
        self.not_null("a UTF-16 string", text)
    }

    /// Reads a UTF-16 string, or null.
    ///
    /// # Errors
    /// See [`ParcelReader::read_string16`].
    pub fn read_nullable_string16(&mut self) -> Result<Option<String>, Error> {
        let Some(units) = self.take_units()? else { return Ok(None) };
        self.count_copy(units.len() * 2);
        let text: Result<String, _> = char::decode_utf16(units).collect();
        text.map(Some).map_err(|_| self.malformed("a UTF-16 string", "it contains a lone surrogate"))
    }

    /// Reads a UTF-8 string.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for null, a missing NUL and bytes that are not UTF-8.
    pub fn read_string8(&mut self) -> Result<String, Error> {
        let text = self.read_nullable_string8()?;
        self.not_null("a UTF-8 string", text)
    }

    /// Reads a UTF-8 string, or null.
    ///
    /// # Errors
    /// See [`ParcelReader::read_string8`].
    pub fn read_nullable_string8(&mut self) -> Result<Option<String>, Error> {
        const WHAT: &str = "a UTF-8 string";
        let Some(length) = self.take_length(WHAT, 1)? else { return Ok(None) };
        let mut text = self.take(WHAT, length + 1)?.to_vec();
        if text.pop() != Some(0) {
            return Err(self.malformed(WHAT, "it does not end with a NUL"));
        }
        self.count_copy(length);
        String::from_utf8(text).map(Some).map_err(|_| self.malformed(WHAT, "it is not UTF-8"))
    }

    /// Reads a NUL-terminated string.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for a missing NUL and bytes that are not UTF-8.
    pub fn read_c_string(&mut self) -> Result<String, Error> {
        const WHAT: &str = "a C string";
        let mut text = Vec::new();
        loop {
            match self.data.byte(self.at.saturating_add(text.len())) {
                None => return Err(self.malformed(WHAT, "it does not end with a NUL")),
                Some(0) => break,
                Some(byte) => text.push(byte),
            }
        }
        self.take(WHAT, text.len() + 1)?;
        self.count_copy(text.len());
        String::from_utf8(text).map_err(|_| self.malformed(WHAT, "it is not UTF-8"))
    }

    /// Reads a byte vector without copying it.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for null.
    pub fn read_bytes(&mut self) -> Result<RawBytes<'a>, Error> {
        let bytes = self.read_nullable_bytes()?;
        self.not_null("a byte vector", bytes)
    }

    /// Reads a byte vector, or null.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`].
    pub fn read_nullable_bytes(&mut self) -> Result<Option<RawBytes<'a>>, Error> {
        match self.take_length("a byte vector", 1)? {
            Some(length) => self.take("a byte vector", length).map(Some),
            None => Ok(None),
        }
    }

    fn read_vec<T, const N: usize>(&mut self, item: impl Fn([u8; N]) -> T) -> Result<Vec<T>, Error> {
        const WHAT: &str = "a vector";
        let length = self.take_length(WHAT, N)?;
        let length = self.not_null(WHAT, length)?;
        let bytes = self.take(WHAT, length * N)?;
        self.count_copy(bytes.len());
        Ok((0..length).filter_map(|index| bytes.array(index * N)).map(item).collect())
    }

    /// Reads a vector of 32-bit integers.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for null.
    pub fn read_i32_vec(&mut self) -> Result<Vec<i32>, Error> {
        self.read_vec(i32::from_le_bytes)
    }

    /// Reads a vector of 64-bit integers.
    ///
    /// # Errors
    /// See [`ParcelReader::read_i32`]; also for null.
    pub fn read_i64_vec(&mut self) -> Result<Vec<i64>, Error> {
        self.read_vec(i64::from_le_bytes)
    }

    /// Reads a vector of UTF-16 strings.
    ///
    /// # Errors
    /// See [`ParcelReader::read_string16`].
    pub fn read_string16_vec(&mut self) -> Result<Vec<String>, Error> {
        const SHORTEST: usize = 4;
        let length = self.take_length("a vector", SHORTEST)?;
        let length = self.not_null("a vector", length)?;
        let mut texts = Vec::new();
        for _ in 0..length {
            texts.push(self.read_string16()?);
        }
        Ok(texts)
    }
}
