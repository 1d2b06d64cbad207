#![allow(unsafe_code)]
#![allow(clippy::arithmetic_side_effects, reason = "calculates with slots, which are below PROCESSES")]
//! The registry of participants: memory that the supervisor writes and all others can only read.
//!
//! A context's other memory may contain anything (`records`). A participant acts on another process
//! because of that memory only if the process is registered here, by the process id that the kernel
//! reported to the supervisor.
//!
//! Unsafe: a mapping that another process writes to, only ever seen as atomics; a system call that
//! no library wraps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::records::{Id, PROCESSES, Process};

const BYTES: usize = PROCESSES * size_of::<AtomicI32>();

#[derive(Debug)]
pub(crate) struct Registry {
    pids: NonNull<[AtomicI32; PROCESSES]>,
    file: OwnedFd,
}

// SAFETY: the mapping lives until the Registry is dropped, and is only reached as atomics.
unsafe impl Send for Registry {}
// SAFETY: as above.
unsafe impl Sync for Registry {}

impl Registry {
    /// An empty registry, for its supervisor. From then on no other process can map it writable or
    /// write to it by a system call (`F_SEAL_FUTURE_WRITE`, fcntl(2), from Linux 5.1 on).
    pub(crate) fn create() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("roundtrip-registry", flags)?;
        rustix::fs::ftruncate(&file, BYTES as u64)?;
        let kept = Self::mapped(file, ProtFlags::READ | ProtFlags::WRITE)?;
        let size = SealFlags::SHRINK | SealFlags::GROW;
        match rustix::fs::fcntl_add_seals(&kept.file, size | SealFlags::FUTURE_WRITE | SealFlags::SEAL) {
            Err(Errno::INVAL) => rustix::fs::fcntl_add_seals(&kept.file, size | SealFlags::SEAL)?,
            other => other?,
        }
        Ok(kept)
    }

    /// Maps one that its supervisor handed over. Refuses one that could shrink under the mapping.
    pub(crate) fn map(file: OwnedFd) -> Result<Self, Errno> {
        let sealed = rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        if !sealed || u64::try_from(rustix::fs::fstat(&file)?.st_size) != Ok(BYTES as u64) {
            return Err(Errno::PROTO);
        }
        Self::mapped(file, ProtFlags::READ)
    }

    fn mapped(file: OwnedFd, access: ProtFlags) -> Result<Self, Errno> {
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else refers to it.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, &file, 0)? };
        Ok(Self { pids: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?, file })
    }

    /// The file, to hand to others.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn pids(&self) -> &[AtomicI32; PROCESSES] {
        // SAFETY: page-aligned, as long as this, and lives as long as self.
        unsafe { self.pids.as_ref() }
    }

    /// Records that process `pid` has `slot`; 0 if the slot is free. Only for the supervisor: only
    /// its mapping is writable.
    pub(crate) fn enter(&self, slot: Id<Process>, pid: i32) {
        if let Some(word) = self.pids().get(slot.index()) {
            word.store(pid, Ordering::Relaxed);
        }
    }

    /// Whether `tid` is a thread of the process in `slot`, or of this one.
    pub(crate) fn is_thread_of(&self, slot: Id<Process>, tid: i32) -> bool {
        let pid = self.pids().get(slot.index()).map_or(0, |word| word.load(Ordering::Relaxed));
        is_thread(pid, tid) || is_thread(std::process::id().cast_signed(), tid)
    }
}

/// tgkill(2) with signal 0: whether this thread exists. EPERM means that it does.
fn is_thread(pid: i32, tid: i32) -> bool {
    if pid <= 0 || tid <= 0 {
        return false;
    }
    // SAFETY: no memory is passed, and no signal is sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

impl Drop for Registry {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `mapped`, and every reference into it borrows self. An
        // error would leave it mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.pids.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_supervisor_can_write_the_registry_and_participants_can_read_it() {
        let supervisor = Registry::create().expect("memory");
        let copy = supervisor.file().try_clone_to_owned().expect("a descriptor");
        let written = rustix::io::pwrite(&copy, &[1; 4], 4);
        assert_eq!(written, Err(Errno::PERM));
        let writable =
            Registry::mapped(copy.try_clone().expect("a descriptor"), ProtFlags::READ | ProtFlags::WRITE);
        assert_eq!(writable.map(drop), Err(Errno::PERM));
        let other = Registry::map(copy).expect("a mapping");
        let slot = Id::new(3).expect("a slot");
        // The parent is a process that is not this one.
        let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
        assert!(!other.is_thread_of(slot, parent));
        supervisor.enter(slot, parent);
        assert!(other.is_thread_of(slot, parent) && !other.is_thread_of(slot, i32::MAX));
        assert!(!other.is_thread_of(Id::new(4).expect("a slot"), parent));
        assert!(other.is_thread_of(slot, std::process::id().cast_signed()), "this process's own");
        supervisor.enter(slot, 0);
        assert!(!other.is_thread_of(slot, parent));
    }

    #[test]
    fn a_registry_that_could_shrink_or_has_another_size_is_refused() {
        let maps = |seals: SealFlags, bytes: usize| {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("test", flags).expect("memory");
            rustix::fs::ftruncate(&file, bytes as u64).expect("a size");
            rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
            Registry::map(file).map(drop)
        };
        let both = SealFlags::SHRINK | SealFlags::GROW;
        assert_eq!(maps(both, BYTES), Ok(()));
        for (seals, bytes) in
            [(SealFlags::GROW, BYTES), (SealFlags::SHRINK, BYTES), (both, BYTES - 4), (both, BYTES + 4096)]
        {
            assert_eq!(maps(seals, bytes), Err(Errno::PROTO), "{seals:?}, {bytes} bytes");
        }
        let kept = Registry::create().expect("memory");
        let seals = rustix::fs::fcntl_get_seals(kept.file()).expect("a memfd");
        assert!(seals.contains(both | SealFlags::SEAL), "{seals:?}");
        assert!(![0, -1].iter().any(|&tid| is_thread(1, tid) || is_thread(tid, 1)));
    }
}
