//! Other programs' synchronous writes, put together from the kernel's events as they come.
//!
//! A synchronous write is a system call that returns when data are on the device: `fsync` and its
//! like, a write to a file that was opened with `O_SYNC` or `O_DSYNC`, `pwritev2` with `RWF_DSYNC`,
//! and io_uring's operations for these. A write that asks for nothing of the kind and waits for the
//! device all the same is told too.
//!
//! What asks for durability is known from the system call's number and flags, or from the file
//! system's own event (`ext4_sync_file_enter` and its like), which also tells the file.

mod matcher;
mod observed;
mod operation;

pub use matcher::{Matcher, Unmatched};
pub use observed::{Asked, FileId, Observed};
pub use operation::{Operation, system_calls};
