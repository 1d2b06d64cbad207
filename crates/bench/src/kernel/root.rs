//! The root of all files with kernel facts: `/` on a running machine, a fixture tree in tests.
//! Reads small text files without blocking, and nothing else. Must not know what they mean.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where tracefs is mounted, if it is: `roundtrip_tracefs::PLACES` below a root.
pub(crate) const TRACING: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Larger than any file with facts: /proc/interrupts of a machine with hundreds of CPUs is about
/// one megabyte.
const MOST_BYTES: u64 = 4 << 20;

/// More entries than any directory with facts has. Process ids end at this number.
const MOST_NAMES: usize = 4 << 20;

/// The directory that contains `proc`, `sys`, `dev` and `boot`.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// The running machine.
    #[must_use]
    pub fn real() -> Self {
        Self("/".into())
    }

    /// A recorded or artificial machine.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The file's text without surrounding white space; `None` if it is missing, unreadable or
    /// empty.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.read_bytes(path)?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The file's bytes; `None` if it is missing or unreadable.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.bytes(path).ok()
    }

    /// The file's bytes. Never blocks, and never reads more than a few megabytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for anything but a regular file, [`ErrorKind::FileTooLarge`] for
    /// a long one, and the kernel's errors.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let path = self.path(path);
        // Checked before opening, because opening some devices has effects.
        only_regular(&std::fs::metadata(&path)?)?;
        // The file may have been replaced since, and opening a FIFO must not block.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        only_regular(&file.metadata()?)?;
        let mut bytes = Vec::new();
        // Sizes of procfs files are meaningless, so read to the end.
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Error::new(ErrorKind::FileTooLarge, format!("longer than {MOST_BYTES} bytes")));
        }
        Ok(bytes)
    }

    /// The file's text without surrounding white space, or in a few words why it cannot be read. An
    /// empty file is empty text.
    ///
    /// # Errors
    /// "not there", "not readable without root", "not a regular file".
    pub fn look(&self, path: impl AsRef<Path>) -> std::result::Result<String, String> {
        match self.bytes(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err("not there".to_owned()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err("not readable without root".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The file's number; `None` if it is missing or not a number.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// The names in a directory, sorted; empty if it is missing.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let entries = entries.take(MOST_NAMES);
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether the path exists.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The path under this root. Absolute paths are also resolved under it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn only_regular(found: &Metadata) -> Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let what = if found.is_dir() { "a directory, not a file" } else { "not a regular file" };
    Err(Error::new(ErrorKind::InvalidInput, what))
}

/// Creates a fixture tree with these files, in a new directory that is removed after the test.
#[cfg(test)]
pub(crate) fn fixture(files: &[(&str, &str)]) -> Fixture {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("roundtrip-fixture-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let root = Root::at(std::env::temp_dir().join(name));
    for (path, text) in files {
        let path = root.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Fixture(root)
}

/// Removes the tree when dropped.
#[cfg(test)]
pub(crate) struct Fixture(Root);

#[cfg(test)]
impl std::ops::Deref for Fixture {
    type Target = Root;
    fn deref(&self) -> &Root {
        &self.0
    }
}

#[cfg(test)]
impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_none_and_not_an_error() {
        let root = fixture(&[("sys/present", " 42 \n"), ("sys/empty", "\n")]);
        assert_eq!(root.read("sys/present").as_deref(), Some("42"));
        assert_eq!(root.number::<u32>("/sys/present"), Some(42));
        assert_eq!(root.read("sys/empty"), None);
        assert_eq!(root.read("sys/absent"), None);
        assert_eq!(root.names("sys"), ["empty", "present"]);
    }

    #[test]
    fn special_and_long_files_are_neither_waited_for_nor_read() {
        let root = fixture(&[("sys/here", "1\n")]);
        let at = |name: &str| root.path(format!("sys/{name}"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(root.look("sys/here").as_deref(), Ok("1"));
        for (name, reason) in [
            ("fifo", "not a regular file"),
            ("endless", "not a regular file"),
            ("huge", "longer than 4194304 bytes"),
            ("absent", "not there"),
            ("", "a directory, not a file"),
        ] {
            assert_eq!(root.look(format!("sys/{name}")), Err(reason.to_owned()), "{name}");
            assert_eq!(root.read(format!("sys/{name}")), None, "{name}");
        }
    }
}
