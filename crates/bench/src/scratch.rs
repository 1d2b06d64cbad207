//! Folders of a run's own: a temporary one, which ends with it, and one that is nobody's until it is complete. Must not know
//! what is put there.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tracefs::{is_abandoned, own_name};

use crate::error::{Error, Result};

const PREFIX: &str = "roundtrip-scratch-";

/// The folder. It is removed with all that is in it when this value is dropped; what a killed process could not remove, the
/// next one does.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it where temporary files belong (`TMPDIR`), open to this user only.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made.
    pub fn new() -> Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    /// Makes it in a folder, open to this user only.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made.
    pub(crate) fn within(folder: &Path) -> Result<Scratch> {
        remove_abandoned(folder, PREFIX);
        let path = folder.join(own_name(PREFIX));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|cause| Error::file("create", &path, cause))?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes folders of this user's that processes left behind when they were killed.
fn remove_abandoned(folder: &Path, prefix: &str) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let abandoned = entry.file_name().to_str().is_some_and(|name| is_abandoned(prefix, name));
        // A link is not followed.
        let ours = entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        if abandoned && ours {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A folder that stays, while it is filled: beside its place, under another name. It is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) partial: PathBuf,
    place: PathBuf,
}

impl Folder {
    /// Makes no folder yet: the one that fills it does.
    pub(crate) fn beside(place: &Path) -> Folder {
        let prefix = format!(".{}.", place.file_name().unwrap_or_default().to_string_lossy());
        if let Some(above) = place.parent() {
            remove_abandoned(above, &prefix);
        }
        let partial = place.with_file_name(own_name(&prefix));
        Folder { partial, place: place.to_owned() }
    }

    /// Puts it in its place, instead of one that was there.
    pub(crate) fn keep(&self) -> Result<()> {
        let failed = |operation, path: &PathBuf, cause| Error::file(operation, path, cause);
        if self.place.exists() {
            std::fs::remove_dir_all(&self.place).map_err(|cause| failed("remove", &self.place, cause))?;
        }
        std::fs::rename(&self.partial, &self.place).map_err(|cause| failed("create", &self.place, cause))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // There is none any more when it has its place.
        let _ = std::fs::remove_dir_all(&self.partial);
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
}
