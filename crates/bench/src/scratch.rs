//! A temporary folder of a run's own, which ends with it. Must not know what is put there.

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
        let folder = std::env::temp_dir();
        remove_abandoned(&folder, PREFIX);
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
pub(crate) fn remove_abandoned(folder: &Path, prefix: &str) {
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
