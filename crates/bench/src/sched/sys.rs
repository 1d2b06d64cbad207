//! The two raw system calls behind `sched`: sched_getattr(2) and sched_setattr(2). musl's wrappers of the older calls
//! answer ENOSYS, and no crate wraps these. Must hold nothing but the calls and the kernel's layout.
#![allow(unsafe_code)] // The kernel reads and writes our struct through a pointer; nothing safer exists.

use std::io;

/// The kernel's `struct sched_attr`, version 0 (include/uapi/linux/sched/types.h).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct SchedAttr {
    pub(super) size: u32,
    pub(super) policy: u32,
    pub(super) flags: u64,
    pub(super) nice: i32,
    pub(super) priority: u32,
    pub(super) runtime_ns: u64,
    pub(super) deadline_ns: u64,
    pub(super) period_ns: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;
const _: () = assert!(SIZE == 48);

/// Reads the scheduling attributes of a thread; 0 is the calling one.
pub(super) fn getattr(tid: u32) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    // SAFETY: the kernel writes at most SIZE bytes into `attr`, which is exactly that large and lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, SIZE, 0_u32) };
    if result == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// Sets the scheduling attributes of a thread; 0 is the calling one. Fills in the struct's size.
pub(super) fn setattr(tid: u32, attr: SchedAttr) -> io::Result<()> {
    let attr = SchedAttr { size: SIZE, ..attr };
    // SAFETY: the kernel only reads SIZE bytes of `attr`, which lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0_u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
