//! What a machine has only once. Tests that use it run one at a time, in whatever process.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

/// What only one test at a time may use.
pub(crate) enum Single {
    GlobalTrace,
    /// Settings of the kernel that `storage interference` changes.
    Settings,
}

/// A test's turn. It ends when this value is dropped or the process ends.
pub(crate) struct Turn(#[allow(dead_code, reason = "holds a lock")] File);

impl Turn {
    pub(crate) fn take(single: Single) -> Self {
        // Folders that every kernel has and nobody else locks. A file for this would be left over.
        let folder = match single {
            Single::GlobalTrace => "/sys/kernel",
            Single::Settings => "/proc/sys",
        };
        let file = File::open(folder).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}
