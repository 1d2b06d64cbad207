//! Writes a result to a new temporary file in the destination's directory, and renames the file
//! when it is complete. The rename is atomic and fails if the name exists, unless replacing was
//! requested. What a killed process left is removed by the next that writes to the directory.

use std::fs::{File, FileType};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::lock::{is_own, lock_abandoned, lock_new};

/// How the names of temporary files begin and end.
const PREFIX: &str = ".roundtrip-";
const SUFFIX: &str = ".partial";

/// What to do if the file exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Keep it, and fail.
    #[default]
    Keep,
    /// Replace a regular file atomically. Fail for anything else.
    Replace,
}

/// A file that does not have its final name yet. Dropping it removes the temporary file.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    /// `None` once the file has its final name.
    partial: Option<PathBuf>,
    place: PathBuf,
    existing: Existing,
}

impl NewFile {
    /// Creates the temporary file.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if the name exists and must not be replaced, and the errors of
    /// system calls.
    pub fn create(place: &Path, existing: Existing) -> Result<Self> {
        check(place, existing)?;
        if place.file_name().is_none() {
            return Err(Error::new(ErrorKind::InvalidInput, "it names no file"));
        }
        let (partial, file) = beside(place)?;
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { out, partial: Some(partial), place: place.to_owned(), existing })
    }

    /// Gives the complete file its final name.
    ///
    /// # Errors
    /// Those of [`NewFile::create`]. The temporary file is then removed.
    pub fn complete(mut self) -> Result<()> {
        self.out.flush()?;
        // Without this, a power failure after the rename could leave an empty file.
        self.out.get_ref().sync_all()?;
        let Some(partial) = &self.partial else { return Ok(()) };
        match self.existing {
            Existing::Keep => put(partial, &self.place)?,
            Existing::Replace => {
                check(&self.place, self.existing)?;
                std::fs::rename(partial, &self.place)?;
            }
        }
        self.partial = None;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // The first error is the one to report.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// Writes a file completely or not at all.
///
/// # Errors
/// Those of [`NewFile::create`].
pub fn write(place: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    let mut file = NewFile::create(place, existing)?;
    file.write_all(bytes)?;
    file.complete()
}

/// Fails if the name exists, even as a dangling link.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`].
pub fn refuse_existing(place: &Path) -> Result<()> {
    check(place, Existing::Keep)
}

/// Renames a file or a directory, unless the new name exists.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if it exists, and the errors of system calls. The old name is then
/// kept.
pub fn put(partial: &Path, place: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, partial, CWD, place, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(taken()),
        // File systems and kernels without RENAME_NOREPLACE.
        Err(Errno::INVAL | Errno::NOSYS) => claim(partial, place),
        other => Ok(other?),
    }
}

/// Reserves the name with a new empty file or directory, and then replaces that.
fn claim(partial: &Path, place: &Path) -> Result<()> {
    let folder = std::fs::symlink_metadata(partial)?.is_dir();
    let claimed = if folder { std::fs::create_dir(place) } else { File::create_new(place).map(drop) };
    claimed.map_err(|error| if error.kind() == ErrorKind::AlreadyExists { taken() } else { error })?;
    std::fs::rename(partial, place).inspect_err(|_| {
        let _ = if folder { std::fs::remove_dir(place) } else { std::fs::remove_file(place) };
    })
}

fn taken() -> Error {
    Error::new(ErrorKind::AlreadyExists, "it already exists")
}

/// The directory that contains a path.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check(place: &Path, existing: Existing) -> Result<()> {
    match (std::fs::symlink_metadata(place), existing) {
        (Err(error), _) if error.kind() == ErrorKind::NotFound => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(_), Existing::Keep) => Err(taken()),
        (Ok(found), Existing::Replace) => replaceable(found.file_type()),
    }
}

fn replaceable(kind: FileType) -> Result<()> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "a device, FIFO or socket"
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, which is never replaced")))
}

/// Creates a new file in the same directory, with a name that does not exist yet. Holds a lock on
/// it until it is closed. First removes the files that killed processes left there.
fn beside(place: &Path) -> Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    remove_abandoned(folder_of(place));
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = place.with_file_name(format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id()));
        // O_EXCL does not follow a symbolic link.
        match File::options().write(true).create_new(true).mode(0o666).open(&partial) {
            Ok(file) if lock_new(&file, &partial) => return Ok((partial, file)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes this user's temporary files whose processes were killed: no process holds their lock.
fn remove_abandoned(folder: &Path) {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_str().is_some_and(is_partial) {
            continue;
        }
        let Ok(file) = File::options().read(true).custom_flags(flags).open(&path) else { continue };
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && is_own(&file) && lock_abandoned(&file, &path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether [`beside`] may have made this name.
fn is_partial(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)?.split_once('-'));
    numbers.is_some_and(|(pid, number)| pid.parse::<u32>().is_ok() && number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rename_that_refuses_existing_names_the_name_is_reserved_first() {
        let folder = std::env::temp_dir().join(format!("roundtrip-claim-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("new/in")).unwrap();
        for (name, text) in [("one", "1"), ("two", "2")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let error = claim(&folder.join("one"), &folder.join("two")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(folder.join("two")).unwrap(), b"2");
        claim(&folder.join("one"), &folder.join("three")).unwrap();
        assert_eq!(std::fs::read(folder.join("three")).unwrap(), b"1");
        claim(&folder.join("new"), &folder.join("named")).unwrap();
        assert!(folder.join("named/in").is_dir() && !folder.join("new").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_file_of_a_killed_process_is_removed_by_the_next_and_no_other() {
        let folder = std::env::temp_dir().join(format!("roundtrip-partial-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let living = NewFile::create(&folder.join("living"), Existing::Keep).unwrap();
        for name in [".roundtrip-4194304-0.partial", ".roundtrip-notes.partial", "mine-1-1.partial"] {
            std::fs::write(folder.join(name), "half").unwrap();
        }
        std::os::unix::fs::symlink("mine-1-1.partial", folder.join(".roundtrip-4194304-1.partial")).unwrap();
        write(&folder.join("next"), b"whole", Existing::Keep).unwrap();
        living.complete().unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let kept = [
            ".roundtrip-4194304-1.partial",
            ".roundtrip-notes.partial",
            "living",
            "mine-1-1.partial",
            "next",
        ];
        assert_eq!(names, kept);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
