//! Objects in a transaction's data: what they are, and the scatter-gather buffers that they name.
//!
//! As in the kernel's `binder_get_object` (`binder.c`). `translate` rewrites them for the receiver,
//! `stored` finds them again in its area.

mod stored;
mod translate;

use crate::region::Region;
use roundtrip_binder_driver::ReadableMemory;
use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_BINDER, BINDER_TYPE_FD, BINDER_TYPE_FDA, BINDER_TYPE_HANDLE, BINDER_TYPE_PTR,
    BINDER_TYPE_WEAK_BINDER, BINDER_TYPE_WEAK_HANDLE, BufferObject, FdArrayObject, FdObject, Field,
    FlatBinderObject, align8,
};
pub(crate) use stored::{descriptor_places, release};

enum Object {
    Flat(FlatBinderObject),
    Buffer(BufferObject),
    Fd(FdObject),
    FdArray(FdArrayObject),
}

/// The object at `offset` of the data, if one fits there.
fn object_at(data: &[u8], offset: u64) -> Option<(Object, u64)> {
    if !offset.is_multiple_of(4) {
        return None;
    }
    let bytes = data.get(usize::try_from(offset).ok()?..)?;
    let object = match u32::take(bytes.get(..4)?) {
        BINDER_TYPE_BINDER | BINDER_TYPE_WEAK_BINDER | BINDER_TYPE_HANDLE | BINDER_TYPE_WEAK_HANDLE => {
            (Object::Flat(FlatBinderObject::from_bytes(bytes)?), FlatBinderObject::SIZE)
        }
        BINDER_TYPE_FD => (Object::Fd(FdObject::from_bytes(bytes)?), FdObject::SIZE),
        BINDER_TYPE_PTR => (Object::Buffer(BufferObject::from_bytes(bytes)?), BufferObject::SIZE),
        BINDER_TYPE_FDA => (Object::FdArray(FdArrayObject::from_bytes(bytes)?), FdArrayObject::SIZE),
        _ => return None,
    };
    Some((object.0, object.1 as u64))
}

fn offset_at(offsets: &[u8], index: u64) -> Option<u64> {
    let at = usize::try_from(index).ok()?.checked_mul(8)?;
    Some(u64::take(offsets.get(at..at.checked_add(8)?)?))
}

/// Copies the scatter-gather buffers behind the offsets, in the order of their objects. False if
/// they do not fit the room that the sender asked for, or are not its memory.
pub(crate) fn copy_buffers(
    region: &Region,
    slot: usize,
    offsets_at: u64,
    data: &[u8],
    offsets: &[u8],
    room: u64,
    memory: &ReadableMemory<'_>,
) -> bool {
    let mut left = room;
    let mut at = offsets_at.saturating_add(offsets.len() as u64);
    for index in 0..offsets.len() as u64 / 8 {
        let object = offset_at(offsets, index).and_then(|offset| object_at(data, offset));
        let Some((Object::Buffer(object), _)) = object else { continue };
        let Some(length) = align8(object.length).filter(|_| object.length <= left) else { return false };
        let Some(bytes) = memory.bytes(object.buffer, object.length) else { return false };
        if !region.write_area(slot, at, bytes) {
            return false;
        }
        at = at.saturating_add(length);
        left = left.saturating_sub(length);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_aligned_to_4_bytes_and_inside_the_data() {
        let fd = FdObject { kind: BINDER_TYPE_FD, ..Default::default() }.to_bytes();
        let data = [&[0; 4][..], &fd, &[0; 3]].concat();
        let size = |at| object_at(&data, at).map(|(_, size)| size);
        assert_eq!(size(4), Some(FdObject::SIZE as u64));
        assert_eq!([size(0), size(5), size(8), size(64), size(u64::MAX)], [None; 5]);
        assert!(object_at(data.get(..4 + FdObject::SIZE - 1).expect("a part"), 4).is_none());
        let offsets = [7_u64, 9].map(u64::to_ne_bytes).concat();
        let offset = |index| offset_at(&offsets, index);
        assert_eq!([offset(0), offset(1), offset(2), offset(u64::MAX)], [Some(7), Some(9), None, None]);
    }
}
