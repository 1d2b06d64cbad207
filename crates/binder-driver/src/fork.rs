//! The guard against use after fork: a driver knows the process that opened it, so what a forked
//! child does with its parent's would be refused, or be taken for the parent's own. The child is
//! told so instead.
//!
//! A page that the kernel hands to a child as zeros tells the two apart (`MADV_WIPEONFORK`, Linux
//! 4.14): a call looks at one word and makes no system call, and a child that was made without libc
//! is found too.
#![allow(unsafe_code, reason = "a page that the kernel clears is memory of its own")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const PAGE: usize = 4096;

/// Says whether this is still the process in which it was made. One that shares its memory with
/// that (`CLONE_VM` in clone(2)) is taken for it.
#[derive(Clone, Copy, Debug)]
pub struct ForkGuard {
    /// The id of the process that made the first guard in this memory; zero in a child that has
    /// made none.
    word: &'static AtomicU32,
    made_in: u32,
}

impl ForkGuard {
    /// A guard of the calling process.
    #[must_use]
    pub fn new() -> Self {
        static WORD: OnceLock<&AtomicU32> = OnceLock::new();
        let word = *WORD.get_or_init(|| page().unwrap_or_else(|| Box::leak(Box::default())));
        let _ = word.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
        Self { word, made_in: word.load(Ordering::Relaxed) }
    }

    /// True in a child of the process that made it.
    #[inline]
    #[must_use]
    pub fn forked(self) -> bool {
        self.word.load(Ordering::Relaxed) != self.made_in
    }
}

impl Default for ForkGuard {
    fn default() -> Self {
        Self::new()
    }
}

/// The word in a page of its own, which is never unmapped; `None` where the kernel has no such
/// pages. Then a child is not told.
fn page() -> Option<&'static AtomicU32> {
    // SAFETY: a new private mapping, wherever the kernel finds room.
    let page =
        unsafe { mmap_anonymous(null_mut(), PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }
            .ok()?;
    // SAFETY: advice for the whole mapping, which nothing else uses.
    unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: page-aligned zeros that stay mapped until the process ends, reached through this one
    // word only.
    Some(unsafe { &*page.cast::<c_void>().cast::<AtomicU32>() })
}
