#![allow(unsafe_code)]
#![allow(
    clippy::arithmetic_side_effects,
    reason = "calculates with numbers that it has compared with their limits before"
)]
//! The shared memory of one context: control words, futexes and receive areas, mapped into every
//! participant.
//!
//! Unsafe lives here because the mapping is shared with other processes. Control memory is only
//! ever seen as atomics, areas only through bounds-checked copies. This file does not know what the
//! words mean.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

use roundtrip_binder_driver::RawBytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::mutex::Mutex;
use crate::records::{
    AREA_BYTES, AREAS_AT, CONTROL_WORDS, FUTEX_STRIDE, FUTEXES_AT, PROCESSES, RECEIVED_AT, REGION_BYTES,
    TAKEOVERS, THREADS,
};
use crate::registry::Registry;
use crate::seccomp::NOTIFICATION_WORDS;
use crate::sleep_word::SleepWord;
use crate::wakers::Wakers;

/// Why a context has ended for a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum End {
    /// The participant itself has closed it.
    Closed = 1,
    /// Its supervisor has ended it, or died.
    Gone,
    /// Its supervisor has ended it because the owner of its lock made no progress.
    Stuck,
}

impl End {
    /// As the end of a sentence.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Closed => "this process has left it",
            Self::Gone => "its supervisor has exited",
            Self::Stuck => {
                "one of its processes held the lock without progress for five seconds: it was stopped, or \
                 something overwrote the context's memory"
            }
        }
    }
}

/// The mapped memory. All of it is at the same offsets in every participant, at different
/// addresses.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    file: OwnedFd,
    wakers: Wakers,
    registry: Registry,
    /// See [`Region::ended`].
    ended: AtomicU8,
}

// SAFETY: the mapping lives until the Region is dropped, is not tied to a thread, and is only
// reached through atomics and bounds-checked copies.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A new, zeroed context. The file has no name, cannot be resized, and ends with its last
    /// user.
    pub(crate) fn create() -> Result<Self, Errno> {
        let file =
            rustix::fs::memfd_create("roundtrip-binder", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, REGION_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file, Registry::create()?)
    }

    /// Maps a context that its supervisor handed over. Refuses one that could shrink under the
    /// mapping.
    pub(crate) fn map(file: OwnedFd, registry: Registry) -> Result<Self, Errno> {
        let sealed = rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        let size = rustix::fs::fstat(&file)?.st_size;
        if !sealed || u64::try_from(size) != Ok(REGION_BYTES as u64) {
            return Err(Errno::PROTO);
        }
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else refers to it.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                REGION_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, file, wakers: Wakers::default(), registry, ended: AtomicU8::new(0) })
    }

    /// How this participant reaches the others.
    pub(crate) fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    /// The registry of participants.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The file, to hand to others.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The control words.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64; CONTROL_WORDS] {
        // SAFETY: the mapping is page-aligned, at least CONTROL_WORDS * 8 bytes long (asserted in
        // records/mod.rs), lives as long as self, and every participant treats these words as
        // atomics.
        unsafe { self.base.cast().as_ref() }
    }

    /// The context's lock: the two halves of word 0, and the first of another.
    #[inline]
    pub(crate) fn mutex(&self) -> Mutex<'_> {
        let first = self.base.cast::<AtomicU32>();
        // SAFETY: as for `words`; these words are only ever used through these halves.
        unsafe {
            Mutex {
                owner: first.as_ref(),
                sleepers: first.add(1).as_ref(),
                takeovers: first.add(2 * TAKEOVERS).as_ref(),
            }
        }
    }

    /// The context has ended, or this participant leaves it. The first reason counts.
    pub(crate) fn end(&self, how: End) {
        let _ = self.ended.compare_exchange(0, how as u8, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Whether and why it has ended, from this participant's own memory. After that, this
    /// participant no longer waits, and its changes affect no other participant.
    #[inline]
    pub(crate) fn ended(&self) -> Option<End> {
        match self.ended.load(Ordering::Relaxed) {
            0 => None,
            word => [End::Closed, End::Stuck].into_iter().find(|&end| end as u8 == word).or(Some(End::Gone)),
        }
    }

    /// The word that thread `index` sleeps on.
    #[inline]
    pub(crate) fn sleep_word(&self, index: usize) -> SleepWord<'_> {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: inside the futex table (index is below THREADS), aligned, and only used as a u32
        // atomic.
        SleepWord(unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE).cast().as_ref() })
    }

    /// The id of the notification that thread `index` sleeps on in seccomp (0: not known).
    #[inline]
    pub(crate) fn notification_id(&self, index: usize) -> &AtomicU64 {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: as for `sleep_word`; bytes 8 to 15 of each stride are only used as this atomic.
        unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE + 8).cast().as_ref() }
    }

    /// The CPU (plus one) on which thread `index` was last woken by a thread that then waited for
    /// it or had just served it; 0: woken by another.
    #[inline]
    pub(crate) fn waker(&self, index: usize) -> &AtomicU32 {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: as for `sleep_word`; bytes 16 to 19 of each stride are only used as this atomic.
        unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE + 16).cast().as_ref() }
    }

    /// The reply lock of thread `index` (`reply_lock.rs`): the PI futex through which it boosts
    /// another.
    #[inline]
    pub(crate) fn reply_lock(&self, index: usize) -> &AtomicU32 {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: as for `sleep_word`; bytes 20 to 23 of each stride are only used as this atomic.
        unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE + 20).cast().as_ref() }
    }

    /// The thread that thread `index` boosts through that; not cleared when it stops.
    #[inline]
    pub(crate) fn lock_owner(&self, index: usize) -> &AtomicU32 {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: as for `sleep_word`; bytes 24 to 27 of each stride are only used as this atomic.
        unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE + 24).cast().as_ref() }
    }

    /// 1 if thread `index` is boosted through its reply lock, or about to be. Set by others,
    /// cleared by the thread itself.
    #[inline]
    pub(crate) fn boosted(&self, index: usize) -> &AtomicU32 {
        let index = if index < THREADS { index } else { 0 };
        // SAFETY: as for `sleep_word`; bytes 28 to 31 of each stride are only used as this atomic.
        unsafe { self.base.add(FUTEXES_AT + index * FUTEX_STRIDE + 28).cast().as_ref() }
    }

    /// Where notifications are received.
    #[inline]
    pub(crate) fn received(&self) -> &[AtomicU64; NOTIFICATION_WORDS] {
        // SAFETY: part of `words`, which lies in the header page (asserted in records/mod.rs).
        unsafe { self.base.cast::<AtomicU64>().add(RECEIVED_AT).cast().as_ref() }
    }

    /// Where the area of the process in `slot` begins in this participant's memory.
    pub(crate) fn area_address(&self, slot: usize) -> u64 {
        self.base.as_ptr() as u64 + area_at(slot) as u64
    }

    /// Copies `bytes` into an area. Returns false, and writes nothing, if they would not be
    /// completely inside it.
    #[inline]
    #[must_use]
    pub(crate) fn write_area(&self, slot: usize, offset: u64, bytes: RawBytes<'_>) -> bool {
        let Some(offset) = inside(offset, bytes.len() as u64) else { return false };
        // SAFETY: the range lies inside the slot's area, hence inside the mapping. It belongs to a
        // buffer that is allocated and not yet delivered, so no well-behaved participant reads it
        // now, and no Rust reference to it exists.
        unsafe { bytes.copy_to_raw(self.base.add(area_at(slot) + offset).as_ptr()) };
        true
    }

    /// Zeroes part of an area (`TF_CLEAR_BUF`).
    pub(crate) fn clear_area(&self, slot: usize, offset: u64, length: u64) {
        let Some(at) = inside(offset, length) else { return };
        // SAFETY: the range lies inside the slot's area; it belongs to a buffer that is being
        // freed.
        unsafe { std::ptr::write_bytes(self.base.add(area_at(slot) + at).as_ptr(), 0, length as usize) };
    }

    /// Copies bytes out of an area. Returns false, and writes nothing, if they are not completely
    /// inside it.
    #[inline]
    #[must_use]
    pub(crate) fn read_area(&self, slot: usize, offset: u64, into: &mut [u8]) -> bool {
        let Some(offset) = inside(offset, into.len() as u64) else { return false };
        // SAFETY: the range lies inside the mapping, which is initialised (a memfd is zeroed), and
        // `into` is private. Others may write there meanwhile: bytes have no invalid values, and no
        // Rust reference to these exists.
        unsafe {
            roundtrip_binder_driver::copy::raw(
                self.base.add(area_at(slot) + offset).as_ptr(),
                into.as_mut_ptr(),
                into.len(),
            )
        }
        // What is checked is the copy: the compiler must not read the area again.
        Self::order();
        true
    }

    /// The first `length` bytes of an area, no more than it has.
    #[inline]
    #[must_use]
    pub(crate) fn area(&self, slot: usize, length: u64) -> RawBytes<'_> {
        let length = (length as usize).min(AREA_BYTES);
        // SAFETY: the area lies inside the mapping, which lives as long as `self` and is
        // initialised (a memfd is zeroed).
        unsafe { RawBytes::new(self.base.add(area_at(slot)).as_ptr(), length) }
    }

    /// Keeps the compiler from moving journal entries behind the words that they protect. The
    /// hardware needs no fence: a thread that is killed has executed a prefix of its program,
    /// and the thread that takes over sees the result through the kernel.
    #[inline]
    pub(crate) fn order() {
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` with this length, and every reference into it
        // borrows self. An error would leave it mapped, which is harmless.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), REGION_BYTES) };
    }
}

fn area_at(slot: usize) -> usize {
    AREAS_AT + if slot < PROCESSES { slot } else { 0 } * AREA_BYTES
}

#[inline]
pub(crate) fn inside(offset: u64, length: u64) -> Option<usize> {
    (offset.checked_add(length)? <= AREA_BYTES as u64).then_some(offset as usize)
}

#[cfg(test)]
mod tests;
