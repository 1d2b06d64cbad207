//! [`HwReader`]: a received scatter-gather transaction.
//!
//! The data comes from another process. The driver has written the address of every listed buffer, and of no other, so
//! only listed objects are followed: an address in a parent counts only where it is the one of the child that is listed
//! for that place. Buffers are lent from the copy that was made when it arrived.

use binder_driver::uapi::{BINDER_BUFFER_FLAG_HAS_PARENT, BINDER_TYPE_PTR, BufferObject, Field};
use binder_driver::{Content, Driver};

use super::{BufferIndex, VECTOR_POINTER, VECTOR_SIZE};
use crate::parcel::ParcelReader;
use crate::{Error, Status};

/// A reader over received data and the buffers that it names.
#[derive(Clone, Debug)]
pub struct HwReader<'a> {
    plain: ParcelReader<'a>,
    content: &'a Content,
    driver: &'a dyn Driver,
}

impl<'a> HwReader<'a> {
    /// A reader over the data of `content`, which came from `driver`.
    #[must_use]
    pub fn new(plain: ParcelReader<'a>, content: &'a Content, driver: &'a dyn Driver) -> Self {
        Self { plain: plain.with_layout(None), content, driver }
    }

    pub(super) fn driver(&self) -> &'a dyn Driver {
        self.driver
    }

    /// The plain data, for values and binders.
    pub fn plain(&mut self) -> &mut ParcelReader<'a> {
        &mut self.plain
    }

    /// Reads a call's interface token and checks that it names `interface`.
    ///
    /// # Errors
    /// `BAD_TYPE` when it names another interface, `BAD_VALUE` when there is no token.
    pub fn check_interface(&mut self, interface: &str) -> Result<(), Status> {
        self.plain.check_name(interface)
    }

    fn read_object(
        &mut self,
        parent: Option<(BufferIndex, u64)>,
    ) -> Result<(&'a [u8], BufferIndex, u64), Error> {
        const WHAT: &str = "a buffer";
        let malformed = |reader: &Self, problem| Err(reader.plain.malformed(WHAT, problem));
        let object = self.plain.peek_object(WHAT, BufferObject::SIZE)?;
        let object = BufferObject::from_bytes(object).filter(|object| object.kind == BINDER_TYPE_PTR);
        let Some(object) = object else {
            return malformed(self, "another type of object lies here");
        };
        let index = BufferIndex(self.plain.next_offset as u64);
        self.plain.take(WHAT, BufferObject::SIZE)?;
        let embedded = object.flags & BINDER_BUFFER_FLAG_HAS_PARENT != 0;
        let claimed = embedded.then_some((BufferIndex(object.parent), object.parent_offset));
        if claimed != parent {
            return malformed(self, "it is embedded elsewhere");
        }
        let bytes = match object.length {
            0 => Some(&[][..]),
            length => self.content.buffer(self.driver, object.buffer, length),
        };
        match bytes {
            Some(bytes) => Ok((bytes, index, object.buffer)),
            None => malformed(self, "it lies outside this process's area"),
        }
    }

    /// Reads a buffer that is embedded in none.
    ///
    /// # Errors
    /// [`Error::Malformed`] when no such buffer is listed here, and when it does not lie in this process's area.
    pub fn read_buffer(&mut self) -> Result<(&'a [u8], BufferIndex), Error> {
        self.read_object(None).map(|(bytes, index, _)| (bytes, index))
    }

    /// Reads a buffer that is embedded in `parent` (its bytes and index), `offset` bytes from its start.
    ///
    /// # Errors
    /// As [`HwReader::read_buffer`]; also when the parent does not hold the buffer's address there.
    pub fn read_embedded_buffer(
        &mut self,
        parent: (&'a [u8], BufferIndex),
        offset: u64,
    ) -> Result<(&'a [u8], BufferIndex), Error> {
        let (bytes, index, address) = self.read_object(Some((parent.1, offset)))?;
        let pointer = usize::try_from(offset).ok().and_then(|offset| parent.0.get(offset..));
        match pointer.and_then(|pointer| pointer.get(..8)).map(u64::take) {
            Some(pointer) if pointer == address => Ok((bytes, index)),
            _ => Err(self.plain.malformed("a buffer", "its parent points elsewhere")),
        }
    }

    /// Reads the bytes of a vector whose header lies in `parent` at `at`; `unit` bytes go with each item and `extra` with all.
    fn read_contents(
        &mut self,
        parent: (&'a [u8], BufferIndex),
        at: usize,
        unit: usize,
        extra: usize,
    ) -> Result<(&'a [u8], BufferIndex), Error> {
        const WHAT: &str = "a vector";
        let header = parent.0.get(at..at + VECTOR_SIZE);
        let header = header.ok_or_else(|| self.plain.malformed(WHAT, "its header is too short"))?;
        let length = u32::take(&header[8..]) as u64 * unit as u64 + extra as u64;
        if length == 0 {
            return Ok((&[], parent.1));
        }
        let (bytes, index) = self.read_embedded_buffer(parent, at as u64 + VECTOR_POINTER)?;
        if bytes.len() as u64 != length {
            return Err(self.plain.malformed(WHAT, "its header gives another length"));
        }
        Ok((bytes, index))
    }

    fn string(&self, bytes: &'a [u8]) -> Result<&'a str, Error> {
        match bytes {
            [text @ .., 0] => {
                str::from_utf8(text).map_err(|_| self.plain.malformed("a string", "it is not UTF-8"))
            }
            _ => Err(self.plain.malformed("a string", "it does not end with a NUL")),
        }
    }

    /// Reads a vector of bytes.
    ///
    /// # Errors
    /// As [`HwReader::read_embedded_buffer`]; also when header and buffer differ in length.
    pub fn read_vec(&mut self) -> Result<&'a [u8], Error> {
        let header = self.read_buffer()?;
        self.read_contents(header, 0, 1, 0).map(|(bytes, _)| bytes)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// As [`HwReader::read_vec`]; also for a missing NUL and bytes that are not UTF-8.
    pub fn read_string(&mut self) -> Result<&'a str, Error> {
        let header = self.read_buffer()?;
        let (bytes, _) = self.read_contents(header, 0, 1, 1)?;
        self.string(bytes)
    }

    /// Reads a vector of strings.
    ///
    /// # Errors
    /// As [`HwReader::read_string`].
    pub fn read_string_vec(&mut self) -> Result<Vec<&'a str>, Error> {
        let vector = self.read_buffer()?;
        let headers = self.read_contents(vector, 0, VECTOR_SIZE, 0)?;
        let count = headers.0.len() / VECTOR_SIZE;
        let mut texts = Vec::new();
        for index in 0..count {
            let (bytes, _) = self.read_contents(headers, index * VECTOR_SIZE, 1, 1)?;
            texts.push(self.string(bytes)?);
        }
        Ok(texts)
    }
}
