//! A setting of the kernel's that is changed for a while: put back when this value ends, and by the next run when this
//! process was killed. What it was stands in a file meanwhile. Must not know what a setting means.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracefs::{is_abandoned, own_name};

use crate::error::{Error, Result};
use crate::root::Root;

const PREFIX: &str = "roundtrip-setting-";

/// Notes are kept where files of a running system belong; Android has no such place, and has this one. Only root changes
/// settings.
const NOTES: [&str; 2] = ["run", "data/local/tmp"];

/// The place of notes here.
fn notes(root: &Root) -> &'static str {
    let [first, second] = NOTES;
    if root.path(first).is_dir() || !root.path(second).is_dir() { first } else { second }
}

/// A changed setting.
#[derive(Debug)]
pub(super) struct Setting {
    file: PathBuf,
    before: String,
    note: PathBuf,
}

impl Setting {
    /// Writes `value` to `file`, a path below the root; `before` is what is written to put it back.
    ///
    /// # Errors
    /// [`Error::File`] when that is not possible; then nothing has changed.
    pub(super) fn change(root: &Root, file: &Path, value: &str, before: String) -> Result<Setting> {
        let note = root.path(notes(root)).join(own_name(PREFIX));
        let text = format!("{}\n{}\n{before}\n", boot_id(root), file.display());
        let made = File::options().write(true).create_new(true).mode(0o600).open(&note);
        made.and_then(|mut made| made.write_all(text.as_bytes()))
            .map_err(|cause| Error::file("write", &note, cause))?;
        // From here on it is put back, also where writing fails half-way.
        let setting = Setting { file: root.path(file), before, note };
        write(&setting.file, value)?;
        Ok(setting)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // A note stays when the setting could not be put back: the next run tries again.
        if write(&self.file, &self.before).is_ok() {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Puts back what killed processes left changed; tells which files.
pub(super) fn restore_abandoned(root: &Root) -> Vec<String> {
    let mut restored = Vec::new();
    let notes = notes(root);
    for name in root.names(notes) {
        let path = root.path(notes).join(&name);
        if !is_abandoned(PREFIX, &name) {
            continue;
        }
        if let Some((file, before)) = load(root, &path)
            && write(&root.path(&file), &before).is_ok()
        {
            restored.push(format!("/{}", file.trim_start_matches('/')));
        }
        let _ = std::fs::remove_file(&path);
    }
    restored
}

/// What a note says, if it is this user's own, closed to others, and of this boot: it says what is written to the kernel.
fn load(root: &Root, path: &Path) -> Option<(String, String)> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own || metadata.mode() & 0o022 != 0 || !metadata.is_file() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let [boot, file, before] = text.lines().collect::<Vec<_>>()[..] else { return None };
    (boot == boot_id(root)).then(|| (file.to_owned(), before.to_owned()))
}

fn boot_id(root: &Root) -> String {
    root.read("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// In one piece, and never a new file.
fn write(path: &Path, value: &str) -> Result<()> {
    let written = File::options()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|cause| Error::file("write to", path, cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fixture;

    const FILE: &str = "sys/block/vda/queue/rq_affinity";

    #[test]
    fn a_setting_is_put_back_when_it_ends() {
        let root = fixture(&[(FILE, "1"), ("run/x", ""), ("proc/sys/kernel/random/boot_id", "now\n")]);
        let setting = Setting::change(&root, Path::new(FILE), "2", "1".into()).unwrap();
        assert_eq!(root.read(FILE).as_deref(), Some("2"));
        assert!(restore_abandoned(&root).is_empty(), "its process lives");
        drop(setting);
        assert_eq!(root.read(FILE).as_deref(), Some("1"));
        assert_eq!(root.names("run"), ["x"]);
    }

    #[test]
    fn what_a_killed_process_changed_is_put_back_by_the_next_and_nothing_of_another_boot_is() {
        let notes =
            [("roundtrip-setting-4194303-1-0", "now", "0"), ("roundtrip-setting-4194303-1-1", "then", "9")];
        let root = fixture(&[(FILE, "2"), ("run/x", ""), ("proc/sys/kernel/random/boot_id", "now\n")]);
        for (name, boot, before) in notes {
            let text = format!("{boot}\n{FILE}\n{before}\n");
            let note = root.path("run").join(name);
            let made = File::options().write(true).create_new(true).mode(0o600).open(note);
            made.unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(restore_abandoned(&root), [format!("/{FILE}")]);
        assert_eq!(root.read(FILE).as_deref(), Some("0"));
        assert_eq!(root.names("run"), ["x"]);
    }

    #[test]
    fn where_there_is_no_run_directory_notes_are_where_android_has_room() {
        let root =
            fixture(&[(FILE, "1"), ("data/local/tmp/x", ""), ("proc/sys/kernel/random/boot_id", "now\n")]);
        let setting = Setting::change(&root, Path::new(FILE), "2", "1".into()).unwrap();
        assert_eq!(root.names("data/local/tmp").len(), 2);
        drop(setting);
        assert_eq!(root.names("data/local/tmp"), ["x"]);
    }

    #[test]
    fn a_setting_that_cannot_be_changed_leaves_nothing() {
        let root = fixture(&[("run/x", "")]);
        let error = Setting::change(&root, Path::new(FILE), "2", "1".into()).unwrap_err().to_string();
        assert!(error.contains("rq_affinity"), "{error}");
        assert!(!root.has(FILE));
    }
}
