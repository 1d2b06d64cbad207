//! What is known of a write, as data.

use crate::operation::Operation;

/// A file as the kernel's events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Its file system's device, as `dev_t`: major << 20 | minor.
    pub dev: u32,
    /// Its inode.
    pub inode: u64,
}

/// Who asked for the data to be on the device when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The call does nothing else.
    Call,
    /// A flag of the call, or the way the file was opened: the file system was seen to do it.
    Flag,
    /// Nobody that the events tell of; but the call waited for the kernel, as one does for a
    /// device.
    Unknown,
}

/// A call that has returned, or an operation of io_uring that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What was asked for.
    pub operation: Operation,
    /// Who asked for durability.
    pub asked: Asked,
    /// The thread that made it.
    pub tid: u32,
    /// When the kernel was entered, in nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// When it was left.
    pub end_ns: u64,
    /// The file descriptor, where the call has one.
    pub descriptor: Option<i32>,
    /// What it returned; an error is negative.
    pub result: i64,
    /// The file, where the file system's events tell it.
    pub file: Option<FileId>,
    /// The inode of its directory, where these events tell that.
    pub directory: Option<u64>,
    /// Whether the kernel made it pause because too many pages were dirty.
    pub throttled: bool,
}

impl Observed {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
