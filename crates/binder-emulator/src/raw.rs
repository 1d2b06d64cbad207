#![allow(unsafe_code)]
//! Descriptors by number, as commands contain them.
//!
//! Unsafe: the protocol carries descriptors as numbers. `descriptors.rs` decides which ones are
//! used, and when.

use std::os::fd::BorrowedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The descriptor that this process has open at `number`, if it is one that the kernel's driver
/// would pass on (`fget` finds none that was opened with `O_PATH`). It is only good for system
/// calls made at once: another thread may close it.
pub(crate) fn borrow<'a>(number: u32) -> Result<BorrowedFd<'a>, Errno> {
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: not -1. The number goes to system calls only, which answer EBADF when it is not open;
    // what they do to one that is (read its flags, send a reference along) takes nothing from its
    // owner.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    if rustix::fs::fcntl_getfl(borrowed)?.contains(OFlags::PATH) { Err(Errno::BADF) } else { Ok(borrowed) }
}
