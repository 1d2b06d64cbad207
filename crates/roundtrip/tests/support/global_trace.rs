//! The kernel's global trace, which there is one of: tests that start it take turns, whichever
//! binary they are in.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The turn of a test. It ends with this value, or with its process.
pub(crate) struct Turn(#[allow(dead_code, reason = "holds a lock")] File);

impl Turn {
    pub(crate) fn take() -> Self {
        let path = std::env::temp_dir().join("roundtrip-tests-of-the-global-trace");
        let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}

/// Every setting of the global trace that is touched, as text.
pub(crate) fn settings(root: &Path) -> Vec<String> {
    let files = ["trace_clock", "tracing_on", "set_event", "options/overwrite", "options/record-tgid"];
    let mut all: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(root.join(file)).unwrap()).collect();
    // A buffer that was never used says how large it would be.
    let size = std::fs::read_to_string(root.join("buffer_size_kb")).unwrap();
    let size = size.trim().rsplit(' ').next().unwrap().trim_end_matches(')').to_owned();
    all.push(size);
    all
}
