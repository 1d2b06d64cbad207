//! Other programs' synchronous writes, matched from the kernel's events as they arrive.
//!
//! A synchronous write is a system call that returns when data are on the device: `fsync` and its
//! like, a write to a file that was opened with `O_SYNC` or `O_DSYNC`, `pwritev2` with `RWF_DSYNC`,
//! and the same operations through io_uring. Buffered writes that had to wait for the device are
//! reported too.
//!
//! Whether a call asks for durability follows from its number and flags, or from the file system's
//! own event (`ext4_sync_file_enter` and the like), which also names the file.

mod machine;
mod matcher;
mod observed;
mod operation;

pub use machine::machine_of;
pub use matcher::{Matcher, Unmatched};
pub use observed::{Asked, FileId, Observed};
pub use operation::{Operation, system_calls};
