//! The log of injected disturbances: lines of a file that several processes append to.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Error, Result};
use roundtrip_run::injection::Cause;

/// Creates an empty log, and opens it.
pub(super) fn create(path: &Path) -> Result<OwnedFd> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|source| Error::file("create", directory, source))?;
    }
    roundtrip_files::write(path, b"cause,tid,begin_ns,end_ns\n", roundtrip_files::Existing::Keep)
        .map_err(|source| Error::file("write", path, source))?;
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let opened = File::options().append(true).custom_flags(nofollow).open(path);
    opened.map(OwnedFd::from).map_err(|source| Error::file("open", path, source))
}

/// An open log.
#[derive(Debug)]
pub(super) struct Log(Option<File>);

impl Log {
    /// Opens the log.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            File::options().append(true).open(path).map_err(|cause| Error::file("open", path, cause))
        };
        Ok(Self(path.map(open).transpose()?))
    }

    /// Appends one line in one write, so that lines of several processes do not mix.
    pub(super) fn note(&self, cause: Cause, tid: u32, begin_ns: u64, end_ns: u64) {
        if let Some(mut file) = self.0.as_ref() {
            // A full disk truncates the log, but does not end the run.
            let _ = file.write_all(format!("{},{tid},{begin_ns},{end_ns}\n", cause.name()).as_bytes());
        }
    }
}
