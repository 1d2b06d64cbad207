//! The file that a storage test writes to. It is always a new file, and is removed however the test
//! ends. After `kill -9`, the next test removes it. Must not know who writes to it, nor what.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, XattrFlags, fgetxattr, flock, fsetxattr};

use roundtrip_files::{folder_of, is_in_place, lock_abandoned};
use roundtrip_run::storage::{OWN_PREFIX, OWN_SUFFIX};

use crate::error::{Error, FileFault, NotHere, Result};

/// The file is filled in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Marks a test file. The value is its inode number, so that a copy with all attributes is not
/// mistaken for one. File systems without extended attributes (xattr(7)) have no mark.
const MARK: &str = "user.roundtrip.test_file";

/// A test file. Dropping it removes it.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    file: File,
    /// The test files of killed runs that [`Target::create`] has removed.
    removed: Vec<PathBuf>,
}

impl Target {
    /// Creates a file at `path`. First removes test files that killed runs left there, or under
    /// default names in the same folder.
    ///
    /// # Errors
    /// [`Error::NotHere`] if the path exists in any form, or if its directory does not exist or is
    /// not writable.
    pub fn create(path: &Path) -> Result<Self> {
        let others = Some(path.to_owned()).into_iter().chain(own_names(path));
        let removed = others.filter(|path| remove_abandoned(path)).collect();
        let refuse = |fault| Err(NotHere::TestFile { path: path.to_owned(), fault }.into());
        let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        match made {
            Ok(file) => {
                // Locked before it is marked, because a marked file without a lock is abandoned.
                // The writers share this open file description, and so the lock.
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    let mark = file.metadata().map(|meta| meta.ino().to_string()).unwrap_or_default();
                    let _ = fsetxattr(&file, MARK, mark.as_bytes(), XattrFlags::CREATE);
                }
                Ok(Self { path: path.to_owned(), file, removed })
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if path.is_dir() {
                    return refuse(FileFault::Directory { example: path.join("roundtrip.test") });
                }
                refuse(FileFault::Exists)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = folder_of(path);
                if folder.is_dir() {
                    return refuse(FileFault::KernelFills { folder: folder.to_owned() });
                }
                refuse(FileFault::NoDirectory)
            }
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => refuse(FileFault::ReadOnly),
            Err(cause) => refuse(FileFault::Refused { cause }),
        }
    }

    /// Allocates the file's blocks: writes `bytes` bytes and waits until they are on the device.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if there is not enough space, [`Error::File`] for anything else. What was
    /// written is removed with the file.
    pub fn fill(&mut self, bytes: u64) -> Result<()> {
        let piece: Vec<u8> = (0..PIECE_BYTES).map(|at| (at * 31 + 11) as u8).collect();
        let mut left = bytes;
        while left > 0 {
            let now = left.min(PIECE_BYTES as u64) as usize;
            self.file.write_all(&piece[..now]).map_err(|error| no_room(&self.path, bytes, error))?;
            left -= now as u64;
        }
        self.file.sync_all().map_err(|error| no_room(&self.path, bytes, error))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Messages about removed test files, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let said = |path: &PathBuf| {
            format!("{} was removed: it was the test file of a run that was killed", path.display())
        };
        self.removed.iter().map(said).collect()
    }

    /// Checks that the file has not been removed or replaced.
    ///
    /// # Errors
    /// [`Error::TestFileGone`] if it has.
    pub fn check(&self) -> Result<()> {
        if is_in_place(&self.file, &self.path) {
            return Ok(());
        }
        Err(Error::TestFileGone { path: self.path.clone() })
    }
}

/// Files with default names beside this one.
fn own_names(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
    let is_own = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let numbers = name.and_then(|name| name.strip_prefix(OWN_PREFIX)?.strip_suffix(OWN_SUFFIX));
        numbers.is_some_and(|numbers| numbers.split('-').all(|number| number.parse::<u64>().is_ok()))
    };
    entries.map(|entry| entry.path()).filter(is_own).collect()
}

/// Removes a test file of a killed run: one with the mark whose lock no process holds. Returns
/// whether there was one.
fn remove_abandoned(path: &Path) -> bool {
    // Does not follow links, and does not block on a FIFO.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return false };
    let Ok(meta) = file.metadata() else { return false };
    let mut mark = [0; 24];
    let marked = fgetxattr(&file, MARK, &mut mark)
        .is_ok_and(|length| mark.get(..length) == Some(meta.ino().to_string().as_bytes()));
    let own = meta.is_file() && meta.nlink() == 1 && meta.uid() == rustix::process::geteuid().as_raw();
    own && marked && lock_abandoned(&file, path) && std::fs::remove_file(path).is_ok()
}

/// The error of a failed write. A full disk is the most likely cause, and the user can fix it.
fn no_room(path: &Path, bytes: u64, error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Error::NoRoom { path: path.to_owned(), bytes, cause: error }
        }
        _ => Error::file("write to", path, error),
    }
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if is_in_place(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("roundtrip-target-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_target_is_filled_and_removed_when_dropped() {
        let folder = folder("filled");
        let path = folder.join("new");
        let mut target = Target::create(&path).unwrap();
        target.fill(3 << 20).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 << 20);
        target.check().unwrap();
        drop(target);
        assert!(!path.exists());
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn an_existing_file_is_refused_and_not_changed() {
        let folder = folder("existing");
        let path = folder.join("mine");
        std::fs::write(&path, "precious").unwrap();
        let error = Target::create(&path).unwrap_err().to_string();
        assert!(error.contains("never writes to"), "{error}");
        let error = Target::create(&folder).unwrap_err().to_string();
        assert!(error.contains("is a directory") && error.contains("roundtrip.test"), "{error}");
        // A dangling link is not followed to create a file.
        let link = folder.join("link");
        std::os::unix::fs::symlink(folder.join("elsewhere"), &link).unwrap();
        assert!(Target::create(&link).is_err());
        assert!(!folder.join("elsewhere").exists());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let error = Target::create(&folder.join("no/file")).unwrap_err().to_string();
        assert!(error.contains("directory does not exist"), "{error}");
        let error = Target::create(Path::new("/proc/roundtrip.test")).unwrap_err().to_string();
        assert!(error.contains("/proc/roundtrip.test: files cannot be created in /proc, "), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_next_run_removes_a_killed_runs_file_but_neither_copies_nor_files_in_use() {
        // Needs extended attributes, which /tmp may lack.
        let folder = std::env::current_dir().unwrap().join(format!(".target-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("new");
        let first = Target::create(&path).unwrap();
        assert_eq!(first.notes(), Vec::<String>::new());
        assert!(Target::create(&path).is_err(), "its run lives");
        let marked = fgetxattr(&first, MARK, &mut [0; 24]).is_ok();
        // Does what the end of a killed process does: releases the lock, and nothing else.
        flock(&*std::mem::ManuallyDrop::new(first), FlockOperation::Unlock).unwrap();
        if marked {
            let other = folder.join("copy");
            std::fs::write(&other, "precious").unwrap();
            let copy = File::open(&other).unwrap();
            fsetxattr(&copy, MARK, b"7", XattrFlags::CREATE).unwrap();
            assert!(Target::create(&other).is_err());
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
            // A file of another run under a default name in the same folder.
            let left = folder.join("roundtrip-4194303.test");
            std::fs::rename(&path, &left).unwrap();
            let second = Target::create(&path).unwrap();
            assert!(second.notes()[0].contains("a run that was killed"), "{:?}", second.notes());
            assert!(!left.exists());
        } else {
            assert!(Target::create(&path).is_err(), "its owner is unknown");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_file_that_replaced_the_target_is_not_removed() {
        let folder = folder("replaced");
        let path = folder.join("new");
        let target = Target::create(&path).unwrap();
        std::fs::rename(&path, folder.join("moved")).unwrap();
        assert!(target.check().unwrap_err().to_string().contains("removed or replaced"));
        std::fs::write(&path, "another's").unwrap();
        drop(target);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "another's");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
