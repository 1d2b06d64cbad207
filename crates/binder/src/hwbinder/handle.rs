//! Native handles: file descriptors and integers in one buffer (`native_handle_t`). A
//! `binder_fd_array_object` lists the descriptors.

use std::os::fd::{AsRawFd as _, OwnedFd};

use roundtrip_binder_driver::uapi::{BINDER_TYPE_FDA, FdArrayObject, Field};

use super::{HwParcel, HwReader};
use crate::{Error, descriptors};

/// The size in bytes of `native_handle_t` before its data: `version` (which is this size),
/// `numFds` and `numInts`, 32 bits each (`cutils/native_handle.h`).
const HEAD: usize = 12;
/// `NATIVE_HANDLE_MAX_FDS` and `NATIVE_HANDLE_MAX_INTS`.
const MOST: usize = 1024;
/// The size of the largest native handle, in bytes.
const MOST_BYTES: usize = HEAD + 2 * 4 * MOST;

/// The contents of a native handle.
#[derive(Debug, Default)]
pub struct NativeHandle {
    /// At most 1024 descriptors. When sent, they are closed together with the parcel. When
    /// received, they are duplicates that the receiver owns.
    pub descriptors: Vec<OwnedFd>,
    /// At most 1024 integers of any value.
    pub integers: Vec<i32>,
}

impl HwParcel<'_> {
    /// Writes a native handle, or null (`Parcel::writeNativeHandleNoDup`): its size in bytes, its
    /// buffer, and the array of its descriptors.
    ///
    /// # Errors
    /// [`Error::Unsendable`] for more than 1024 descriptors or integers; the errors of
    /// [`HwParcel::write_buffer`].
    pub fn write_native_handle(&mut self, handle: Option<NativeHandle>) -> Result<(), Error> {
        let Some(NativeHandle { descriptors, integers }) = handle else {
            self.plain().write_u64(0);
            return Ok(());
        };
        if descriptors.len() > MOST || integers.len() > MOST {
            let problem = "it has more than 1024 descriptors or integers";
            return Err(Error::Unsendable { what: "a native handle", problem });
        }
        let head = [HEAD as i32, descriptors.len() as i32, integers.len() as i32];
        let numbers = descriptors.iter().map(|descriptor| descriptor.as_raw_fd());
        let bytes: Vec<u8> =
            head.into_iter().chain(numbers).chain(integers).flat_map(i32::to_ne_bytes).collect();
        self.plain().write_u64(bytes.len() as u64);
        let buffer = self.put_own((&bytes).into(), None)?;
        let count = descriptors.len() as u64;
        let parent_offset = HEAD as u64;
        let array = FdArrayObject { kind: BINDER_TYPE_FDA, pad: 0, count, parent: buffer.0, parent_offset };
        self.plain().put_object(&array.to_bytes());
        descriptors.into_iter().for_each(|descriptor| self.plain().keep_descriptor(descriptor));
        Ok(())
    }
}

impl HwReader<'_> {
    /// Reads a native handle, or null.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the size, the buffer and the array of descriptors do not agree.
    /// [`Error::Descriptor`] if this process has too many open descriptors.
    pub fn read_native_handle(&mut self) -> Result<Option<NativeHandle>, Error> {
        const WHAT: &str = "a native handle";
        let size = self.plain().read_u64()?;
        if size == 0 {
            return Ok(None);
        }
        let (bytes, buffer) = self.read_buffer()?;
        // Copy before checking, because other processes can write to the buffer.
        let bytes = match bytes.len() {
            0..=MOST_BYTES => bytes.to_vec(),
            _ => return Err(self.plain().malformed(WHAT, "it has more than 1024 descriptors and integers")),
        };
        let mut words = bytes.chunks_exact(4).map(u32::take);
        let head = [words.next(), words.next(), words.next()];
        let [Some(version), Some(descriptors), Some(integers)] = head else {
            return Err(self.plain().malformed(WHAT, "its buffer is too short"));
        };
        let expected = (u64::from(descriptors) + u64::from(integers)) * 4 + HEAD as u64;
        if version != HEAD as u32 || expected != size || expected != bytes.len() as u64 {
            return Err(self.plain().malformed(WHAT, "its counts do not match its size"));
        }
        let array = FdArrayObject::from_bytes(&self.plain().peek_object::<{ FdArrayObject::SIZE }>(WHAT)?);
        let fits = |array: &FdArrayObject| {
            array.kind == BINDER_TYPE_FDA
                && array.count == u64::from(descriptors)
                && (array.parent, array.parent_offset) == (buffer.0, HEAD as u64)
        };
        if !array.is_some_and(|array| fits(&array)) {
            return Err(self.plain().malformed(WHAT, "its descriptors are not listed here"));
        }
        let Some(process) = self.plain().process else {
            return Err(self.plain().malformed(WHAT, "the bytes belong to no process"));
        };
        self.plain().take(WHAT, FdArrayObject::SIZE)?;
        let descriptors = words
            .by_ref()
            .take(descriptors as usize)
            .map(|number| descriptors::duplicate(&**process.driver(), number))
            .collect::<Result<_, _>>()?;
        Ok(Some(NativeHandle { descriptors, integers: words.map(u32::cast_signed).collect() }))
    }
}
