//! Objects in a transaction's data: nodes become handles and handles nodes, scatter-gather buffers are copied behind the
//! data and pointers to them put right.
//!
//! As in the kernel's `binder_translate_*`, `binder_fixup_parent` and `binder_validate_fixup` (`binder.c`), refusals
//! included. Of file descriptors, this file knows where their numbers stand.

use rustix::io::Errno;

use crate::ioctl::Ioctl;
use crate::lock::Guard;
use crate::node::Strength;
use crate::records::{AREA_BYTES, Buffer, Id, Process, buffer, node, process, reference};
use crate::region::{Region, inside};
use binder_driver::Lent;
use binder_driver::uapi::{
    BINDER_BUFFER_FLAG_HAS_PARENT, BINDER_TYPE_BINDER, BINDER_TYPE_FD, BINDER_TYPE_FDA, BINDER_TYPE_HANDLE,
    BINDER_TYPE_PTR, BINDER_TYPE_WEAK_BINDER, BINDER_TYPE_WEAK_HANDLE, BufferObject, FdArrayObject, FdObject,
    Field, FlatBinderObject, TransactionDataSg, align8,
};

enum Object {
    Flat(FlatBinderObject),
    Buffer(BufferObject),
    Fd(FdObject),
    FdArray(FdArrayObject),
}

/// The object at `offset` of the data, if one can lie there.
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

/// Copies the scatter-gather buffers behind the offsets, in the order of their objects. False when they do not fit the
/// room that the sender asked for, or are not its memory.
pub(crate) fn copy_buffers(
    region: &Region,
    slot: usize,
    offsets_at: u64,
    data: &[u8],
    offsets: &[u8],
    room: u64,
    lent: &Lent<'_>,
) -> bool {
    let mut left = room;
    let mut at = offsets_at.saturating_add(offsets.len() as u64);
    for index in 0..offsets.len() as u64 / 8 {
        let object = offset_at(offsets, index).and_then(|offset| object_at(data, offset));
        let Some((Object::Buffer(object), _)) = object else { continue };
        let Some(length) = align8(object.length).filter(|_| object.length <= left) else { return false };
        let Some(bytes) = lent.bytes(object.buffer, object.length) else { return false };
        if !region.write_area(slot, at, bytes) {
            return false;
        }
        at = at.saturating_add(length);
        left = left.saturating_sub(length);
    }
    true
}

/// How far the fix-ups of pointers have come: they must go forwards, within one tree of buffers.
struct FixUp {
    last_object: u64,
    least_offset: u64,
}

impl Ioctl<'_> {
    /// Puts the objects of a filled buffer right for its receiver.
    pub(crate) fn translate(
        &mut self,
        receiver: Id<Process>,
        filled: Id<Buffer>,
        sent: &TransactionDataSg,
        accepts_descriptors: bool,
    ) -> Result<(), Errno> {
        self.sending.clear();
        if sent.offsets_size == 0 {
            return Ok(()); // also of data that others may change
        }
        let lent = self.lent;
        let data = lent.slice(sent.buffer, sent.data_size).ok_or(Errno::FAULT)?;
        let offsets = lent.slice(sent.offsets, sent.offsets_size).ok_or(Errno::FAULT)?;
        let start = self.guard.get(filled, buffer::OFFSET);
        let area_address = self.guard.get(receiver, process::AREA_ADDRESS);
        let mut next_buffer = self.guard.offsets_at(filled).saturating_add(sent.offsets_size);
        let buffers_end = next_buffer.saturating_add(sent.buffers_size);
        let mut least = 0;
        let mut fix_up = FixUp { last_object: 0, least_offset: 0 };
        for index in 0..offsets.len() as u64 / 8 {
            let offset = offset_at(offsets, index).ok_or(Errno::INVAL)?;
            // The kernel copies the data between two objects first, and finds none there.
            if offset < least || offset > sent.data_size {
                return Err(Errno::FAULT);
            }
            let (object, size) = object_at(data, offset).ok_or(Errno::INVAL)?;
            least = offset.saturating_add(size);
            let at = start.saturating_add(offset);
            let tree = Tree { receiver, start, filled, earlier: index };
            match object {
                Object::Flat(flat) => {
                    let translated = self.translate_flat(receiver, &flat)?;
                    self.put(receiver, at, &translated.to_bytes())?;
                }
                Object::Buffer(mut object) => {
                    let length = align8(object.length).ok_or(Errno::INVAL)?;
                    if object.length > buffers_end.saturating_sub(next_buffer) {
                        return Err(Errno::INVAL);
                    }
                    object.buffer = area_address.wrapping_add(next_buffer);
                    next_buffer = next_buffer.saturating_add(length).min(buffers_end);
                    self.fix_parent(&tree, &object, &fix_up)?;
                    self.put(receiver, at, &object.to_bytes())?;
                    fix_up = FixUp { last_object: offset, least_offset: 0 };
                }
                Object::Fd(object) => {
                    self.pass(object.fd, accepts_descriptors)?;
                    let translated = FdObject { fd: 0, pad: 0, ..object };
                    self.put(receiver, at, &translated.to_bytes())?;
                }
                Object::FdArray(array) => {
                    let (parent_at, parent) = self.translated(&tree, array.parent)?;
                    self.check_fix_up(&tree, parent_at, array.parent_offset, &fix_up)?;
                    let sender = object_at(data, parent_at);
                    let Some((Object::Buffer(sender), _)) = sender else { return Err(Errno::INVAL) };
                    self.pass_array(&array, &parent, &sender, accepts_descriptors)?;
                    fix_up = FixUp {
                        last_object: parent_at,
                        least_offset: array.parent_offset.wrapping_add(array.count.wrapping_mul(4)),
                    };
                }
            }
            self.guard.set(filled, buffer::OBJECTS, index.saturating_add(1));
        }
        Ok(())
    }

    fn put(&self, receiver: Id<Process>, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.guard.region().write_area(receiver.index(), at, bytes.into()).then_some(()).ok_or(Errno::INVAL)
    }

    fn translate_flat(
        &mut self,
        receiver: Id<Process>,
        flat: &FlatBinderObject,
    ) -> Result<FlatBinderObject, Errno> {
        let strength = match flat.kind {
            BINDER_TYPE_BINDER | BINDER_TYPE_HANDLE => Strength::Strong,
            BINDER_TYPE_WEAK_BINDER | BINDER_TYPE_WEAK_HANDLE => Strength::Weak,
            _ => return Err(Errno::PERM),
        };
        let as_handle = |held: u32| FlatBinderObject {
            kind: if strength == Strength::Strong { BINDER_TYPE_HANDLE } else { BINDER_TYPE_WEAK_HANDLE },
            flags: flat.flags,
            binder: held.into(),
            cookie: 0,
        };
        let guard = &mut self.guard;
        if matches!(flat.kind, BINDER_TYPE_BINDER | BINDER_TYPE_WEAK_BINDER) {
            let local = match guard.find_node(self.process, flat.binder) {
                Some(known) => known,
                None => guard.new_node(self.process, flat)?,
            };
            if guard.get(local, node::COOKIE) != flat.cookie {
                return Err(Errno::INVAL);
            }
            let held = guard.inc_ref_for_node(receiver, local, strength, Some(self.thread))?;
            return Ok(as_handle(guard.get(held, reference::HANDLE)));
        }
        let own = guard.find_ref(self.process, flat.binder, strength).ok_or(Errno::INVAL)?;
        let target = guard.get(own, reference::NODE).ok_or(Errno::INVAL)?;
        if guard.get(target, node::PROCESS) == Some(receiver) {
            guard.inc_node(target, strength, false, None)?;
            return Ok(FlatBinderObject {
                kind: if strength == Strength::Strong { BINDER_TYPE_BINDER } else { BINDER_TYPE_WEAK_BINDER },
                flags: flat.flags,
                binder: guard.get(target, node::PTR),
                cookie: guard.get(target, node::COOKIE),
            });
        }
        let held = guard.inc_ref_for_node(receiver, target, strength, None)?;
        Ok(as_handle(guard.get(held, reference::HANDLE)))
    }

    /// Writes a buffer's address into its parent, where it has one.
    fn fix_parent(&self, tree: &Tree, object: &BufferObject, fix_up: &FixUp) -> Result<(), Errno> {
        if object.flags & BINDER_BUFFER_FLAG_HAS_PARENT == 0 {
            return Ok(());
        }
        let (parent_at, parent) = self.translated(tree, object.parent)?;
        self.check_fix_up(tree, parent_at, object.parent_offset, fix_up)?;
        if parent.length.checked_sub(8).is_none_or(|last| object.parent_offset > last) {
            return Err(Errno::INVAL);
        }
        let area_address = self.guard.get(tree.receiver, process::AREA_ADDRESS);
        let at = parent.buffer.wrapping_sub(area_address).wrapping_add(object.parent_offset);
        self.put(tree.receiver, at, &object.buffer.to_ne_bytes())
    }

    /// Whether something may be put right now at `at` of the buffer of the object at `parent_at`.
    fn check_fix_up(&self, tree: &Tree, parent_at: u64, at: u64, fix_up: &FixUp) -> Result<(), Errno> {
        // The kernel takes 0 for "no object yet", and so refuses a tree whose root lies at the data's start.
        if fix_up.last_object == 0 {
            return Err(Errno::INVAL);
        }
        let (mut last, mut least) = (fix_up.last_object, fix_up.least_offset);
        while last != parent_at {
            self.guard.step(Some(tree.filled)).ok_or(Errno::PROTO)?;
            let passed = self.object_of(tree, last)?;
            if passed.flags & BINDER_BUFFER_FLAG_HAS_PARENT == 0 {
                return Err(Errno::INVAL);
            }
            least = passed.parent_offset.saturating_add(8);
            // Parents come before their children, so this ends.
            let (next, _) = self.translated(tree, passed.parent)?;
            if next >= last {
                return Err(Errno::INVAL);
            }
            last = next;
        }
        if at < least { Err(Errno::INVAL) } else { Ok(()) }
    }

    /// The descriptors of an array, as numbers in the sender's own buffer.
    fn pass_array(
        &mut self,
        array: &FdArrayObject,
        parent: &BufferObject,
        sender: &BufferObject,
        accepted: bool,
    ) -> Result<(), Errno> {
        if array.count == 0 {
            return Ok(());
        }
        let bytes = array.count.checked_mul(4).filter(|&bytes| bytes <= parent.length).ok_or(Errno::INVAL)?;
        if array.parent_offset > parent.length.saturating_sub(bytes) {
            return Err(Errno::INVAL);
        }
        let at = sender.buffer.wrapping_add(array.parent_offset);
        // The receiver's buffers begin at multiples of 8, so its alignment is that of the offset.
        if !array.parent_offset.is_multiple_of(4) || !at.is_multiple_of(4) {
            return Err(Errno::INVAL);
        }
        let numbers = self.lent.slice(at, bytes).ok_or(Errno::INVAL)?;
        numbers.chunks_exact(4).try_for_each(|number| self.pass(u32::take(number), accepted))
    }

    /// The `index`-th object, as translated, and its offset in the data.
    fn translated(&self, tree: &Tree, index: u64) -> Result<(u64, BufferObject), Errno> {
        if index >= tree.earlier {
            return Err(Errno::INVAL);
        }
        let at = self.guard.offsets_at(tree.filled).saturating_add(index.saturating_mul(8));
        let mut offset = [0; 8];
        if !self.guard.region().read_area(tree.receiver.index(), at, &mut offset) {
            return Err(Errno::INVAL);
        }
        let offset = u64::from_ne_bytes(offset);
        Ok((offset, self.object_of(tree, offset)?))
    }

    fn object_of(&self, tree: &Tree, offset: u64) -> Result<BufferObject, Errno> {
        let at = tree.start.checked_add(offset).ok_or(Errno::INVAL)?;
        let mut bytes = [0; BufferObject::SIZE];
        let read = self.guard.region().read_area(tree.receiver.index(), at, &mut bytes);
        Some(&bytes)
            .filter(|_| read)
            .and_then(|bytes| BufferObject::from_bytes(bytes))
            .filter(|object| object.kind == BINDER_TYPE_PTR)
            .ok_or(Errno::INVAL)
    }
}

/// The buffer whose pointers are being put right.
struct Tree {
    receiver: Id<Process>,
    start: u64,
    filled: Id<Buffer>,
    /// Objects before the current one.
    earlier: u64,
}

/// The objects of a buffer that lies in its receiver's area. Each is copied out before it is looked at, since others can write
/// there.
struct Stored {
    slot: usize,
    start: u64,
    size: u64,
    offsets_at: u64,
    /// How many there may be: no more than the area has room for.
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

/// Where a received descriptor's number belongs.
pub(crate) struct Place {
    /// From the start of the area.
    pub(crate) at: u64,
    /// It ends with its buffer.
    pub(crate) in_array: bool,
}

/// More descriptors than an area has room for.
const MOST_PLACES: u64 = AREA_BYTES as u64 / 4;

/// Where the descriptors of a buffer that is to be delivered to `owner` belong, in the order that they were sent in. None, or
/// not all, where others have scribbled on the area.
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

/// Where the number stands in an [`FdObject`].
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
        // Only a full table can make these fail, and then an owner is not told; the counts are right.
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

    /// Where the descriptors of a buffer belong that holds a descriptor, a scatter-gather buffer of 64 bytes (as the area has it,
    /// `parent_at` bytes from its begin) and an array of `count` descriptors at `first` of that.
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
    fn descriptors_belong_where_their_objects_say_if_that_is_inside_the_area() {
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

    #[test]
    fn an_object_lies_at_a_multiple_of_4_and_wholly_in_the_data() {
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
