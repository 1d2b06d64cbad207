#![allow(unsafe_code)]
//! `sched_getattr(2)` and `sched_setattr(2)`. No library wraps these system calls, and musl's
//! wrappers of the older calls fail with ENOSYS. All crates of this workspace read and change a
//! thread's scheduling through this module.
//!
//! Unsafe: a raw `syscall(2)`. The kernel reads and writes the structure through a pointer.

use std::io;

/// `struct sched_attr` in its first version (`include/uapi/linux/sched/types.h`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedAttr {
    /// Length of the structure; [`set`] fills it in.
    pub size: u32,
    /// `SCHED_*`.
    pub policy: u32,
    /// `SCHED_FLAG_*`.
    pub flags: u64,
    /// Nice value, −20 to 19, for the policies with nice values; 0 for others.
    pub nice: i32,
    /// Real-time priority, 1 to 99, for `SCHED_FIFO` and `SCHED_RR`; 0 for others.
    pub priority: u32,
    /// Of `SCHED_DEADLINE`, in nanoseconds.
    pub runtime_ns: u64,
    /// Of `SCHED_DEADLINE`, in nanoseconds.
    pub deadline_ns: u64,
    /// Of `SCHED_DEADLINE`, in nanoseconds.
    pub period_ns: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;
const _: () = assert!(SIZE == 48);

/// Returns the scheduling attributes of thread `tid`; 0 means the calling thread.
///
/// # Errors
/// ESRCH if there is no such thread.
pub fn get(tid: u32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most SIZE bytes to `attr`, which is that long and lives through
    // the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, SIZE, 0_u32) };
    if result == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// Sets the scheduling attributes of thread `tid`; 0 means the calling thread.
///
/// # Errors
/// EPERM without `CAP_SYS_NICE` or a sufficient `RLIMIT_RTPRIO`/`RLIMIT_NICE`; EINVAL for a
/// priority that is invalid for the policy; ESRCH if there is no such thread.
pub fn set(tid: u32, attr: SchedAttr) -> io::Result<()> {
    let attr = SchedAttr { size: SIZE, ..attr };
    // SAFETY: the kernel only reads SIZE bytes of `attr`, which lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0_u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
