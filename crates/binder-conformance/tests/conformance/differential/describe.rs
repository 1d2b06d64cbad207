//! Returns as text, without values that always differ (addresses, the callers' process ids). Also
//! records the buffers, handles and descriptors that the process received.

use std::fmt::Write as _;

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Driver, Return};

/// What a process received and can use later.
#[derive(Default)]
pub(super) struct Holdings {
    /// Buffers that it has not freed.
    pub(super) buffers: Vec<u64>,
    /// Handles, in the order in which they were last received.
    pub(super) handles: Vec<u32>,
    /// The descriptors that came in arrays. The driver closes them when their buffer is freed.
    pub(super) arrays: Vec<Array>,
    /// The address of the first buffer. The text shows all others relative to it.
    base: Option<u64>,
}

/// Descriptors that came in an array.
#[derive(Clone)]
pub(super) struct Array {
    pub(super) buffer: u64,
    files: Vec<(u32, u64)>,
}

impl Array {
    /// The numbers of the descriptors that are still open and name the same files.
    fn open(&self) -> impl Iterator<Item = u32> {
        let open = self.files.iter().filter(|&&(number, file)| file_at(number) == Some(file));
        open.map(|&(number, _)| number)
    }

    /// Describes which descriptors are still open after their buffer was freed.
    pub(super) fn describe(&self) -> String {
        format!("{} of {} descriptors left open; ", self.open().count(), self.files.len())
    }

    /// Closes the descriptors that the driver has not closed.
    pub(super) fn close(&self) {
        self.open().for_each(|number| drop(crate::sys::owned(number.cast_signed())));
    }
}

/// The inode that a descriptor names.
fn file_at(number: u32) -> Option<u64> {
    let status = std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
    Some(std::os::unix::fs::MetadataExt::ino(&status))
}

/// Describes one return, and records its objects in `holdings`.
pub(super) fn describe(driver: &dyn Driver, item: &Return, holdings: &mut Holdings) -> String {
    let (name, data) = match item {
        Return::Transaction(data) => ("Transaction", data),
        Return::Reply(data) => ("Reply", data),
        other => return format!("{other:?}; "),
    };
    holdings.buffers.push(data.buffer);
    let base = *holdings.base.get_or_insert(data.buffer);
    let named = data.sender_pid != 0;
    let mut text = format!("{name} to {:#x}/{:#x} flags {:#x}", data.target, data.cookie, data.flags);
    let at = data.buffer.wrapping_sub(base).cast_signed();
    let _ = write!(text, " named {named} by {} at {at} with {} bytes:", data.sender_euid, data.data_size);
    let mut bytes = driver.received(data.buffer, data.data_size).expect("inside the area").to_vec();
    let offsets = driver.received(data.offsets, data.offsets_size).expect("inside the area").to_vec();
    let mut objects = Objects::default();
    for offset in offsets.chunks_exact(8).map(u64::take) {
        objects.add(driver, &mut bytes, offset as usize, holdings, &mut text);
    }
    objects.take_arrays(data.buffer, holdings);
    describe_buffers(&mut text, data.buffer, objects.buffers);
    let _ = write!(text, " sum {:x}; ", sum(&bytes));
    text
}

/// The buffers and arrays of a received transaction.
#[derive(Default)]
struct Objects {
    buffers: Vec<(BufferObject, Vec<u8>)>,
    /// For each object, its index in `buffers` if it is a buffer.
    buffer_of_object: Vec<Option<usize>>,
    arrays: Vec<FdArrayObject>,
}

impl Objects {
    /// Describes the object at an offset in `text`, and clears values that always differ in
    /// `bytes`.
    fn add(
        &mut self,
        driver: &dyn Driver,
        bytes: &mut [u8],
        offset: usize,
        holdings: &mut Holdings,
        text: &mut String,
    ) {
        self.buffer_of_object.push(None);
        let Some(object) = bytes.get(offset..) else { return };
        if let Some(object) = BufferObject::from_bytes(object).filter(|object| object.kind == BINDER_TYPE_PTR)
        {
            let content = driver.received(object.buffer, object.length).expect("inside the area").to_vec();
            *self.buffer_of_object.last_mut().expect("pushed above") = Some(self.buffers.len());
            self.buffers.push((object, content));
            bytes[offset..offset + BufferObject::SIZE].fill(0);
        } else if let Some(mut object) =
            FdObject::from_bytes(object).filter(|object| object.kind == BINDER_TYPE_FD)
        {
            let file = driver.take_fd(object.fd).expect("the driver has opened it");
            rustix::io::fcntl_getfd(&file).expect("an open file");
            object.fd = 0;
            bytes[offset + 8..offset + 12].fill(0);
            let _ = write!(text, " {object:x?}");
        } else if let Some(object) =
            FdArrayObject::from_bytes(object).filter(|object| object.kind == BINDER_TYPE_FDA)
        {
            let _ = write!(text, " {object:x?}");
            self.arrays.push(object);
        } else if let Some(object) = FlatBinderObject::from_bytes(object) {
            if matches!(object.kind, BINDER_TYPE_HANDLE | BINDER_TYPE_WEAK_HANDLE) {
                let handle = object.binder as u32;
                holdings.handles.retain(|&known| known != handle);
                holdings.handles.push(handle);
            }
            let _ = write!(text, " {object:x?}");
        }
    }

    /// Records the descriptors of arrays, and clears their numbers in the buffers.
    fn take_arrays(&mut self, buffer: u64, holdings: &mut Holdings) {
        // A driver does not check the parent of an empty array.
        for array in self.arrays.iter().filter(|array| array.count != 0) {
            let parent = self.buffer_of_object.get(array.parent as usize).copied().flatten();
            let start = array.parent_offset as usize;
            let (_, content) = &mut self.buffers[parent.expect("a buffer")];
            let content = &mut content[start..start + 4 * array.count as usize];
            let numbers = content.chunks_exact(4).map(u32::take);
            let files = numbers.map(|number| (number, file_at(number).expect("an open file"))).collect();
            content.fill(0);
            holdings.arrays.push(Array { buffer, files });
        }
    }
}

/// Describes scatter-gather buffers; shows pointers as indices of buffers.
fn describe_buffers(text: &mut String, start: u64, mut buffers: Vec<(BufferObject, Vec<u8>)>) {
    let pointers: Vec<u64> = buffers.iter().map(|(object, _)| object.buffer).collect();
    for (object, content) in &mut buffers {
        let _ = write!(text, " buffer at {}", object.buffer.wrapping_sub(start).cast_signed());
        let _ = write!(text, " flags {:x} in {}/{}", object.flags, object.parent, object.parent_offset);
        for at in (0..content.len().saturating_sub(7)).step_by(4) {
            let word = u64::take(&content[at..]);
            if let Some(index) = pointers.iter().position(|&pointer| pointer == word) {
                let _ = write!(text, " {at}->{index}");
                content[at..at + 8].fill(0);
            }
        }
        let _ = write!(text, " holds {} bytes, sum {:x}", content.len(), sum(content));
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}
