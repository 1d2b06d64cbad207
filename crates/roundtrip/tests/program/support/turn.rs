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
        let name = match single {
            Single::GlobalTrace => "the-global-trace",
            Single::Settings => "settings",
        };
        let path = std::env::temp_dir().join(format!("roundtrip-tests-of-{name}"));
        let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}
