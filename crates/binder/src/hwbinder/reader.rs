//! [`HwReader`]: a received scatter-gather transaction.
//!
//! The data comes from another process. The driver wrote only the addresses of listed buffers, so
//! the reader follows only listed objects. It accepts an address in a parent buffer only if it
//! equals the address of the child buffer that is listed for that position.
//!
//! Other processes may also change the bytes at any time. The reader therefore reads each number
//! once, copies strings before it checks them, and returns byte vectors as [`RawBytes`].

use roundtrip_binder_driver::RawBytes;
use roundtrip_binder_driver::uapi::{BINDER_BUFFER_FLAG_HAS_PARENT, BINDER_TYPE_PTR, BufferObject};

use super::{BufferIndex, VECTOR_LENGTH, VECTOR_POINTER, VECTOR_SIZE};
use crate::parcel::ParcelReader;
use crate::{Error, Status};

/// Reads received data and the buffers that it lists.
#[derive(Clone, Debug)]
pub struct HwReader<'a> {
    plain: ParcelReader<'a>,
    /// The receive area, which contains the buffers.
    area: RawBytes<'a>,
}

impl<'a> HwReader<'a> {
    /// Makes a reader for received data whose buffers are in `area`.
    #[must_use]
    pub fn new(plain: ParcelReader<'a>, area: RawBytes<'a>) -> Self {
        Self { plain: plain.with_layout(None), area }
    }

    /// The plain data, for values and binders.
    pub fn plain(&mut self) -> &mut ParcelReader<'a> {
        &mut self.plain
    }

    /// Reads a call's interface token and checks that it names `interface`.
    ///
    /// # Errors
    /// `BAD_TYPE` if the token names another interface, `BAD_VALUE` if there is no token.
    pub fn check_interface(&mut self, interface: &str) -> Result<(), Status> {
        self.plain.check_name(interface)
    }

    fn read_object(
        &mut self,
        parent: Option<(BufferIndex, u64)>,
    ) -> Result<(RawBytes<'a>, BufferIndex, u64), Error> {
        const WHAT: &str = "a buffer";
        let malformed = |reader: &Self, problem| Err(reader.plain.malformed(WHAT, problem));
        let object = self.plain.peek_object::<{ BufferObject::SIZE }>(WHAT)?;
        let object = BufferObject::from_bytes(&object).filter(|object| object.kind == BINDER_TYPE_PTR);
        let Some(object) = object else {
            return malformed(self, "it is an object of another type");
        };
        let index = BufferIndex(self.plain.next_offset as u64);
        self.plain.take(WHAT, BufferObject::SIZE)?;
        let embedded = object.flags & BINDER_BUFFER_FLAG_HAS_PARENT != 0;
        let claimed = embedded.then_some((BufferIndex(object.parent), object.parent_offset));
        if claimed != parent {
            return malformed(self, "it is embedded elsewhere");
        }
        let bytes = match object.length {
            0 => Some(RawBytes::empty()),
            length => self.area.part_at(object.buffer, length),
        };
        match bytes {
            Some(bytes) => Ok((bytes, index, object.buffer)),
            None => malformed(self, "it is outside this process's area"),
        }
    }

    /// Reads a buffer that is not embedded in another.
    ///
    /// # Errors
    /// [`Error::Malformed`] if no such buffer is listed at this position, or if it is outside this
    /// process's receive area.
    pub fn read_buffer(&mut self) -> Result<(RawBytes<'a>, BufferIndex), Error> {
        self.read_object(None).map(|(bytes, index, _)| (bytes, index))
    }

    /// Reads a buffer that is embedded in `parent` (its bytes and index), `offset` bytes from its
    /// start.
    ///
    /// # Errors
    /// See [`HwReader::read_buffer`]; also if the parent does not contain the buffer's address at
    /// `offset`.
    pub fn read_embedded_buffer(
        &mut self,
        parent: (RawBytes<'a>, BufferIndex),
        offset: u64,
    ) -> Result<(RawBytes<'a>, BufferIndex), Error> {
        let (bytes, index, address) = self.read_object(Some((parent.1, offset)))?;
        let pointer = usize::try_from(offset).ok().and_then(|offset| parent.0.array(offset));
        match pointer.map(u64::from_ne_bytes) {
            Some(pointer) if pointer == address => Ok((bytes, index)),
            _ => Err(self.plain.malformed("a buffer", "its parent points elsewhere")),
        }
    }

    /// Reads the bytes of a vector whose header is in `parent` at `at`. The vector has `unit` bytes
    /// for each item, and `extra` bytes at its end.
    fn read_contents(
        &mut self,
        parent: (RawBytes<'a>, BufferIndex),
        at: usize,
        unit: usize,
        extra: usize,
    ) -> Result<(RawBytes<'a>, BufferIndex), Error> {
        const WHAT: &str = "a vector";
        let header = parent.0.part(at, VECTOR_SIZE).and_then(|header| header.array(VECTOR_LENGTH));
        let header = header.ok_or_else(|| self.plain.malformed(WHAT, "its header is too short"))?;
        let length = u64::from(u32::from_ne_bytes(header)) * unit as u64 + extra as u64;
        if length == 0 {
            return Ok((RawBytes::empty(), parent.1));
        }
        let (bytes, index) = self.read_embedded_buffer(parent, at as u64 + VECTOR_POINTER)?;
        if bytes.len() as u64 != length {
            return Err(self.plain.malformed(WHAT, "its header gives another length"));
        }
        Ok((bytes, index))
    }

    fn string(&self, bytes: RawBytes<'a>) -> Result<String, Error> {
        const WHAT: &str = "a string";
        let mut bytes = bytes.to_vec();
        if bytes.pop() != Some(0) {
            return Err(self.plain.malformed(WHAT, "it does not end with a NUL"));
        }
        self.plain.count_copy(bytes.len());
        String::from_utf8(bytes).map_err(|_| self.plain.malformed(WHAT, "it is not UTF-8"))
    }

    /// Reads a vector of bytes without copying it.
    ///
    /// # Errors
    /// See [`HwReader::read_embedded_buffer`]; also if the lengths of header and buffer differ.
    pub fn read_vec(&mut self) -> Result<RawBytes<'a>, Error> {
        let header = self.read_buffer()?;
        self.read_contents(header, 0, 1, 0).map(|(bytes, _)| bytes)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// See [`HwReader::read_vec`]; also for a missing NUL and bytes that are not UTF-8.
    pub fn read_string(&mut self) -> Result<String, Error> {
        let header = self.read_buffer()?;
        let (bytes, _) = self.read_contents(header, 0, 1, 1)?;
        self.string(bytes)
    }

    /// Reads a vector of strings.
    ///
    /// # Errors
    /// See [`HwReader::read_string`].
    pub fn read_string_vec(&mut self) -> Result<Vec<String>, Error> {
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
