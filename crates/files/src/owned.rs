//! Directories that a process owns while it lives. A later process can recognise and remove those
//! that a killed process left. The owner holds a lock on the directory (flock(2)), which the kernel
//! releases when the owner exits. Unlike a process id, the lock has the same meaning in every
//! container that sees the directory. Must not know what the directory contains.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::lock::{is_own, lock_abandoned, lock_new};

/// The most names to try.
const TRIES: u32 = 100;

/// A directory that this process owns. Dropping it releases the lock, but keeps the directory.
#[derive(Debug)]
pub struct Owned {
    path: PathBuf,
    /// Holds the lock.
    directory: Option<File>,
}

impl Owned {
    /// Creates a directory with mode 0700 and a unique name that begins with the prefix.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn make(above: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..TRIES {
            let path = above.join(new_name(prefix));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process that looks for abandoned directories may have removed it.
            let directory = match open(&path) {
                Ok(directory) => directory,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if lock_new(&directory, &path) {
                return Ok(Self { path, directory: Some(directory) });
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "every name that was tried is taken"))
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, as far as possible. Releases the lock, so that a process without free
    /// descriptors has one for this.
    pub fn remove(&mut self) {
        self.directory = None;
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// Takes ownership of this user's directories that [`Owned::make`] created with this prefix and
    /// whose owners have exited.
    #[must_use]
    pub fn abandoned(above: &Path, prefix: &str) -> Vec<Self> {
        let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
        let ours =
            entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| is_name(prefix, name)));
        ours.filter_map(|entry| Self::take(entry.path())).collect()
    }

    fn take(path: PathBuf) -> Option<Self> {
        let directory = open(&path).ok()?;
        let free = is_own(&directory) && lock_abandoned(&directory, &path);
        free.then_some(Self { path, directory: Some(directory) })
    }
}

/// Opens without following a link and without blocking on a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// An unpredictable name: the prefix, this process's id (for human readers), the time and a number.
fn new_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = clock_gettime(ClockId::Boottime);
    let now_ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    format!("{prefix}{}-{now_ns}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether [`new_name`] may have made this name.
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
    fn a_directory_without_a_lock_is_abandoned_whatever_process_id_its_name_has() {
        let above = folder("held");
        // As if made in another pid namespace: no process here has this id.
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
    fn other_names_and_files_are_not_taken_over() {
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
    fn a_directory_that_is_removed_during_creation_is_created_again() {
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
