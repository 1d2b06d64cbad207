//! A kernel setting that is changed temporarily. It is restored when this value is dropped, or by
//! this process's guard or the next run if this process was killed. Until then, a note (a file)
//! keeps the earlier value. Only one run at a time can own a setting: the one that holds the lock
//! on its note, which the kernel releases when the process ends (flock(2)). Must not know what a
//! setting means.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use roundtrip_files::{lock_abandoned, private_directories, private_directory};
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::kernel::root::Root;

const PREFIX: &str = "setting-";

/// Reported for a setting that another run owns.
pub(super) const OF_ANOTHER_RUN: &str = "belongs to another run";

/// How long to wait for another run to release a setting.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last line of a complete note. A note without it was not written completely, so the setting
/// has not been changed yet.
const END: &str = "end";

/// The exclusive right to change a setting, for as long as this value lives.
#[derive(Debug)]
pub(super) struct Claim {
    /// The setting's path below the root.
    name: PathBuf,
    file: PathBuf,
    note: PathBuf,
    /// Holds the lock.
    lock: File,
    boot: String,
    /// Whether the setting still has to be restored.
    changed: Cell<bool>,
}

impl Claim {
    /// Claims the setting in `file`, a path below the root. If a killed run left it changed, it is
    /// restored first.
    ///
    /// # Errors
    /// The owner, or the reason why the setting cannot be claimed.
    pub(super) fn take(root: &Root, file: &Path) -> std::result::Result<Self, String> {
        Self::take_within(root, file, PATIENCE)
    }

    fn take_within(root: &Root, file: &Path, patience: Duration) -> std::result::Result<Self, String> {
        let note =
            private_directory(&root.path("")).map_err(|error| error.to_string())?.join(note_name(file));
        let until = Instant::now() + patience;
        let lock = loop {
            let opened = open(&note, true).map_err(|cause| Error::file("open", &note, cause).to_string())?;
            if let Some(lock) = hold(opened, &note) {
                break lock;
            }
            if Instant::now() >= until {
                let holder = std::fs::read_to_string(&note).unwrap_or_default();
                let holder = holder.lines().next().unwrap_or_default().trim_start_matches("pid ").to_owned();
                return Err(format!(
                    "/{} {OF_ANOTHER_RUN} at the moment (pid {holder}): wait until it has ended",
                    file.display()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let claim = Self {
            name: file.to_owned(),
            file: root.path(file),
            note,
            lock,
            boot: boot_id(root),
            changed: Cell::new(false),
        };
        claim.restore_left_behind(root).map_err(|error| error.to_string())?;
        claim.write_note("").map_err(|error| error.to_string())?;
        Ok(claim)
    }

    /// Restores what a killed run left changed. Returns whether there was anything to restore.
    fn restore_left_behind(&self, root: &Root) -> Result<bool> {
        let Some((file, before)) = load(root, &self.lock) else { return Ok(false) };
        // The note stays until this is done.
        self.changed.set(true);
        write(&root.path(file), &before)?;
        self.changed.set(false);
        Ok(true)
    }

    fn write_note(&self, rest: &str) -> Result<()> {
        let text = format!("pid {}\n{rest}", std::process::id());
        let mut note = &self.lock;
        let written =
            note.set_len(0).and_then(|()| note.rewind()).and_then(|()| note.write_all(text.as_bytes()));
        written.map_err(|cause| Error::file("write", &self.note, cause))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.changed.get() {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// A changed setting.
#[derive(Debug)]
pub(super) struct Setting {
    claim: Rc<Claim>,
    before: String,
}

impl Setting {
    /// Writes `value`. `before` is the value to restore.
    ///
    /// # Errors
    /// [`Error::File`] if that fails. Then nothing has changed.
    pub(super) fn change(claim: &Rc<Claim>, value: &str, before: String) -> Result<Self> {
        claim.write_note(&format!("{}\n{}\n{before}\n{END}\n", claim.boot, claim.name.display()))?;
        claim.changed.set(true);
        // From here on, dropping this value restores the setting, even if writing fails halfway.
        let setting = Self { claim: Rc::clone(claim), before };
        write(&setting.claim.file, value)?;
        Ok(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // If the setting cannot be restored, the note stays, and the next run tries again.
        if write(&self.claim.file, &self.before).is_ok() {
            self.claim.changed.set(self.claim.write_note("").is_err());
        }
    }
}

/// A note that a killed process left, with its lock, and the file and value to restore, if any.
struct Abandoned {
    note: PathBuf,
    _lock: File,
    before: Option<(String, String)>,
}

fn abandoned(root: &Root) -> impl Iterator<Item = Abandoned> {
    let folders = private_directories(&root.path("")).into_iter();
    let notes = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    notes.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)).filter_map(|entry| {
        let note = entry.path();
        let lock = open(&note, false).ok().and_then(|file| hold(file, &note))?;
        let before = load(root, &lock);
        Some(Abandoned { note, _lock: lock, before })
    })
}

/// The settings that killed processes left changed.
pub(crate) fn changed(root: &Root) -> Vec<String> {
    abandoned(root).filter_map(|one| one.before).map(|(file, _)| shown(&file)).collect()
}

/// Restores what killed processes left changed, and returns the files.
fn restore_abandoned(root: &Root) -> Vec<String> {
    let mut restored = Vec::new();
    for Abandoned { note, _lock, before } in abandoned(root) {
        if let Some((file, before)) = before {
            if write(&root.path(&file), &before).is_err() {
                continue;
            }
            restored.push(shown(&file));
        }
        let _ = std::fs::remove_file(&note);
    }
    restored
}

/// The whole path of a setting, which may be given without its leading slash.
fn shown(file: &str) -> String {
    format!("/{}", file.trim_start_matches('/'))
}

/// Restores what a killed run left changed, and returns a message for each setting.
pub(crate) fn restored(root: &Root) -> Vec<String> {
    let files = restore_abandoned(root).into_iter();
    files.map(|file| format!("{file} was restored: a run that was killed had left it changed")).collect()
}

/// The name of a setting's note, the same in every process: the end of its path, and a hash of all
/// of it (FNV-1a).
fn note_name(file: &Path) -> String {
    let text = file.to_string_lossy();
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let words: Vec<char> =
        text.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' }).collect();
    let end: String = words.iter().skip(words.len().saturating_sub(60)).collect();
    format!("{PREFIX}{end}-{number:016x}")
}

fn open(note: &Path, create: bool) -> std::io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    File::options().read(true).write(true).create(create).mode(0o600).custom_flags(flags).open(note)
}

/// Locks the note; `None` if another process holds the lock, or has just removed the note.
fn hold(file: File, note: &Path) -> Option<File> {
    lock_abandoned(&file, note).then_some(file)
}

/// The file and the value to restore, if the note is complete and from this boot.
fn load(root: &Root, mut note: &File) -> Option<(String, String)> {
    let mut text = String::new();
    note.rewind().ok()?;
    note.read_to_string(&mut text).ok()?;
    let [_, boot, file, before, END] = text.lines().collect::<Vec<_>>()[..] else { return None };
    (boot == boot_id(root)).then(|| (file.to_owned(), before.to_owned()))
}

fn boot_id(root: &Root) -> String {
    root.read("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Writes in one call, and never creates a file.
fn write(path: &Path, value: &str) -> Result<()> {
    let written = File::options()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|cause| Error::file("write to", path, cause))
}

#[cfg(test)]
#[path = "setting_tests.rs"]
mod tests;
