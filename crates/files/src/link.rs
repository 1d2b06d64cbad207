//! Resolves symbolic links, but only those that this user or root owns. Must not know what the
//! target is used for.

use std::io::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most links to follow, as in the kernel (path_resolution(7)).
const MOST: u32 = 40;

/// The target of a path whose last component may be a symbolic link. A link that belongs to neither
/// this user nor root is an error: with such a link, its owner could make this process write to a
/// file that the owner may not write to. If a link in /proc leads to an open file without a name
/// (`pipe:[4711]`), returns the link itself.
///
/// # Errors
/// If a link belongs to another user, if there are too many links, or if a system call fails.
pub fn followed(path: &Path) -> Result<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Some(link) = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_symlink) else {
            return Ok(path);
        };
        if ![0, own].contains(&link.uid()) {
            return Err(Error::other("it is a symbolic link that belongs to another user"));
        }
        let target = std::fs::read_link(&path)?;
        if target.to_string_lossy().contains(":[") {
            return Ok(path);
        }
        path.pop();
        path.push(target);
    }
    Err(Error::other("too many symbolic links"))
}
