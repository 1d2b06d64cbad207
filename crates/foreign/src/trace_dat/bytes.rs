//! A cursor over the file's bytes. Checks every length.

use std::borrow::Cow;
use std::io::Read;

use crate::opening::Source;

/// The longest part that is read at once, in bytes. The largest is the list of the kernel's
/// symbols.
pub(super) const MOST_BYTES: usize = 128 << 20;

/// A recording and the current position.
#[derive(Clone)]
pub(super) struct Bytes<'a> {
    all: Source<'a>,
    at: u64,
}

/// A value, or a sentence that says what is damaged and where.
pub(super) type Found<T> = Result<T, String>;

impl<'a> Bytes<'a> {
    pub(super) fn new(all: Source<'a>, at: u64) -> Self {
        Self { all, at }
    }

    /// A cursor at the start of bytes in memory.
    pub(super) fn memory(bytes: &'a [u8]) -> Self {
        Self::new(Source::memory(bytes), 0)
    }

    /// A cursor over the same file at another position.
    pub(super) fn at(&self, offset: u64) -> Found<Self> {
        if offset > self.all.length() {
            return Err(format!("it points to byte {offset}, but ends at byte {}", self.all.length()));
        }
        Ok(Self { all: self.all.clone(), at: offset })
    }

    /// The length of the file, in bytes.
    pub(super) fn length(&self) -> u64 {
        self.all.length()
    }

    /// How many bytes are left.
    pub(super) fn rest(&self) -> u64 {
        self.all.length() - self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest() == 0
    }

    pub(super) fn take(&mut self, length: u64) -> Found<Cow<'a, [u8]>> {
        let few = |there: u64| format!("at byte {}: expected {length} more bytes, found {there}", self.at);
        if length > self.rest() {
            return Err(few(self.rest()));
        }
        if length > MOST_BYTES as u64 {
            return Err(format!("at byte {}: a part of {length} bytes, longer than any", self.at));
        }
        let bytes =
            self.all.read(self.at, length).map_err(|error| format!("at byte {}: {error}", self.at))?;
        // The file may have become shorter.
        if (bytes.len() as u64) < length {
            return Err(few(bytes.len() as u64));
        }
        self.at += length;
        Ok(bytes)
    }

    /// A reader of up to `length` bytes. Also returns whether the file contains all of them.
    pub(super) fn reader(&self, length: u64) -> (impl Read + use<'a>, bool) {
        (self.all.reader(self.at, length), length <= self.rest())
    }

    fn number<const N: usize>(&mut self) -> Found<[u8; N]> {
        let bytes = self.take(N as u64)?;
        (*bytes).try_into().map_err(|_| "a number is cut off".to_owned())
    }

    pub(super) fn u8(&mut self) -> Found<u8> {
        self.number::<1>().map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Found<u16> {
        self.number().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Found<u32> {
        self.number().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Found<u64> {
        self.number().map(u64::from_le_bytes)
    }

    /// A zero-terminated string.
    pub(super) fn text(&mut self) -> Found<String> {
        let rest = self.all.read(self.at, 4096).map_err(|error| format!("at byte {}: {error}", self.at))?;
        let end = rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| format!("at byte {}: a string has no end", self.at))?;
        self.at += end as u64 + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// A string that follows its length of 32 or 64 bits.
    pub(super) fn long_text(&mut self, wide: bool) -> Found<String> {
        let length = if wide { self.u64()? } else { u64::from(self.u32()?) };
        self.take(length).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
