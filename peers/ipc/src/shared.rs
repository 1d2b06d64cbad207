//! Memory shared between two processes: a memfd that the other process opens through /proc. Gives
//! access to words and copies bytes. Must not know any protocol, and never waits.
#![allow(unsafe_code)] // Shared memory is raw memory: mapping it and copying through pointers have no safe form.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use anyhow::{Context as _, Result};
use roundtrip_binder_driver::copy;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// A shared mapping. Never unmapped, because it is used until the process exits.
pub(crate) struct Shared {
    start: NonNull<u8>,
    len: usize,
    file: OwnedFd,
}

impl Shared {
    /// Creates memory of `len` zero bytes.
    pub(crate) fn create(len: usize) -> Result<Shared> {
        let file = memfd_create("ipc-peers", MemfdFlags::CLOEXEC).context("memfd_create")?;
        ftruncate(&file, len as u64).context("ftruncate a memfd")?;
        Shared::map(file, len)
    }

    /// Opens the memory that another process created with the same length.
    pub(crate) fn open(path: &str, len: usize) -> Result<Shared> {
        let file =
            File::options().read(true).write(true).open(path).with_context(|| format!("open {path}"))?;
        Shared::map(file.into(), len)
    }

    fn map(file: OwnedFd, len: usize) -> Result<Shared> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no memory in use.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, &file, 0) };
        let start = NonNull::new(start.context("mmap")?.cast()).context("mapped at address 0")?;
        Ok(Shared { start, len, file })
    }

    /// The path by which another process of the same user opens it while this process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// The word at a byte offset divisible by 4.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: in bounds, aligned (the mapping starts on a page) and never unmapped; only `word`
        // is used for these bytes.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies bytes into the mapping.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: in bounds; `bytes` is private memory. By the protocol above, only one side at a
        // time uses the range, and a word passes it to the other side.
        unsafe { copy::raw(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) }
    }

    /// The bytes there. The other side must not write to them until its next turn.
    pub(crate) fn read(&self, offset: usize, len: usize) -> &[u8] {
        self.check(offset, len);
        // SAFETY: in bounds and never unmapped; the other side does not write to the range during
        // this side's turn.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) }
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of {}", self.len);
    }
}
