//! A folder for the temporary files of tests, and a look at what they left there or mounted. Knows
//! no test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// A folder for temporary files. Removed when this value is dropped.
pub(crate) struct Temporary {
    folder: PathBuf,
    mounts: Vec<String>,
}

impl Temporary {
    pub(crate) fn new() -> Result<Self> {
        // A short path, because the path of a socket has at most 107 bytes.
        let folder = std::env::temp_dir().join(format!("rt{}", std::process::id()));
        let context = || format!("create {}", folder.display());
        fs::create_dir(&folder).with_context(context)?;
        // Tests also run programs as other users.
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o1777)).with_context(context)?;
        Ok(Self { folder, mounts: mounts() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Fails if the folder is not empty, or if something is mounted that was not.
    pub(crate) fn check(&self) -> Result<()> {
        let entries = fs::read_dir(&self.folder).context("list the tests' temporary folder")?;
        let mut left: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        left.extend(mounts().into_iter().filter(|mount| !self.mounts.contains(mount)));
        left.sort();
        ensure!(
            left.is_empty(),
            "the tests left {} files, folders or mounts behind:\n{}",
            left.len(),
            left.join("\n")
        );
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What is mounted: place, type and source (proc_pid_mountinfo(5)).
fn mounts() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        Some(format!("mount {}: {} {}", before.split(' ').nth(4)?, after.next()?, after.next()?))
    };
    text.lines().filter_map(mount).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_test_left_is_named() {
        let temporary = Temporary::new().unwrap();
        temporary.check().unwrap();
        fs::write(temporary.path().join("left"), "").unwrap();
        let error = temporary.check().unwrap_err().to_string();
        assert!(error.contains("left 1 files") && error.ends_with("\nleft"), "{error}");
        let folder = temporary.path().to_owned();
        drop(temporary);
        assert!(!folder.exists());
    }

    #[test]
    fn mounts_are_listed_with_place_type_and_source() {
        assert!(mounts().iter().any(|mount| mount.starts_with("mount /proc: proc ")), "{:?}", mounts());
    }
}
