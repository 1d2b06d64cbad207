//! The folder of a guest: what QEMU reads and writes. Must not know what is in it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use roundtrip_files::Owned;

/// The beginning of the names of guests' folders.
const PREFIX: &str = "roundtrip-guest-";

/// A folder for one guest, deleted with this value.
pub(crate) struct Folder(Owned);

impl Folder {
    /// Makes it, and removes those whose programs were killed: each has an image of a disk.
    pub(crate) fn new() -> Result<Self> {
        let above = std::env::temp_dir();
        Owned::abandoned(&above, PREFIX).iter_mut().for_each(Owned::remove);
        let made = Owned::make(&above, PREFIX);
        made.map(Self).with_context(|| format!("create a folder in {}", above.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_folder_is_removed_also_after_a_kill() {
        let left = Owned::make(&std::env::temp_dir(), PREFIX).expect("a folder").path().to_owned();
        let folder = Folder::new().expect("a folder");
        assert!(!left.exists() && folder.file("").is_dir());
        let path = folder.file("");
        drop(folder);
        assert!(!path.exists());
    }
}
