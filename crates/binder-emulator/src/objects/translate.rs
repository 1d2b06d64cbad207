//! Objects in a transaction's data: nodes become handles and handles nodes. Scatter-gather buffers
//! are copied behind the data, and pointers to them are adjusted.
//!
//! As in the kernel's `binder_translate_*`, `binder_fixup_parent` and `binder_validate_fixup`
//! (`binder.c`), including refusals. Of file descriptors, this file only knows the places of their
//! numbers.

use rustix::io::Errno;

use super::{Object, object_at, offset_at};
use crate::ioctl::Ioctl;
use crate::node::Strength;
use crate::records::{Buffer, Id, Process, buffer, node, process, reference};
use roundtrip_binder_driver::uapi::{
    BINDER_BUFFER_FLAG_HAS_PARENT, BINDER_TYPE_BINDER, BINDER_TYPE_HANDLE, BINDER_TYPE_PTR,
    BINDER_TYPE_WEAK_BINDER, BINDER_TYPE_WEAK_HANDLE, BufferObject, FdArrayObject, FdObject, Field,
    FlatBinderObject, TransactionDataSg, align8,
};

/// How far the fix-ups of pointers have come: they must go forwards, within one tree of buffers.
struct FixUp {
    last_object: u64,
    least_offset: u64,
}

impl Ioctl<'_> {
    /// Rewrites the objects of a filled buffer for its receiver.
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
        let memory = self.memory;
        let data = memory.slice(sent.buffer, sent.data_size).ok_or(Errno::FAULT)?;
        let offsets = memory.slice(sent.offsets, sent.offsets_size).ok_or(Errno::FAULT)?;
        let start = self.guard.get(filled, buffer::OFFSET);
        let area_address = self.guard.get(receiver, process::AREA_ADDRESS);
        let mut next_buffer = self.guard.offsets_at(filled).saturating_add(sent.offsets_size);
        let buffers_end = next_buffer.saturating_add(sent.buffers_size);
        let mut least = 0;
        let mut fix_up = FixUp { last_object: 0, least_offset: 0 };
        for index in 0..offsets.len() as u64 / 8 {
            let offset = offset_at(offsets, index).ok_or(Errno::INVAL)?;
            // The kernel first copies the data between two objects, and finds none there.
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

    /// Writes a buffer's address into its parent, if it has one.
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

    /// Whether a pointer at `at` in the buffer of the object at `parent_at` may be fixed up now.
    fn check_fix_up(&self, tree: &Tree, parent_at: u64, at: u64, fix_up: &FixUp) -> Result<(), Errno> {
        // The kernel takes 0 for "no object yet", and so refuses a tree whose root is at the start
        // of the data.
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
        // The receiver's buffers begin at multiples of 8, so only the offset decides the alignment.
        if !array.parent_offset.is_multiple_of(4) || !at.is_multiple_of(4) {
            return Err(Errno::INVAL);
        }
        let numbers = self.memory.slice(at, bytes).ok_or(Errno::INVAL)?;
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

/// The buffer whose pointers are being fixed up.
struct Tree {
    receiver: Id<Process>,
    start: u64,
    filled: Id<Buffer>,
    /// Objects before the current one.
    earlier: u64,
}
