//! A synchronous write, as data.

use super::operation::Operation;

/// A file, as the kernel's events identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The file system's device, as the kernel's `dev_t`: major << 20 | minor.
    pub dev: u32,
    /// The inode number.
    pub inode: u64,
}

impl std::fmt::Display for FileId {
    /// The name if the path is unknown: "inode 12 of 254:0".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {} of {}:{}", self.inode, self.dev >> 20, self.dev & 0xf_ffff)
    }
}

/// What requested that the data be durable when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The call itself, such as fsync.
    Call,
    /// A flag of the call, or a flag that the file was opened with. The file system made it
    /// durable.
    Flag,
    /// No event shows a request, but the call slept uninterruptibly, as it does when it waits for a
    /// device.
    Unknown,
}

/// A system call that has returned, or a completed io_uring operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The operation.
    pub operation: Operation,
    /// What requested durability.
    pub asked: Asked,
    /// The thread that made it.
    pub tid: u32,
    /// Entry into the kernel, in nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// Return from the kernel, by the same clock.
    pub end_ns: u64,
    /// The file descriptor, if the call has one.
    pub descriptor: Option<i32>,
    /// The return value; negative for an error.
    pub result: i64,
    /// The file, if the file system's event names it.
    pub file: Option<FileId>,
    /// The inode number of the file's directory, if the file system's event has it.
    pub directory: Option<u64>,
    /// Whether the kernel throttled the write because too many pages were dirty.
    pub throttled: bool,
    /// Whether the thread that performed it queued a write to a device, and did not leave that to
    /// the page cache.
    pub queued: bool,
}

impl Observed {
    /// The duration, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
