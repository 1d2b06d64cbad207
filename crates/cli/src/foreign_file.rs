//! Reads a recording that another tool made, for the commands that explain and convert it: a file,
//! or the only recording in a folder. `foreign` knows the formats.

use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use roundtrip_bench::Progress;
use roundtrip_foreign::{Foreign, Input, Limits};

use crate::progress::ProgressLine;

/// How many files of a folder are looked at.
const MOST_FILES: usize = 1000;

/// How many recordings an error names.
const NAMED: usize = 8;

/// Whether a folder contains recordings of other tools.
pub(crate) fn has_recordings(folder: &Path) -> bool {
    files_in(folder).is_ok_and(|files| files.iter().any(|file| holds_recording(file)))
}

/// The recording that a path names: the file, or the only one in the folder.
///
/// # Errors
/// If a folder has several.
pub(crate) fn find(path: &Path) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let files = files_in(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut found: Vec<PathBuf> = files.into_iter().filter(|file| holds_recording(file)).collect();
    if let [_, _, ..] = &found[..] {
        let names = found.iter().take(NAMED).filter_map(|file| file.file_name());
        let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
        anyhow::bail!("{} holds several recordings: give one of {}", path.display(), names.join(", "));
    }
    found.pop().with_context(|| format!("{} holds no recording", path.display()))
}

/// Reads a recording, and shows the progress on a terminal.
///
/// # Errors
/// If the file cannot be read, or is no recording.
pub(crate) fn read(path: &Path, err: &mut dyn Write) -> anyhow::Result<Foreign> {
    let file = roundtrip_files::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let line = RefCell::new(ProgressLine::new(err));
    let what = format!("reading {}", roundtrip_report::text::inert::line(&path.display().to_string()));
    let progress = |done, total| line.borrow_mut().show(Progress { what: &what, done, total });
    let input = Input::file(&file).with_context(|| format!("cannot read {}", path.display()))?;
    roundtrip_foreign::read_within(input.with_progress(&progress), &Limits::default())
        .with_context(|| path.display().to_string())
}

fn holds_recording(path: &Path) -> bool {
    let Ok(file) = roundtrip_files::open(path) else { return false };
    Input::file(&file).is_ok_and(|input| roundtrip_foreign::holds_recording(input, &Limits::default()))
}

/// The files of a folder by name, without those of its folders.
fn files_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .take(MOST_FILES)
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Ok(files)
}
