//! The directory through which commands of one user share state. Only that user may write to it, so
//! other users cannot interfere. Must not know what is stored in it.

use std::fs::DirBuilder;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directory, created if it does not exist. `root` is `/` except in tests.
///
/// # Errors
/// If no candidate is usable, with the reason for each.
pub fn private_directory(root: &Path) -> Result<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let mut reasons = Vec::new();
    for path in places(root, own) {
        if !path.parent().is_some_and(Path::is_dir) {
            continue;
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                reasons.push(format!("{} cannot be made: {error}", path.display()));
            }
            _ if is_private(&path, own) => return Ok(path),
            _ => reasons.push(format!(
                "{} does not belong to this user, or gives access to others: remove it",
                path.display()
            )),
        }
    }
    let why = if reasons.is_empty() { "there is no /run".to_owned() } else { reasons.join("; ") };
    Err(Error::other(format!("no directory to save settings in until they are restored: {why}")))
}

/// The existing private directories, in order of preference.
#[must_use]
pub fn private_directories(root: &Path) -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    places(root, own).into_iter().filter(|path| is_private(path, own)).collect()
}

/// For root, directories in which only root may create files; Android has no /run, but its
/// /data/local belongs to root. For other users, the session's runtime directory. Temporary
/// directories are writable for all users and come last.
fn places(root: &Path, uid: u32) -> Vec<PathBuf> {
    let temporary = std::env::temp_dir().join(format!("roundtrip-{uid}"));
    if uid == 0 {
        return vec![root.join("run/roundtrip"), root.join("data/local/roundtrip"), temporary];
    }
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    session.map(|path| path.join("roundtrip")).into_iter().chain([temporary]).collect()
}

fn is_private(path: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn links_and_directories_that_others_may_enter_are_skipped() {
        let root = std::env::temp_dir().join(format!("roundtrip-private-{}", std::process::id()));
        for name in ["run", "data/local", "elsewhere"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let own = rustix::process::geteuid().as_raw();
        let (first, second) = (root.join("run/roundtrip"), root.join("data/local/roundtrip"));
        std::fs::create_dir(&first).unwrap();
        std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(is_private(&first, own) && !is_private(&first, own + 1));
        std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(root.join("elsewhere"), &second).unwrap();
        assert!(!is_private(&first, own) && !is_private(&second, own));
        if own == 0 {
            assert!(!private_directories(&root).iter().any(|path| path.starts_with(root.join("run"))));
            std::fs::remove_dir(&first).unwrap();
            assert_eq!(private_directory(&root).unwrap(), first);
            assert_eq!(private_directories(&root)[0], first);
            assert_eq!(std::fs::metadata(&first).unwrap().mode() & 0o777, 0o700);
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
