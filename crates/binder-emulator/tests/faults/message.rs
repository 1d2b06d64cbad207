//! The messages of participants: builds them, and decodes received ones.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use roundtrip_binder_driver::Driver;
use roundtrip_binder_driver::uapi::*;

/// A message, with the memory that its objects name.
#[derive(Default)]
pub(crate) struct Message {
    data: Vec<u8>,
    offsets: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    room: u64,
}

impl Message {
    pub(crate) fn plain(bytes: &[u8]) -> Self {
        Self { data: bytes.to_vec(), ..Self::default() }
    }

    fn object(mut self, object: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(8), 0);
        self.offsets.extend((self.data.len() as u64).to_ne_bytes());
        self.data.extend(object);
        self
    }

    pub(crate) fn node(self, name: u64) -> Self {
        let flags = FLAT_BINDER_FLAG_ACCEPTS_FDS | FLAT_BINDER_FLAG_INHERIT_RT;
        self.object(&FlatBinderObject { kind: BINDER_TYPE_BINDER, flags, binder: name, cookie: 0 }.to_bytes())
    }

    pub(crate) fn weak_node(self, name: u64) -> Self {
        let flags = FLAT_BINDER_FLAG_ACCEPTS_FDS;
        let kind = BINDER_TYPE_WEAK_BINDER;
        self.object(&FlatBinderObject { kind, flags, binder: name, cookie: 0 }.to_bytes())
    }

    pub(crate) fn handle(self, handle: u32) -> Self {
        let binder = handle.into();
        self.object(&FlatBinderObject { kind: BINDER_TYPE_HANDLE, flags: 0, binder, cookie: 0 }.to_bytes())
    }

    pub(crate) fn descriptor(self, fd: BorrowedFd<'_>) -> Self {
        let fd = fd.as_raw_fd().cast_unsigned();
        self.object(&FdObject { kind: BINDER_TYPE_FD, fd, ..Default::default() }.to_bytes())
    }

    /// Adds a separate buffer with an array of descriptors.
    pub(crate) fn array(mut self, fds: &[BorrowedFd<'_>]) -> Self {
        let numbers: Vec<u8> = fds.iter().flat_map(|fd| fd.as_raw_fd().to_ne_bytes()).collect();
        let (parent, count) = (self.offsets.len() as u64 / 8, fds.len() as u64);
        let (buffer, length) = (numbers.as_ptr() as u64, numbers.len() as u64);
        self.room += length.next_multiple_of(8);
        self.buffers.push(numbers);
        self.object(&BufferObject { kind: BINDER_TYPE_PTR, buffer, length, ..Default::default() }.to_bytes())
            .object(&FdArrayObject { kind: BINDER_TYPE_FDA, count, parent, ..Default::default() }.to_bytes())
    }

    pub(crate) fn describe(&self, target: u32, code: u32, flags: u32) -> TransactionDataSg {
        let plain = TransactionData {
            target: target.into(),
            flags,
            offsets_size: self.offsets.len() as u64,
            offsets: self.offsets.as_ptr() as u64,
            ..TransactionData::new(code, &self.data)
        };
        plain.gathered(self.room)
    }

    pub(crate) fn memory(&self) -> Vec<&[u8]> {
        let mut memory: Vec<&[u8]> = vec![&self.data, &self.offsets];
        memory.extend(self.buffers.iter().map(Vec::as_slice));
        memory
    }
}

/// A received message, copied out of the area.
#[derive(Default, Debug)]
pub(crate) struct Arrived {
    pub(crate) data: Vec<u8>,
    /// The descriptors that the receiver must close. The driver closes those in arrays.
    pub(crate) fds: Vec<OwnedFd>,
    /// Counted as long as the buffer lasts.
    pub(crate) handles: Vec<u32>,
}

impl Arrived {
    pub(crate) fn read(driver: &impl Driver, transaction: &TransactionData) -> Self {
        let data =
            driver.received(transaction.buffer, transaction.data_size).expect("inside the area").to_vec();
        let offsets =
            driver.received(transaction.offsets, transaction.offsets_size).expect("inside the area");
        let mut arrived = Self::default();
        for at in offsets.chunks_exact(8).map(|offset| u64::take(offset) as usize) {
            match u32::take(&data[at..at + 4]) {
                BINDER_TYPE_FD => {
                    let fd = FdObject::from_bytes(&data[at..]).expect("a whole object").fd;
                    arrived.fds.push(driver.take_fd(fd).expect("the driver has opened it"));
                }
                BINDER_TYPE_HANDLE => {
                    let handle = FlatBinderObject::from_bytes(&data[at..]).expect("a whole object");
                    arrived.handles.push(handle.binder as u32);
                }
                _ => {}
            }
        }
        arrived.data = data;
        arrived
    }
}
