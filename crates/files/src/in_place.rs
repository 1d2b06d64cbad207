//! Whether a path still names an open file. Must not know whose file it is.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether the path names this open file or directory, rather than nothing, a link, or a file that
/// has taken its place.
#[must_use]
pub fn is_in_place(file: &File, path: &Path) -> bool {
    let open = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    let there = std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((open, there), (Ok(open), Ok(there)) if open == there)
}
