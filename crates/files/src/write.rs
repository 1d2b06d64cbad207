//! Writing a result. It is written beside its place, into a file that this process has just made,
//! and gets its name when it is complete: in one step that by itself refuses to replace anything,
//! where that is not asked for.

use std::fs::{File, FileType};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and writing is refused.
    #[default]
    Keep,
    /// A regular file is replaced, in one step. Anything else stays.
    Replace,
}

/// A file on the way to its place. Dropping it before it is complete leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    /// `None` when it has its place.
    partial: Option<PathBuf>,
    place: PathBuf,
    existing: Existing,
}

impl NewFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when something is there that stays, and what the kernel says.
    pub fn create(place: &Path, existing: Existing) -> Result<Self> {
        check(place, existing)?;
        if place.file_name().is_none() {
            return Err(Error::new(ErrorKind::InvalidInput, "it names no file"));
        }
        let (partial, file) = beside(place)?;
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { out, partial: Some(partial), place: place.to_owned(), existing })
    }

    /// Gives the file its place.
    ///
    /// # Errors
    /// As [`NewFile::create`]; then nothing is left of it.
    pub fn complete(mut self) -> Result<()> {
        self.out.flush()?;
        // Renaming a file whose bytes are not on the disk yet could leave an empty one after a
        // power failure.
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
            // The earlier error is the one to report.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// As [`NewFile::create`].
pub fn write(place: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    let mut file = NewFile::create(place, existing)?;
    file.write_all(bytes)?;
    file.complete()
}

/// Refuses a place where something is, be it a link that leads nowhere.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`].
pub fn refuse_existing(place: &Path) -> Result<()> {
    check(place, Existing::Keep)
}

/// Gives a file or a folder its name, unless that is taken.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] when it is, and what the kernel says. Then it has its old name.
pub fn put(partial: &Path, place: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, partial, CWD, place, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Err(taken()),
        // File systems and kernels that cannot do it in one step.
        Err(Errno::INVAL | Errno::NOSYS) => claim(partial, place),
        other => Ok(other?),
    }
}

/// Takes the name with something empty of our own, which is then replaced.
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

/// A new file in the same folder. Names that are taken, by whomever, are left alone.
fn beside(place: &Path) -> Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = place.with_file_name(format!(".roundtrip-{}-{number}.partial", std::process::id()));
        // O_EXCL follows no link.
        match File::options().write(true).create_new(true).mode(0o666).open(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 10_000 => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_kernel_cannot_refuse_a_taken_name_it_is_claimed_first() {
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
}
