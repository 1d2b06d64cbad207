//! The files of this project, for tests of what they contain.

use std::path::Path;
use std::process::Command;

/// The path and text of each file that git knows and that matches the pattern, if it is text.
pub(crate) fn files(pattern: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let listed = Command::new("git").args(["ls-files", pattern]).current_dir(root).output().expect("git");
    let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    // Files that were removed, but not committed, are still listed.
    let read = |path: &str| Some((path.to_owned(), std::fs::read_to_string(root.join(path)).ok()?));
    listed.lines().filter_map(read).collect()
}
