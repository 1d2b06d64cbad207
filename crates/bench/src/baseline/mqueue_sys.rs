//! The raw system calls of POSIX message queues (mq_overview(7)). On Linux, a queue descriptor is
//! an ordinary file descriptor. Must contain nothing but the calls.
#![allow(unsafe_code)] // libc's wrappers are as unsafe as the calls, and not every libc has them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_long, syscall};

/// Creates a queue that holds one message of up to `max_len` bytes, opened for both directions. Its
/// name is removed before this returns.
pub(super) fn create_unlinked(name: &CStr, max_len: usize) -> io::Result<OwnedFd> {
    // struct mq_attr (include/uapi/linux/mqueue.h): flags, maxmsg, msgsize, curmsgs, four reserved.
    let attributes: [c_long; 8] = [0, 1, max_len as c_long, 0, 0, 0, 0, 0];
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the name ends in 0 and, like the attributes, outlives the call, which only reads
    // both.
    let fd = unsafe { syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, attributes.as_ptr()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so no other code owns it.
    let queue = unsafe { OwnedFd::from_raw_fd(fd as c_int) };
    // SAFETY: the name ends in 0 and outlives the call, which only reads it.
    match unsafe { syscall(libc::SYS_mq_unlink, name.as_ptr()) } {
        0 => Ok(queue),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends one message, waiting while the queue is full.
pub(super) fn send(queue: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
    const PRIORITY: c_int = 0;
    let (fd, no_timeout) = (queue.as_raw_fd(), std::ptr::null::<libc::timespec>());
    // SAFETY: the kernel reads `message.len()` bytes of `message`, which outlives the call. A null
    // timeout blocks without limit.
    let result =
        unsafe { syscall(libc::SYS_mq_timedsend, fd, message.as_ptr(), message.len(), PRIORITY, no_timeout) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for one message. The buffer must hold the queue's longest message.
pub(super) fn receive(queue: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let (fd, no_timeout) = (queue.as_raw_fd(), std::ptr::null::<libc::timespec>());
    let no_priority = std::ptr::null_mut::<libc::c_uint>();
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, which is borrowed for the
    // call. Null pointers mean that the priority is not wanted and that the call may block without
    // limit.
    let result = unsafe {
        syscall(libc::SYS_mq_timedreceive, fd, into.as_mut_ptr(), into.len(), no_priority, no_timeout)
    };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
