//! A payload as the bytes that a sender has in its memory, flaws included.

use std::io::PipeReader;
use std::os::fd::AsRawFd as _;

use binder_driver::uapi::*;

use super::steps::{Flaw, Object, Payload};

/// No address that anybody can map.
const NOWHERE: u64 = 0x10;

/// A payload in the sender's memory.
pub(super) struct Built {
    data: Vec<u8>,
    offsets: Vec<u8>,
    /// The scatter-gather buffers.
    lent: Vec<Vec<u8>>,
    /// What the file descriptors stand for.
    _files: Vec<PipeReader>,
    sizes: [u64; 3],
    addresses: [u64; 2],
}

impl Built {
    /// `padding` bytes go behind data that is not empty: where every step has another, no two
    /// buffers are equally large. `handle` says which number a target has.
    #[expect(
        clippy::too_many_lines,
        reason = "a buffer is built from its first byte to its last, with each flaw where it belongs"
    )]
    pub(super) fn new(
        payload: &Payload,
        padding: usize,
        handle: impl Fn(super::steps::Target) -> u32,
    ) -> Self {
        let flaw = |which| payload.flaw == Some(which);
        let mut data = if payload.lead { vec![0x4c; 8] } else { Vec::new() };
        let (mut offsets, mut lent, mut room) = (Vec::<u64>::new(), Vec::new(), 0);
        let mut files = Vec::new();
        let mut number_of_file = |open: bool| {
            if !open {
                return u32::MAX;
            }
            let (file, _) = std::io::pipe().expect("a pipe");
            let number = file.as_raw_fd().cast_unsigned();
            files.push(file);
            number
        };
        for object in &payload.objects {
            offsets.push(data.len() as u64);
            match *object {
                Object::Node { weak, ptr, cookie, flags } => {
                    let kind = if weak { BINDER_TYPE_WEAK_BINDER } else { BINDER_TYPE_BINDER };
                    data.extend(FlatBinderObject { kind, flags, binder: ptr, cookie }.to_bytes());
                }
                Object::Handle { weak, target } => {
                    let kind = if weak { BINDER_TYPE_WEAK_HANDLE } else { BINDER_TYPE_HANDLE };
                    let binder = handle(target).into();
                    data.extend(FlatBinderObject { kind, flags: 0, binder, cookie: 0 }.to_bytes());
                }
                Object::Buffer { .. } | Object::Numbers { .. } => {
                    let (bytes, parent) = match object {
                        Object::Numbers { words, open } => {
                            let words = std::iter::repeat_n(0x77, *words);
                            let numbers = open.iter().map(|open| number_of_file(*open));
                            (words.chain(numbers).flat_map(u32::to_ne_bytes).collect(), None)
                        }
                        Object::Buffer { bytes, parent } => {
                            let byte = |at| (at * 7 + offsets.len()) as u8;
                            ((0..*bytes).map(byte).collect::<Vec<u8>>(), *parent)
                        }
                        _ => unreachable!("one of the two"),
                    };
                    let mut object = BufferObject {
                        kind: BINDER_TYPE_PTR,
                        flags: if parent.is_some() { BINDER_BUFFER_FLAG_HAS_PARENT } else { 0 },
                        buffer: bytes.as_ptr() as u64,
                        length: bytes.len() as u64,
                        parent: parent.map_or(0, |parent| parent.index),
                        parent_offset: parent.map_or(0, |parent| parent.offset),
                    };
                    room += bytes.len().next_multiple_of(8) as u64;
                    match payload.flaw {
                        Some(Flaw::NoBuffer) => object.buffer = NOWHERE,
                        Some(Flaw::HugeBuffer) => object.length = u64::MAX - 3,
                        _ => {}
                    }
                    data.extend(object.to_bytes());
                    lent.push(bytes);
                }
                Object::Fd { open } => {
                    let fd = number_of_file(open);
                    data.extend(
                        FdObject { kind: BINDER_TYPE_FD, fd, pad: 9, ..Default::default() }.to_bytes(),
                    );
                }
                Object::FdArray { count, parent } => {
                    let (parent, parent_offset) = (parent.index, parent.offset);
                    let array = FdArrayObject { kind: BINDER_TYPE_FDA, pad: 3, count, parent, parent_offset };
                    data.extend(array.to_bytes());
                }
                Object::Garbage => data.extend([0x5a; 24]),
            }
        }
        let padding = if data.is_empty() && payload.bytes == 0 { 0 } else { padding };
        data.extend((0..payload.bytes + padding).map(|at| at as u8));
        if flaw(Flaw::BackwardOffsets) {
            offsets.reverse();
        }
        let last = offsets.last_mut();
        match (payload.flaw, last) {
            (Some(Flaw::OddOffset), Some(last)) => *last += 2,
            (Some(Flaw::OffsetOutside), Some(last)) => *last = data.len() as u64 - 4,
            (Some(Flaw::HugeOffset), Some(last)) => *last = u64::MAX - 3,
            (Some(Flaw::OverlappingOffsets), Some(last)) => {
                let twice = *last;
                offsets.push(twice);
            }
            _ => {}
        }
        room = match payload.flaw {
            Some(Flaw::LittleRoom) => room.saturating_sub(8),
            Some(Flaw::OddRoom) => room + 4,
            Some(Flaw::MuchRoom) => room + 64,
            _ => room,
        };
        let mut offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
        if flaw(Flaw::OddOffsets) {
            offsets.extend([0; 4]);
        }
        let sizes = match payload.flaw {
            Some(Flaw::HugeSize) => [u64::MAX - 15, offsets.len() as u64 + 16, room],
            _ => [data.len() as u64, offsets.len() as u64, room],
        };
        let address = |bytes: &[u8], nowhere| if flaw(nowhere) { NOWHERE } else { bytes.as_ptr() as u64 };
        let addresses = [address(&data, Flaw::NoData), address(&offsets, Flaw::NoOffsets)];
        Self { data, offsets, lent, _files: files, sizes, addresses }
    }

    /// The command's description. It holds as long as this value.
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

    /// Room for buffers, for a command that asks for some, in bytes.
    pub(super) fn room(&self) -> u64 {
        self.sizes[2]
    }

    /// The memory that the driver may read.
    pub(super) fn memory(&self) -> impl Iterator<Item = &[u8]> {
        [&self.data[..], &self.offsets].into_iter().chain(self.lent.iter().map(Vec::as_slice))
    }
}
