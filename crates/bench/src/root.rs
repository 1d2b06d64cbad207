//! Where the kernel's facts are read from: `/` on a running machine, a fixture tree in tests. Reads small text files,
//! and nothing else; must not know what they mean.

use std::path::{Path, PathBuf};

/// The directory under which `proc`, `sys`, `dev` and `boot` are found.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// The running machine.
    pub fn real() -> Root {
        Root("/".into())
    }

    /// A recorded or made-up machine.
    pub fn at(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// The file's text without white space at its ends; `None` when it is not there, not readable or empty.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = self.read_bytes(path)?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The file's bytes; `None` when it is not there or not readable.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        std::fs::read(self.path(path)).ok()
    }

    /// The file's number; `None` when it is not there or no number.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// Names in a directory, sorted; none when it is not there.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether the path exists.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The path under this root; absolute paths are taken from it, too.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// A fixture tree with these files, in a directory of its own that outlives the test by nothing.
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
}
