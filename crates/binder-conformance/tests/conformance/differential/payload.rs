//! A payload as bytes in the sender's memory, including flaws.

use std::io::PipeReader;
use std::os::fd::AsRawFd as _;

use roundtrip_binder_driver::uapi::*;

use super::steps::{Flaw, Object, Parent, Payload, Target};

/// An address that no process can map.
const NOWHERE: u64 = 0x10;

/// A payload in the sender's memory.
pub(super) struct Built {
    data: Vec<u8>,
    offsets: Vec<u8>,
    /// The scatter-gather buffers.
    buffers: Vec<Vec<u8>>,
    /// The files behind the descriptors.
    _files: Vec<PipeReader>,
    sizes: [u64; 3],
    addresses: [u64; 2],
}

/// A payload while its objects are added.
#[derive(Default)]
struct Parts {
    data: Vec<u8>,
    offsets: Vec<u64>,
    buffers: Vec<Vec<u8>>,
    files: Vec<PipeReader>,
    /// The total size of the scatter-gather buffers, each rounded up to 8 bytes.
    room: u64,
}

impl Parts {
    fn add(&mut self, object: &Object, flaw: Option<Flaw>, handle: impl Fn(Target) -> u32) {
        self.offsets.push(self.data.len() as u64);
        match *object {
            Object::Node { weak, ptr, cookie, flags } => {
                let kind = if weak { BINDER_TYPE_WEAK_BINDER } else { BINDER_TYPE_BINDER };
                self.data.extend(FlatBinderObject { kind, flags, binder: ptr, cookie }.to_bytes());
            }
            Object::Handle { weak, target } => {
                let kind = if weak { BINDER_TYPE_WEAK_HANDLE } else { BINDER_TYPE_HANDLE };
                let binder = handle(target).into();
                self.data.extend(FlatBinderObject { kind, flags: 0, binder, cookie: 0 }.to_bytes());
            }
            Object::Numbers { words, ref open } => {
                let words = std::iter::repeat_n(0x77, words);
                let numbers = open.iter().map(|open| self.number_of_file(*open));
                let bytes = words.chain(numbers).flat_map(u32::to_ne_bytes).collect();
                self.add_buffer(bytes, None, flaw);
            }
            Object::Buffer { bytes, parent } => {
                let byte = |at| (at * 7 + self.offsets.len()) as u8;
                self.add_buffer((0..bytes).map(byte).collect(), parent, flaw);
            }
            Object::Fd { open } => {
                let fd = self.number_of_file(open);
                let object = FdObject { kind: BINDER_TYPE_FD, fd, pad: 9, ..Default::default() };
                self.data.extend(object.to_bytes());
            }
            Object::FdArray { count, parent } => {
                let (parent, parent_offset) = (parent.index, parent.offset);
                let array = FdArrayObject { kind: BINDER_TYPE_FDA, pad: 3, count, parent, parent_offset };
                self.data.extend(array.to_bytes());
            }
            Object::Garbage => self.data.extend([0x5a; 24]),
        }
    }

    fn add_buffer(&mut self, bytes: Vec<u8>, parent: Option<Parent>, flaw: Option<Flaw>) {
        let mut object = BufferObject {
            kind: BINDER_TYPE_PTR,
            flags: if parent.is_some() { BINDER_BUFFER_FLAG_HAS_PARENT } else { 0 },
            buffer: bytes.as_ptr() as u64,
            length: bytes.len() as u64,
            parent: parent.map_or(0, |parent| parent.index),
            parent_offset: parent.map_or(0, |parent| parent.offset),
        };
        self.room += bytes.len().next_multiple_of(8) as u64;
        match flaw {
            Some(Flaw::NoBuffer) => object.buffer = NOWHERE,
            Some(Flaw::HugeBuffer) => object.length = u64::MAX - 3,
            _ => {}
        }
        self.data.extend(object.to_bytes());
        self.buffers.push(bytes);
    }

    /// The number of a new pipe, or a number without a file.
    fn number_of_file(&mut self, open: bool) -> u32 {
        if !open {
            return u32::MAX;
        }
        let (file, _) = std::io::pipe().expect("a pipe");
        let number = file.as_raw_fd().cast_unsigned();
        self.files.push(file);
        number
    }

    fn damage_offsets(&mut self, flaw: Option<Flaw>) {
        if flaw == Some(Flaw::BackwardOffsets) {
            self.offsets.reverse();
        }
        let last = self.offsets.last_mut();
        match (flaw, last) {
            (Some(Flaw::OddOffset), Some(last)) => *last += 2,
            (Some(Flaw::OffsetOutside), Some(last)) => *last = self.data.len() as u64 - 4,
            (Some(Flaw::HugeOffset), Some(last)) => *last = u64::MAX - 3,
            (Some(Flaw::OverlappingOffsets), Some(last)) => {
                let twice = *last;
                self.offsets.push(twice);
            }
            _ => {}
        }
    }

    fn finish(self, flaw: Option<Flaw>) -> Built {
        let Self { data, offsets, buffers, files, room } = self;
        let room = match flaw {
            Some(Flaw::LittleRoom) => room.saturating_sub(8),
            Some(Flaw::OddRoom) => room + 4,
            Some(Flaw::MuchRoom) => room + 64,
            _ => room,
        };
        let mut offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
        if flaw == Some(Flaw::OddOffsets) {
            offsets.extend([0; 4]);
        }
        let sizes = match flaw {
            Some(Flaw::HugeSize) => [u64::MAX - 15, offsets.len() as u64 + 16, room],
            _ => [data.len() as u64, offsets.len() as u64, room],
        };
        let address =
            |bytes: &[u8], nowhere| if flaw == Some(nowhere) { NOWHERE } else { bytes.as_ptr() as u64 };
        let addresses = [address(&data, Flaw::NoData), address(&offsets, Flaw::NoOffsets)];
        Built { data, offsets, buffers, _files: files, sizes, addresses }
    }
}

impl Built {
    /// Builds a payload. `padding` bytes follow data that is not empty: each step has its own
    /// padding, so that no two buffers have the same size. `handle` returns the handle of a target.
    pub(super) fn new(payload: &Payload, padding: usize, handle: impl Fn(Target) -> u32) -> Self {
        let mut parts = Parts::default();
        if payload.lead {
            parts.data = vec![0x4c; 8];
        }
        payload.objects.iter().for_each(|object| parts.add(object, payload.flaw, &handle));
        let padding = if parts.data.is_empty() && payload.bytes == 0 { 0 } else { padding };
        parts.data.extend((0..payload.bytes + padding).map(|at| at as u8));
        parts.damage_offsets(payload.flaw);
        parts.finish(payload.flaw)
    }

    /// The transaction to send. It refers to this value's memory.
    pub(super) fn description(&self, handle: u32, flags: u32) -> TransactionData {
        TransactionData {
            target: handle.into(),
            code: 1,
            flags,
            data_size: self.sizes[0],
            offsets_size: self.sizes[1],
            buffer: self.addresses[0],
            offsets: self.addresses[1],
            ..Default::default()
        }
    }

    /// The announced size of all buffers, in bytes.
    pub(super) fn room(&self) -> u64 {
        self.sizes[2]
    }

    /// The memory that the driver may read.
    pub(super) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        [&self.data[..], &self.offsets].into_iter().chain(self.buffers.iter().map(Vec::as_slice))
    }
}
