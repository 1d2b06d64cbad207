//! The log of injected disturbances: lines of a file that several processes append to.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use roundtrip_run::injection::Cause;

/// Creates an empty log.
pub(super) fn create(path: &Path) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
    }
    roundtrip_files::write(path, b"cause,tid,begin_ns,end_ns\n", roundtrip_files::Existing::Keep)
        .map_err(|source| Error::file("write", path, source))
}

/// An open log.
#[derive(Debug)]
pub(super) struct Log(Option<File>);

impl Log {
    /// Opens the log. If it was removed, the run continues without it.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
        let open = |path: &Path| match File::options().append(true).custom_flags(nofollow).open(path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(|cause| Error::file("open", path, cause)),
        };
        Ok(Self(path.map(open).transpose()?.flatten()))
    }

    /// Appends one line in one write, so that lines of several processes do not mix.
    pub(super) fn note(&self, cause: Cause, tid: u32, begin_ns: u64, end_ns: u64) {
        if let Some(mut file) = self.0.as_ref() {
            // A full disk truncates the log, but does not end the run.
            let _ = file.write_all(format!("{},{tid},{begin_ns},{end_ns}\n", cause.name()).as_bytes());
        }
    }
}
