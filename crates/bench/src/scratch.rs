//! Folders of a run's own: a temporary one, which ends with it, and one that is nobody's until it
//! is complete. Must not know what is put there.

use std::path::{Path, PathBuf};

use files::Owned;

use crate::error::{Error, Result};

const PREFIX: &str = "roundtrip-scratch-";

/// The folder. It is removed with all that is in it when this value is dropped; what a killed
/// process could not remove, the next one does.
#[derive(Debug)]
pub struct Scratch(Owned);

impl Scratch {
    /// Makes it where temporary files belong (`TMPDIR`), open to this user only.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made.
    pub fn new() -> Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Makes it in a folder, open to this user only.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made.
    pub(crate) fn within(folder: &Path) -> Result<Self> {
        remove_abandoned(folder, PREFIX);
        let made = Owned::make(folder, PREFIX);
        made.map(Scratch).map_err(|cause| Error::file("make a directory in", folder, cause))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.path());
    }
}

/// Removes folders of this user's that processes left behind when they were killed.
pub(crate) fn remove_abandoned(folder: &Path, prefix: &str) {
    for abandoned in Owned::abandoned(folder, prefix) {
        let _ = std::fs::remove_dir_all(abandoned.path());
    }
}

/// A folder that stays, while it is filled: beside its place, in a folder of its own. It is removed
/// unless it is kept.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) partial: PathBuf,
    place: PathBuf,
    around: Owned,
}

impl Folder {
    /// Makes the directories above the place and no folder yet: the one that fills it does.
    ///
    /// # Errors
    /// [`Error::File`] when nothing can be made there.
    pub(crate) fn beside(place: &Path) -> Result<Self> {
        let name = place.file_name().unwrap_or_default();
        let prefix = format!(".{}.", name.to_string_lossy());
        let above = place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(above).map_err(|cause| Error::file("create", above, cause))?;
        remove_abandoned(above, &prefix);
        let made = Owned::make(above, &prefix);
        let around = made.map_err(|cause| Error::file("make a directory in", above, cause))?;
        Ok(Self { partial: around.path().join(name), place: place.to_owned(), around })
    }

    /// Puts it in its place, where nothing may be.
    pub(crate) fn keep(&self) -> Result<()> {
        files::put(&self.partial, &self.place).map_err(|cause| Error::file("create", &self.place, cause))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is not in there any more when it has its place.
        let _ = std::fs::remove_dir_all(self.around.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fixture;

    #[test]
    fn it_ends_with_all_that_is_in_it() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        remove_abandoned(path.parent().unwrap(), PREFIX);
        assert!(path.join("file").exists(), "its process lives");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let root =
            fixture(&[(".x.4194303-1-0/file", ""), (".x.notes/file", ""), (".x.4194302-1-0", "a file")]);
        remove_abandoned(&root.path(""), ".x.");
        assert_eq!(root.names(""), [".x.4194302-1-0", ".x.notes"]);
    }

    #[test]
    fn a_folder_that_is_being_filled_is_nobodys_to_remove() {
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
