//! Other programs' synchronous writes, matched from the kernel's events as they arrive.
//!
//! A synchronous write is a system call that returns when data is on the device: `fsync` and
//! similar calls, a write to a file that was opened with `O_SYNC` or `O_DSYNC`, `pwritev2` with
//! `RWF_DSYNC`, and the same operations through io_uring and Linux AIO. Buffered writes that had to
//! wait for the device are reported too.
//!
//! A call's number and flags show whether it requests durability. So does the file system's own
//! event (`ext4_sync_file_enter` and similar ones), which also names the file.

mod machine;
mod matcher;
mod observed;
mod operation;

pub use crate::unmatched::Unmatched;
pub use machine::machine_of;
pub use matcher::Matcher;
pub use observed::{Asked, FileId, Observed};
pub use operation::{Operation, system_calls};
