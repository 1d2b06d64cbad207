//! Private folders of a run: a temporary one, which is removed with it, and one that is moved into
//! place when it is complete. Must not know what they contain.

use std::path::{Path, PathBuf};

use roundtrip_files::{Owned, folder_of};

use crate::error::{Error, Result};

const PREFIX: &str = "roundtrip-scratch-";

/// A temporary folder. Dropping it removes it with its contents. If its process is killed, a later
/// process removes it.
#[derive(Debug)]
pub struct Scratch(Owned);

impl Scratch {
    /// Creates it in the directory for temporary files (`TMPDIR`), accessible to this user only.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be created.
    pub fn new() -> Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Creates it in `folder`, accessible to this user only.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be created.
    pub(crate) fn within(folder: &Path) -> Result<Self> {
        remove_abandoned(folder, PREFIX);
        let made = Owned::make(folder, PREFIX);
        made.map(Scratch).map_err(|cause| Error::file("make a directory in", folder, cause))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Removes this user's folders that killed processes left behind.
pub(crate) fn remove_abandoned(folder: &Path, prefix: &str) {
    for mut abandoned in Owned::abandoned(folder, prefix) {
        abandoned.remove();
    }
}

/// A folder that is filled in a temporary folder beside its final place. It is removed unless it is
/// kept.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) partial: PathBuf,
    place: PathBuf,
    around: Owned,
}

impl Folder {
    /// Creates the directories above the final place, but not the folder itself, which the caller
    /// creates.
    ///
    /// # Errors
    /// [`Error::File`] if nothing can be created there.
    pub(crate) fn beside(place: &Path) -> Result<Self> {
        let name = place.file_name().unwrap_or_default();
        let prefix = format!(".{}.", name.to_string_lossy());
        let above = folder_of(place);
        std::fs::create_dir_all(above).map_err(|cause| Error::file("create", above, cause))?;
        remove_abandoned(above, &prefix);
        let made = Owned::make(above, &prefix);
        let around = made.map_err(|cause| Error::file("make a directory in", above, cause))?;
        Ok(Self { partial: around.path().join(name), place: place.to_owned(), around })
    }

    /// Moves it to its final place, where nothing may exist.
    pub(crate) fn keep(&self) -> Result<()> {
        roundtrip_files::put(&self.partial, &self.place)
            .map_err(|cause| Error::file("create", &self.place, cause))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // When kept, the folder is no longer inside.
        self.around.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    #[test]
    fn it_is_removed_with_its_contents() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        remove_abandoned(path.parent().unwrap(), PREFIX);
        assert!(path.join("file").exists(), "its process is alive");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_folders_of_killed_processes_are_removed() {
        let root =
            fixture(&[(".x.4194303-1-0/file", ""), (".x.notes/file", ""), (".x.4194302-1-0", "a file")]);
        remove_abandoned(&root.path(""), ".x.");
        assert_eq!(root.names(""), [".x.4194302-1-0", ".x.notes"]);
    }

    #[test]
    fn a_folder_in_use_is_not_removed_by_others() {
        let root = fixture(&[("x", "")]);
        let place = root.path("above/run");
        let first = Folder::beside(&place).unwrap();
        std::fs::create_dir(&first.partial).unwrap();
        let second = Folder::beside(&place).unwrap();
        assert!(first.partial.exists());
        first.keep().unwrap();
        drop((first, second));
        assert_eq!(root.names("above"), ["run"]);
    }
}
