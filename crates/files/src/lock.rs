//! Locks that say whose a file or directory is (flock(2)): its process holds one, and the kernel
//! releases it when the process ends. Must not know what is locked.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Whether the path names this open file or directory, rather than nothing, a link, or a file that
/// has taken its place.
#[must_use]
pub fn is_in_place(file: &File, path: &Path) -> bool {
    let open = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    let there = std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((open, there), (Ok(open), Ok(there)) if open == there)
}

/// Locks what another process may have created. Returns false if a process holds the lock, or if
/// the path names something else by now.
#[must_use]
pub fn lock_abandoned(file: &File, path: &Path) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_in_place(file, path)
}

/// Locks what this process has just created. Returns false if another process that looks for
/// abandoned ones was first: that process removes it. Without support for locks, none does.
pub(crate) fn lock_new(file: &File, path: &Path) -> bool {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    locked != Err(Errno::WOULDBLOCK) && is_in_place(file, path)
}

/// Whether a file or directory belongs to this user.
pub(crate) fn is_own(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.uid() == rustix::process::geteuid().as_raw())
}
