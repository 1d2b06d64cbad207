//! Following symbolic links where that is wanted: only those of the user or root. Must not know
//! what is done at their end.

use std::io::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// As many as the kernel follows (path_resolution(7)).
const MOST: u32 = 40;

/// Where a path leads. A link that another user than root has made is not followed: it would have
/// this one write where that one may not. What /proc shows of an open file without a name
/// (`pipe:[4711]`) is returned as the link to it.
///
/// # Errors
/// For such a link, for too many links, and what the kernel says.
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
