//! Detects use of a driver after fork. A driver belongs to the process that opened it. Without the
//! guard, a child's calls would be refused, or be attributed to the parent.
//!
//! The guard uses a page that the kernel zeroes in the child (`MADV_WIPEONFORK`, since Linux 4.14).
//! A check reads one word and makes no system call. It also detects children that were made without
//! libc.
#![allow(unsafe_code, reason = "a page that the kernel clears is memory of its own")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const PAGE: usize = 4096;

/// Tells whether the current process is the one that made the guard. A child that shares the memory
/// (`CLONE_VM` in clone(2)) counts as the same process.
#[derive(Clone, Copy, Debug)]
pub struct ForkGuard {
    /// The id of the process that made the first guard in this memory; 0 in a child that made no
    /// guard.
    word: &'static AtomicU32,
    made_in: u32,
}

impl ForkGuard {
    /// Makes a guard for the calling process.
    #[must_use]
    pub fn new() -> Self {
        static WORD: OnceLock<&AtomicU32> = OnceLock::new();
        let word = *WORD.get_or_init(|| page().unwrap_or_else(|| Box::leak(Box::default())));
        let _ = word.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
        Self { word, made_in: word.load(Ordering::Relaxed) }
    }

    /// Returns true in a child of the process that made the guard.
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

/// Maps the page and returns its word. The page is never unmapped. `None` if the kernel lacks
/// `MADV_WIPEONFORK`; forks are not detected then.
fn page() -> Option<&'static AtomicU32> {
    // SAFETY: a new private mapping at an address that the kernel chooses.
    let page =
        unsafe { mmap_anonymous(null_mut(), PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }
            .ok()?;
    // SAFETY: advice for the whole mapping, which nothing else uses.
    unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: page-aligned zeros that stay mapped until the process ends, accessed only through
    // this word.
    Some(unsafe { &*page.cast::<c_void>().cast::<AtomicU32>() })
}
