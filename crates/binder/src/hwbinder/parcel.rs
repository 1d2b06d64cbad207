//! [`HwParcel`]: an outgoing scatter-gather transaction.

use roundtrip_binder_driver::RawBytes;
use roundtrip_binder_driver::uapi::{BINDER_BUFFER_FLAG_HAS_PARENT, BINDER_TYPE_PTR, BufferObject, align8};

use super::{VECTOR_POINTER, vector_header};
use crate::Error;
use crate::outgoing::Outgoing;
use crate::parcel::Parcel;

/// The maximum number of buffers that one transaction sends without copying them first. Further
/// buffers are copied into the parcel's own memory. The limit is low because each call passes the
/// whole array.
const MOST_BORROWED: usize = 6;

/// The offset of the address in a `binder_buffer_object`.
const ADDRESS: usize = 8;

/// A buffer of this parcel. Another buffer can be embedded in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferIndex(pub(super) u64);

/// An outgoing transaction: plain data, and buffers in memory of lifetime `'a`, from which the
/// driver copies.
#[derive(Debug)]
pub struct HwParcel<'a> {
    store: Box<HwStore>,
    borrowed: [RawBytes<'a>; MOST_BORROWED],
    borrowed_count: usize,
}

/// The reusable part of a parcel: its allocations, without the borrowed buffers.
#[derive(Debug)]
pub(crate) struct HwStore {
    plain: Parcel,
    /// Buffers that the parcel owns, each padded to 8 bytes: vector headers, and copied buffers.
    own: Vec<u8>,
    /// Objects for buffers in `own`: the object's offset in the plain data, and the buffer's offset
    /// in `own`. `own` may move while it grows, so addresses are filled in when the parcel is sent.
    unresolved: Vec<(usize, usize)>,
    /// The total size of all buffers in bytes, each rounded up to 8 bytes.
    buffers_size: u64,
}

impl Default for HwStore {
    fn default() -> Self {
        Self { plain: Parcel::of_hwbinder(), own: Vec::new(), unresolved: Vec::new(), buffers_size: 0 }
    }
}

impl HwStore {
    pub(crate) fn clear(&mut self) {
        self.plain.clear();
        self.own.clear();
        self.unresolved.clear();
        self.buffers_size = 0;
    }
}

impl<'a> HwParcel<'a> {
    /// Makes an empty parcel, for tests and fuzzing. Calls use
    /// [`Proxy::call_hw`](crate::Proxy::call_hw).
    #[must_use]
    pub fn new() -> Self {
        Self::from_store(Box::default())
    }

    pub(crate) fn from_store(store: Box<HwStore>) -> Self {
        Self { store, borrowed: [RawBytes::empty(); MOST_BORROWED], borrowed_count: 0 }
    }

    pub(crate) fn into_store(self) -> Box<HwStore> {
        self.store
    }

    pub(crate) fn clear(&mut self) {
        self.store.clear();
        self.borrowed_count = 0;
    }

    /// The plain data, for values and binders. A vector written to it is copied;
    /// [`HwParcel::write_vec`] avoids that copy.
    pub fn plain(&mut self) -> &mut Parcel {
        &mut self.store.plain
    }

    /// The plain data written so far, with an object for each buffer.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.store.plain.data()
    }

    /// The payload bytes copied into this parcel's own memory; see [`Parcel::copied_bytes`].
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.store.plain.copied_bytes()
    }

    pub(crate) fn take_copied(&self) -> u64 {
        self.store.plain.take_copied()
    }

    /// Writes a call's interface token: the interface's fully qualified name as a C string.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for a name that contains a NUL.
    pub fn write_interface_token(&mut self, interface: &str) -> Result<(), Error> {
        self.store.plain.write_name(interface)
    }

    /// Writes a reply's status word: no exception.
    pub fn write_no_exception(&mut self) {
        self.store.plain.write_no_exception();
    }

    /// Lists a buffer. The driver copies it when the parcel is sent.
    ///
    /// # Errors
    /// [`Error::Unsendable`] if the plain data is still empty: some drivers refuse a parent object
    /// at offset 0.
    pub fn write_buffer(&mut self, bytes: impl Into<RawBytes<'a>>) -> Result<BufferIndex, Error> {
        self.put(bytes.into(), None)
    }

    /// Lists a buffer whose address the driver writes into `parent`, `offset` bytes from its start.
    /// The offsets within one parent must be in ascending order.
    ///
    /// # Errors
    /// See [`HwParcel::write_buffer`].
    pub fn write_embedded_buffer(
        &mut self,
        bytes: impl Into<RawBytes<'a>>,
        parent: BufferIndex,
        offset: u64,
    ) -> Result<BufferIndex, Error> {
        self.put(bytes.into(), Some((parent, offset)))
    }

    /// Writes a vector of bytes (`hidl_vec<uint8_t>`): its header, and its bytes as a listed
    /// buffer.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for 2³² bytes or more; the errors of [`HwParcel::write_buffer`].
    pub fn write_vec(&mut self, bytes: impl Into<RawBytes<'a>>) -> Result<(), Error> {
        let bytes = bytes.into();
        let length = u32::try_from(bytes.len()).map_err(|_| Error::Unsendable {
            what: "a vector",
            problem: "it has more than 4294967295 bytes",
        })?;
        let header = self.put_own((&vector_header(length)).into(), None)?;
        // An empty vector has no buffer: its address stays 0.
        if !bytes.is_empty() {
            self.write_embedded_buffer(bytes, header, VECTOR_POINTER)?;
        }
        Ok(())
    }

    /// Writes a string (`hidl_string`). The parcel copies it, because it must end with a NUL.
    ///
    /// # Errors
    /// See [`HwParcel::write_vec`].
    pub fn write_string(&mut self, text: &str) -> Result<(), Error> {
        let header = self.put_own((&vector_header(string_length(text)?)).into(), None)?;
        self.put_string(text, header, VECTOR_POINTER)
    }

    /// Writes a vector of strings (`hidl_vec<hidl_string>`): its header, the strings' headers, and
    /// the strings.
    ///
    /// # Errors
    /// See [`HwParcel::write_string`].
    pub fn write_string_vec<S: AsRef<str>>(&mut self, texts: &[S]) -> Result<(), Error> {
        let length = u32::try_from(texts.len()).map_err(|_| Error::Unsendable {
            what: "a vector",
            problem: "it has more than 4294967295 items",
        })?;
        let vector = self.put_own((&vector_header(length)).into(), None)?;
        if texts.is_empty() {
            return Ok(());
        }
        let mut headers = Vec::new();
        for text in texts {
            headers.extend_from_slice(&vector_header(string_length(text.as_ref())?));
        }
        let headers = self.put_own((&headers).into(), Some((vector, VECTOR_POINTER)))?;
        for (index, text) in texts.iter().enumerate() {
            let pointer = (index * super::VECTOR_SIZE) as u64 + VECTOR_POINTER;
            self.put_string(text.as_ref(), headers, pointer)?;
        }
        Ok(())
    }

    fn put_string(&mut self, text: &str, parent: BufferIndex, offset: u64) -> Result<(), Error> {
        self.store.plain.count_copy(text.len());
        let start = self.store.own.len();
        RawBytes::from(text.as_bytes()).append_to(&mut self.store.own);
        self.store.own.push(0);
        self.name_own(start, Some((parent, offset)))?;
        Ok(())
    }

    fn put(&mut self, bytes: RawBytes<'a>, parent: Option<(BufferIndex, u64)>) -> Result<BufferIndex, Error> {
        let Some(free) = self.borrowed.get_mut(self.borrowed_count) else {
            self.store.plain.count_copy(bytes.len());
            return self.put_own(bytes, parent);
        };
        *free = bytes;
        self.borrowed_count += 1;
        let address = if bytes.is_empty() { 0 } else { bytes.address() };
        self.name(address, bytes.len(), parent).map(|(index, _)| index)
    }

    /// Copies bytes into the parcel's own memory and lists them.
    pub(super) fn put_own(
        &mut self,
        bytes: RawBytes<'_>,
        parent: Option<(BufferIndex, u64)>,
    ) -> Result<BufferIndex, Error> {
        let start = self.store.own.len();
        bytes.append_to(&mut self.store.own);
        self.name_own(start, parent)
    }

    /// Lists the parcel's own memory from `start` to its end.
    fn name_own(&mut self, start: usize, parent: Option<(BufferIndex, u64)>) -> Result<BufferIndex, Error> {
        let length = self.store.own.len() - start;
        self.store.own.resize(self.store.own.len().next_multiple_of(8), 0);
        let (index, object) = self.name(0, length, parent)?;
        self.store.unresolved.push((object, start));
        Ok(index)
    }

    // Inlined because each call lists several buffers.
    #[inline(always)]
    fn name(
        &mut self,
        address: u64,
        length: usize,
        parent: Option<(BufferIndex, u64)>,
    ) -> Result<(BufferIndex, usize), Error> {
        if self.data().is_empty() {
            return Err(Error::Unsendable {
                what: "a buffer",
                problem: "write an interface token or a status first",
            });
        }
        let (flags, (parent, parent_offset)) = match parent {
            Some((parent, offset)) => (BINDER_BUFFER_FLAG_HAS_PARENT, (parent.0, offset)),
            None => (0, (0, 0)),
        };
        let length = length as u64;
        let object =
            BufferObject { kind: BINDER_TYPE_PTR, flags, buffer: address, length, parent, parent_offset };
        let total = align8(length).and_then(|length| self.store.buffers_size.checked_add(length));
        let Some(total) = total else {
            return Err(Error::Unsendable { what: "a buffer", problem: "all buffers together are too long" });
        };
        self.store.buffers_size = total;
        let index = BufferIndex(self.store.plain.offsets().len() as u64 / 8);
        Ok((index, self.store.plain.put_object(&object.to_bytes())))
    }

    /// Fills in all addresses and passes the parcel to `send`.
    pub(crate) fn send<R>(&mut self, send: impl FnOnce(&Outgoing<'_>) -> R) -> R {
        let store = &mut *self.store;
        let own = store.own.as_ptr().expose_provenance();
        for (object, start) in store.unresolved.drain(..) {
            store.plain.patch(object + ADDRESS, &((own + start) as u64).to_ne_bytes());
        }
        let store = &*self.store;
        let memory = [store.plain.data(), store.plain.offsets(), &store.own];
        let buffers = self.borrowed.get(..self.borrowed_count).unwrap_or_default();
        send(&Outgoing::scatter_gather(&memory, buffers, store.buffers_size))
    }
}

impl Default for HwParcel<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// A string's length on the wire. Its buffer is one byte longer.
fn string_length(text: &str) -> Result<u32, Error> {
    u32::try_from(text.len())
        .ok()
        .filter(|length| *length < u32::MAX)
        .ok_or(Error::Unsendable { what: "a string", problem: "it has more than 4294967294 bytes" })
}
