//! The kernel's global trace. There is only one, so the tests that start it run one at a time,
//! across all test programs.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// A test's turn to use the trace. It ends when this value is dropped or the process ends.
pub(crate) struct Turn(#[allow(dead_code, reason = "holds a lock")] File);

impl Turn {
    pub(crate) fn take() -> Self {
        let path = std::env::temp_dir().join("roundtrip-tests-of-the-global-trace");
        let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}

/// The settings of the global trace that the program changes, as text.
pub(crate) fn settings(root: &Path) -> Vec<String> {
    let files = ["trace_clock", "tracing_on", "set_event", "options/overwrite", "options/record-tgid"];
    let mut all: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(root.join(file)).unwrap()).collect();
    // An unused buffer shows two sizes: its own, and the one that it gets on first use.
    let size = std::fs::read_to_string(root.join("buffer_size_kb")).unwrap();
    let size = size.trim().rsplit(' ').next().unwrap().trim_end_matches(')').to_owned();
    all.push(size);
    all
}
