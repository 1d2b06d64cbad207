//! One write, as data.

use crate::operation::Operation;

/// A file, as the kernel's events identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Its file system's device, as `dev_t`: major << 20 | minor.
    pub dev: u32,
    /// Its inode.
    pub inode: u64,
}

impl std::fmt::Display for FileId {
    /// Where nobody knows its path: "inode 12 of 254:0".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {} of {}:{}", self.inode, self.dev >> 20, self.dev & 0xf_ffff)
    }
}

/// What asked for the data to be durable when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The call itself, such as fsync.
    Call,
    /// A flag of the call, or the flags that the file was opened with: the file system synced it.
    Flag,
    /// Nothing that the events show, but the call slept uninterruptibly, as a wait for a device
    /// does.
    Unknown,
}

/// A system call that has returned, or a completed io_uring operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The operation.
    pub operation: Operation,
    /// What asked for durability.
    pub asked: Asked,
    /// The thread that made it.
    pub tid: u32,
    /// Entry into the kernel, in nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// Return from it.
    pub end_ns: u64,
    /// The file descriptor, where the call has one.
    pub descriptor: Option<i32>,
    /// The return value; negative for an error.
    pub result: i64,
    /// The file, if the file system's event names it.
    pub file: Option<FileId>,
    /// The inode of its directory, if that event has it.
    pub directory: Option<u64>,
    /// Whether the kernel throttled it because too many pages were dirty.
    pub throttled: bool,
}

impl Observed {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
