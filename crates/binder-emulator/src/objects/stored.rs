//! The objects of a buffer in its receiver's area: where its descriptors are written, and the
//! references that end with the buffer.

use super::{Object, object_at};
use crate::lock::Guard;
use crate::node::Strength;
use crate::records::{AREA_BYTES, Buffer, Id, Process, buffer, process};
use crate::region::{Region, inside};
use roundtrip_binder_driver::uapi::{
    BINDER_TYPE_BINDER, BINDER_TYPE_HANDLE, BINDER_TYPE_WEAK_BINDER, BINDER_TYPE_WEAK_HANDLE, BufferObject,
};

/// The objects of a buffer in its receiver's area. Each is copied out before it is examined,
/// because others can write there.
struct Stored {
    slot: usize,
    start: u64,
    size: u64,
    offsets_at: u64,
    /// The most there can be: what the area has room for.
    count: u64,
}

impl Stored {
    fn of(guard: &Guard<'_>, owner: Id<Process>, held: Id<Buffer>) -> Self {
        let (start, size) = (guard.get(held, buffer::OFFSET), guard.get(held, buffer::DATA_SIZE));
        let (offsets_at, count) = (guard.offsets_at(held), guard.get(held, buffer::OBJECTS));
        let all = inside(start, size).and(inside(offsets_at, count.saturating_mul(8)));
        let count = if all.is_some() { count } else { 0 };
        Self { slot: owner.index(), start, size, offsets_at, count }
    }

    /// An object and its offset in the data.
    fn object(&self, region: &Region, index: u64) -> Option<(u64, Object)> {
        let mut offset = [0; 8];
        let at = self.offsets_at.saturating_add(index.saturating_mul(8));
        if index >= self.count || !region.read_area(self.slot, at, &mut offset) {
            return None;
        }
        let offset = u64::from_ne_bytes(offset);
        let mut bytes = [0; BufferObject::SIZE]; // the largest of all
        let length = self.size.checked_sub(offset)?.min(bytes.len() as u64);
        let bytes = bytes.get_mut(..usize::try_from(length).ok()?)?;
        if !offset.is_multiple_of(4) || !region.read_area(self.slot, self.start.saturating_add(offset), bytes)
        {
            return None;
        }
        Some((offset, object_at(bytes, 0)?.0))
    }
}

/// Where a received descriptor's number is written.
pub(crate) struct Place {
    /// From the start of the area.
    pub(crate) at: u64,
    /// It is closed with its buffer.
    pub(crate) in_array: bool,
}

/// More descriptors than fit into an area.
const MOST_PLACES: u64 = AREA_BYTES as u64 / 4;

/// The places of the descriptors of a buffer that is to be delivered to `owner`, in the order they
/// were sent. Some or all are missing if others have overwritten the area.
pub(crate) fn descriptor_places(guard: &Guard<'_>, owner: Id<Process>, held: Id<Buffer>) -> Vec<Place> {
    let stored = Stored::of(guard, owner, held);
    let start = stored.start;
    let area_address = guard.get(owner, process::AREA_ADDRESS);
    let mut places = Vec::new();
    for index in 0..stored.count {
        match stored.object(guard.region(), index) {
            Some((offset, Object::Fd(_))) => {
                places
                    .push(Place { at: start.saturating_add(offset).saturating_add(FD_AT), in_array: false });
            }
            Some((_, Object::FdArray(array))) => {
                let parent = stored.object(guard.region(), array.parent);
                let Some((_, Object::Buffer(parent))) = parent else { continue };
                let first = parent.buffer.wrapping_sub(area_address).wrapping_add(array.parent_offset);
                let bytes = array.count.saturating_mul(4);
                let all = array.count.saturating_add(places.len() as u64);
                if inside(first, bytes).is_none() || all > MOST_PLACES {
                    continue;
                }
                let end = first.saturating_add(bytes);
                places.extend((first..end).step_by(4).map(|at| Place { at, in_array: true }));
            }
            _ => {}
        }
    }
    places
}

/// The offset of the number in an [`FdObject`].
const FD_AT: u64 = 8;

/// Drops the references that a buffer's objects hold for `owner`, its receiver.
pub(crate) fn release(guard: &mut Guard<'_>, owner: Id<Process>, returned: Id<Buffer>) {
    let stored = Stored::of(guard, owner, returned);
    guard.set(returned, buffer::OBJECTS, 0);
    for index in 0..stored.count {
        let Some((_, Object::Flat(flat))) = stored.object(guard.region(), index) else { continue };
        let strength = match flat.kind {
            BINDER_TYPE_BINDER | BINDER_TYPE_HANDLE => Strength::Strong,
            _ => Strength::Weak,
        };
        // Only a full table can make these fail. The owner then gets no notification; the counts
        // are right.
        let _ = match flat.kind {
            BINDER_TYPE_BINDER | BINDER_TYPE_WEAK_BINDER => {
                guard.find_node(owner, flat.binder).map_or(Ok(()), |local| {
                    guard.dec_node(local, strength, false).and_then(|()| guard.put_node(local))
                })
            }
            BINDER_TYPE_HANDLE | BINDER_TYPE_WEAK_HANDLE => guard
                .find_ref(owner, flat.binder, strength)
                .map_or(Ok(()), |held| guard.dec_ref(held, strength)),
            _ => Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Sizes;
    use crate::lock::Scratch;
    use roundtrip_binder_driver::uapi::{
        BINDER_TYPE_FD, BINDER_TYPE_FDA, BINDER_TYPE_PTR, FdArrayObject, FdObject,
    };

    /// The descriptor places of a buffer with a descriptor, a scatter-gather buffer of 64 bytes
    /// (`parent_at` bytes from the start of the area) and an array of `count` descriptors at
    /// `first` in that.
    fn places(parent_at: u64, count: u64, first: u64, objects: u64) -> Vec<(u64, bool)> {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let owner = Id::<Process>::new(1).expect("a slot");
        guard.open_area(owner, AREA_BYTES as u64).expect("a buffer");
        guard.set(owner, process::AREA_ADDRESS, 0x7000_0000);
        let fd = FdObject { kind: BINDER_TYPE_FD, ..Default::default() };
        let parent = BufferObject {
            kind: BINDER_TYPE_PTR,
            buffer: 0x7000_0000 + parent_at,
            length: 64,
            ..Default::default()
        };
        let array = FdArrayObject {
            kind: BINDER_TYPE_FDA,
            count,
            parent: 1,
            parent_offset: first,
            ..Default::default()
        };
        let mut bytes = Vec::new();
        let mut offsets = Vec::new();
        for object in [fd.to_bytes().as_slice(), &parent.to_bytes(), &array.to_bytes()] {
            offsets.extend((bytes.len() as u64).to_ne_bytes());
            bytes.extend(object);
        }
        let sizes = Sizes { data: bytes.len() as u64, offsets: offsets.len() as u64, extra: 64 };
        let held = guard.alloc_buffer(owner, sizes, None).expect("room");
        assert!(region.write_area(1, 0, bytes.as_slice().into()));
        assert!(region.write_area(1, guard.offsets_at(held), offsets.as_slice().into()));
        guard.set(held, buffer::OBJECTS, objects);
        descriptor_places(&guard, owner, held).iter().map(|place| (place.at, place.in_array)).collect()
    }

    #[test]
    fn descriptors_are_written_where_their_objects_say_if_that_is_inside_the_area() {
        let area = AREA_BYTES as u64;
        let alone = [(FD_AT, false)];
        assert_eq!(places(256, 2, 4, 3), [(FD_AT, false), (260, true), (264, true)]);
        assert_eq!(places(256, 2, 4, 2), alone, "the array is not translated yet");
        assert_eq!(places(256, 0, 4, 3), alone);
        assert_eq!(places(area - 8, 2, 0, 3).len(), 3);
        assert_eq!(places(area - 8, 2, 4, 3), alone, "beyond the area");
        assert_eq!(places(0, MOST_PLACES, 0, 3), alone, "more than an area has room for");
        assert_eq!(places(0, u64::MAX, 0, 3), alone);
        assert_eq!(places(0, MOST_PLACES - 1, 0, 3).len() as u64, MOST_PLACES);
        assert_eq!(places(256, 2, 4, u64::MAX), [], "more objects than an area has room for");
    }
}
