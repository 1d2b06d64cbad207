//! What the global trace was like before it was started, and how far a command has come, in a file
//! that is always whole: each change is a new file in its place. One command at a time has it. Must
//! not know what the settings mean.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use files::{private_directories, private_directory};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The name of the file.
const NAME: &str = "trace.json";

/// The name of one that is being written.
const PARTIAL: &str = "trace.json.partial";

/// How long another command may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far the commands have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Settings are being changed; nobody was told that it runs.
    Starting,
    Running,
    /// Settings are being put back; the events are stored, or are not wanted.
    Restoring,
    /// All settings are as they were.
    Leaving,
}

/// What was before, and what was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    schema: String,
    version: u32,
    boot_id: String,
    pub(crate) phase: Phase,
    /// When it was started, in nanoseconds of CLOCK_BOOTTIME: after a reboot nothing of it holds.
    pub(crate) started_ns: u64,
    pub(crate) root: PathBuf,
    /// Whether tracefs is, or is about to be, mounted there for it.
    pub(crate) mounted: bool,
    /// Files below the root, and what to write to them, in this order. Empty before anything was
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

/// Where the state is kept. Whoever has this value, or a copy, is the only one at work.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    file: PathBuf,
    /// The directory, which holds the lock: the kernel ends that with the process.
    _directory: Rc<File>,
}

impl Place {
    /// The place, made if it is not there.
    ///
    /// # Errors
    /// [`Error::NoPlace`] when there can be none, [`Error::Busy`] when another command is at work.
    pub(crate) fn make() -> Result<Self> {
        // One that was chosen when another was not possible counts as long as it has a state.
        match Self::find()? {
            Some(place) => Ok(place),
            None => {
                let directory =
                    private_directory(Path::new("/")).map_err(|cause| Error::NoPlace { cause })?;
                Self::lock(&directory)
            }
        }
    }

    /// The place that has a state; `None` where nothing was started.
    ///
    /// # Errors
    /// [`Error::Busy`] when another command is at work.
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

    /// Writes the state anew, whole or not at all.
    ///
    /// # Errors
    /// [`Error::File`] when that is not possible.
    pub(crate) fn store(&self, state: &State) -> Result<()> {
        let partial = self.partial();
        let text = stored::to_text(state).unwrap_or_default();
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

    /// The state; `None` where nothing was started since the machine was.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NotARecording`] when somebody has damaged
    /// it.
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
        let state: State = stored::read_text(text.as_bytes()).map_err(|error| Error::NotARecording {
            path: self.file.clone(),
            reason: format!("damaged: {error}; restore the trace's settings by hand, then remove the file"),
        })?;
        if state.boot_id == boot_id() {
            return Ok(Some(state));
        }
        // The machine was started anew since: there is nothing to put back.
        self.forget()?;
        Ok(None)
    }

    /// Removes the state.
    ///
    /// # Errors
    /// [`Error::File`] when that is not possible.
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
