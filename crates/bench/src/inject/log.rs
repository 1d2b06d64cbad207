//! The list of what was done when, as lines of a file that several processes append to.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::Cause;
use crate::error::{Error, Result};

/// Begins a list.
pub(super) fn create(path: &Path) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
    }
    std::fs::write(path, "cause,tid,begin_ns,end_ns\n").map_err(|source| Error::file("write", path, source))
}

/// The list, to append to.
#[derive(Debug)]
pub(super) struct Log(Option<File>);

impl Log {
    pub(super) fn open(path: Option<&Path>) -> Result<Log> {
        let open = |path: &Path| {
            File::options().append(true).open(path).map_err(|source| Error::file("open", path, source))
        };
        path.map(open).transpose().map(Log)
    }

    /// Notes one. Each line is one write, so that lines of several processes do not mix.
    pub(super) fn note(&self, cause: Cause, tid: u32, begin_ns: u64, end_ns: u64) {
        if let Some(mut file) = self.0.as_ref() {
            // A disk that is full costs the list its end, not the run.
            let _ = file.write_all(format!("{},{tid},{begin_ns},{end_ns}\n", cause.name()).as_bytes());
        }
    }
}
