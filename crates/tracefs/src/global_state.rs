//! The state file of the global trace: its settings from before the start, and how far a command
//! has come. The file is always complete, because each change replaces it. Only one command at a
//! time can use it. Must not know what the settings mean.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use roundtrip_files::{private_directories, private_directory};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The name of the state file.
const NAME: &str = "trace.json";

/// The name of the file while it is written.
const PARTIAL: &str = "trace.json.partial";

/// How long to wait for another command.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far the commands have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Settings are being changed; the start has not been reported yet.
    Starting,
    Running,
    /// Settings are being restored; the events have been stored or are not wanted.
    Restoring,
    /// All settings are restored.
    Leaving,
}

/// The settings before the start, and what was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    schema: String,
    version: u32,
    boot_id: String,
    pub(crate) phase: Phase,
    /// When it was started, in nanoseconds of CLOCK_BOOTTIME. After a reboot, the state is
    /// obsolete.
    pub(crate) started_ns: u64,
    pub(crate) root: PathBuf,
    /// Whether tracefs has been, or is about to be, mounted for it.
    pub(crate) mounted: bool,
    /// Files below the root and the values to restore, in this order. Empty before anything was
    /// changed.
    pub(crate) before: Vec<(String, String)>,
    pub(crate) events: Vec<String>,
    pub(crate) missing: Vec<String>,
    pub(crate) clock: String,
    pub(crate) kilobytes: u64,
}

impl State {
    pub(crate) fn new(root: PathBuf, mounted: bool, kilobytes: u64, started_ns: u64) -> Self {
        Self {
            schema: "roundtrip.trace-state".to_owned(),
            version: 2,
            boot_id: boot_id(),
            phase: Phase::Starting,
            started_ns,
            root,
            mounted,
            before: Vec::new(),
            events: Vec::new(),
            missing: Vec::new(),
            clock: String::new(),
            kilobytes,
        }
    }
}

/// The directory of the state file. Only the process that has this value, or a clone, works on it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    file: PathBuf,
    /// The locked directory. The kernel releases the lock when the process ends.
    _directory: Rc<File>,
}

impl Place {
    /// Finds or creates the directory.
    ///
    /// # Errors
    /// [`Error::NoPlace`] if no directory is possible, [`Error::Busy`] if another command is
    /// running.
    pub(crate) fn make() -> Result<Self> {
        // A directory that was chosen earlier is used as long as it has a state.
        match Self::find()? {
            Some(place) => Ok(place),
            None => {
                let directory =
                    private_directory(Path::new("/")).map_err(|cause| Error::NoPlace { cause })?;
                Self::lock(&directory)
            }
        }
    }

    /// The directory that has a state; `None` if nothing was started.
    ///
    /// # Errors
    /// [`Error::Busy`] if another command is running.
    pub(crate) fn find() -> Result<Option<Self>> {
        let exists = |path: PathBuf| path.symlink_metadata().is_ok();
        let has_state = |directory: &PathBuf| exists(directory.join(NAME)) || exists(directory.join(PARTIAL));
        let directory = private_directories(Path::new("/")).into_iter().find(has_state);
        directory.map(|directory| Self::lock(&directory)).transpose()
    }

    fn lock(directory: &Path) -> Result<Self> {
        let opened = File::open(directory).map_err(|cause| Error::file("open", directory, cause))?;
        let until = Instant::now() + PATIENCE;
        while flock(&opened, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= until {
                return Err(Error::Busy);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { file: directory.join(NAME), _directory: Rc::new(opened) })
    }

    fn partial(&self) -> PathBuf {
        self.file.with_file_name(PARTIAL)
    }

    /// Replaces the state file, completely or not at all.
    ///
    /// # Errors
    /// [`Error::File`] if that fails.
    pub(crate) fn store(&self, state: &State) -> Result<()> {
        let partial = self.partial();
        let text = roundtrip_stored::to_text(state).unwrap_or_default();
        let written = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&partial)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| std::fs::rename(&partial, &self.file));
        written.map_err(|cause| {
            let _ = std::fs::remove_file(&partial);
            Error::file("write", &self.file, cause)
        })
    }

    /// The state; `None` if nothing was started since boot.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::NotARecording`] if it is damaged.
    pub(crate) fn load(&self) -> Result<Option<State>> {
        let _ = std::fs::remove_file(self.partial());
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut file = match File::options().read(true).custom_flags(flags).open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::file("open", &self.file, cause)),
        };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|cause| Error::file("read", &self.file, cause))?;
        let state: State =
            roundtrip_stored::read_text(text.as_bytes()).map_err(|error| Error::NotARecording {
                path: self.file.clone(),
                reason: format!(
                    "damaged: {error}; restore the trace's settings by hand, then remove the file"
                ),
            })?;
        if state.boot_id == boot_id() {
            return Ok(Some(state));
        }
        // The machine has rebooted since: there is nothing to restore.
        self.forget()?;
        Ok(None)
    }

    /// Removes the state.
    ///
    /// # Errors
    /// [`Error::File`] if that fails.
    pub(crate) fn forget(&self) -> Result<()> {
        match std::fs::remove_file(&self.file) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::file("remove", &self.file, cause))
            }
            _ => Ok(()),
        }
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
