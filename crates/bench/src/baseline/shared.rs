//! Memory shared by two processes: a mapped memfd. Provides words to synchronise on and copies
//! bytes in and out. Must not know any protocol or wait for anything.
#![allow(unsafe_code)] // Shared memory is raw memory: mapping it and copying through pointers have no safe form.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use roundtrip_binder_driver::copy;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared mapping of a fixed length.
///
/// Invariant: `start` points to a live, readable and writable mapping of `len` bytes, which only
/// `drop` unmaps.
#[derive(Debug)]
pub(super) struct Shared {
    start: NonNull<u8>,
    len: usize,
}

/// Creates a memfd of `len` zero bytes, which both sides map.
pub(super) fn create(len: usize) -> io::Result<OwnedFd> {
    let fd = memfd_create("roundtrip", MemfdFlags::CLOEXEC)?;
    ftruncate(&fd, len as u64)?;
    Ok(fd)
}

impl Shared {
    /// Maps the first `len` bytes of a descriptor, which must be at least that long. The pages are
    /// populated, so that no page fault falls into a measurement.
    pub(super) fn map(fd: impl AsFd, len: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no existing memory.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, fd, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, len })
    }

    /// The word at a byte offset divisible by 4.
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: in bounds and aligned (the mapping starts on a page), and valid as long as
        // `self`. Both processes access these four bytes only atomically, because only `word` is
        // used for them.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies bytes into the mapping.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: in bounds by the check; `bytes` is private memory, so the two do not overlap. The
        // other process does not touch this range now: the caller's protocol passes ownership of
        // the range through a word.
        unsafe { copy::raw(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) }
    }

    /// Copies bytes out of the mapping.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        // SAFETY: as for `write`, in the other direction.
        unsafe { copy::raw(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes from one place of the mapping to another that does not overlap it.
    pub(super) fn copy(&self, from: usize, to: usize, len: usize) {
        self.check(from, len);
        self.check(to, len);
        assert!(from.abs_diff(to) >= len);
        // SAFETY: both ranges are in bounds and do not overlap by the checks; ownership as for
        // `write`.
        unsafe { copy::raw(self.start.as_ptr().add(from), self.start.as_ptr().add(to), len) }
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of {}", self.len);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: by the invariant this unmaps our own mapping; nothing borrows from it any longer.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_of_one_memfd_show_the_same_bytes() {
        let fd = create(8192).unwrap();
        let (one, two) = (Shared::map(&fd, 8192).unwrap(), Shared::map(&fd, 8192).unwrap());
        one.word(64).store(7, Ordering::Release);
        one.write(4096, b"hello");
        one.copy(4096, 5000, 5);
        let mut read = [0; 5];
        two.read(5000, &mut read);
        assert_eq!((two.word(64).load(Ordering::Acquire), &read), (7, b"hello"));
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 of 4096")]
    fn a_write_beyond_the_end_is_caught() {
        Shared::map(create(4096).unwrap(), 4096).unwrap().write(4095, b"xx");
    }
}
