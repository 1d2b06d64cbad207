//! Directories that belong to a process for as long as it lives, so that a later one can tell what
//! a killed process has left behind. The kernel's lock on the directory says so (flock(2)): it ends
//! with the process that holds it, and unlike a process id it means the same in every container
//! that sees the directory. Must not know what is put there.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// How often another name is tried when one is taken.
const TRIES: u32 = 100;

/// A directory that this process owns. Dropping it releases the directory, which stays.
#[derive(Debug)]
pub struct Owned {
    path: PathBuf,
    /// Holds the lock.
    directory: File,
}

impl Owned {
    /// Makes a directory that only this user may enter, with a name that begins with the prefix and
    /// that nothing else has.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(above: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..TRIES {
            let path = above.join(new_name(prefix));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Whoever looks for abandoned directories at this moment may be quicker; then that one
            // is theirs to remove.
            let directory = match open(&path) {
                Ok(directory) => directory,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let locked = flock(&directory, FlockOperation::NonBlockingLockExclusive);
            let owned = Self { path, directory };
            // Where there are no locks nobody else can take one either, and so nobody removes it.
            if locked != Err(Errno::WOULDBLOCK) && owned.is_in_place() {
                return Ok(owned);
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "every name that was tried is taken"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes over the directories of this user that [`Owned::make`] made with this prefix, and
    /// whose processes are no more.
    #[must_use]
    pub fn abandoned(above: &Path, prefix: &str) -> Vec<Self> {
        let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
        let ours =
            entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| is_name(prefix, name)));
        ours.filter_map(|entry| Self::take(entry.path())).collect()
    }

    fn take(path: PathBuf) -> Option<Self> {
        let directory = open(&path).ok()?;
        let own = rustix::process::geteuid().as_raw();
        let ours = directory.metadata().is_ok_and(|metadata| metadata.uid() == own);
        let free = ours && flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok();
        let owned = Self { path, directory };
        (free && owned.is_in_place()).then_some(owned)
    }

    /// Whether the name still leads to this directory.
    fn is_in_place(&self) -> bool {
        let held = self.directory.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        let there = std::fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        matches!((held, there), (Ok(held), Ok(there)) if held == there)
    }
}

/// Neither follows a link nor waits for a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// The prefix, this process's id for people who look, the time, a number. It cannot be foreseen.
fn new_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = clock_gettime(ClockId::Boottime);
    let now_ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    format!("{prefix}{}-{now_ns}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a name can be one of [`new_name`].
fn is_name(prefix: &str, name: &str) -> bool {
    let parts = name.strip_prefix(prefix).map(|rest| rest.split('-').collect::<Vec<_>>());
    let number = |part: &&str| part.parse::<u64>().is_ok();
    parts.is_some_and(|parts| parts.len() == 3 && parts.iter().all(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("roundtrip-owner-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_directory_is_abandoned_when_nobody_holds_it_whatever_its_name_says() {
        let above = folder("held");
        // Made by a process of another pid namespace: here no process has its id.
        let mut owned = Owned::make(&above, "x-").unwrap();
        let foreign = above.join("x-4194304-1-0");
        std::fs::rename(&owned.path, &foreign).unwrap();
        owned.path = foreign.clone();
        assert!(Owned::abandoned(&above, "x-").is_empty(), "it is held");
        drop(owned);
        let left = Owned::abandoned(&above, "x-");
        assert_eq!(left.iter().map(Owned::path).collect::<Vec<_>>(), [&*foreign]);
        assert!(Owned::abandoned(&above, "x-").is_empty(), "whoever is to remove it holds it");
        std::fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn what_has_another_name_or_is_no_directory_is_nobodys() {
        let above = folder("names");
        for name in ["x-notes", "y-4194304-1-0", "x-4194304-1", "x-4194304-1-0-copy", "x-4194304-1-x"] {
            std::fs::create_dir(above.join(name)).unwrap();
        }
        std::fs::write(above.join("x-1-1-1"), "a file").unwrap();
        std::os::unix::fs::symlink(above.join("x-notes"), above.join("x-1-1-2")).unwrap();
        assert!(Owned::abandoned(&above, "x-").is_empty());
        std::fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn one_that_is_removed_while_it_is_made_is_made_again() {
        let above = folder("race");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for owned in Owned::abandoned(&above, "x-") {
                        let _ = std::fs::remove_dir(owned.path());
                    }
                }
            });
            for _ in 0..500 {
                let owned = Owned::make(&above, "x-").unwrap();
                std::fs::create_dir(owned.path().join("in")).unwrap();
                assert!(owned.path().join("in").exists());
                std::fs::remove_dir_all(owned.path()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        std::fs::remove_dir_all(&above).unwrap();
    }
}
