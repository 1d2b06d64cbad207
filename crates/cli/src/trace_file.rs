//! A snapshot of a recording as a file that other tools open: which form, and that the file is whole or not there. Must not
//! know the forms themselves, nor what the tracks are about.

use std::path::Path;

use anyhow::Context as _;
use files::{Existing, NewFile};
use tracefs::{Recording, Trace};

use crate::args::Usage;
use crate::format::ftrace_text;
use crate::format::perfetto::{self, Contents, Track};

/// What other tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Perfetto's own.
    Perfetto,
    /// The kernel's text.
    Text,
}

impl Form {
    /// The form that a file's name asks for.
    ///
    /// # Errors
    /// For a name that asks for none.
    pub(crate) fn of(path: &Path) -> Result<Form, Usage> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("perfetto-trace" | "pftrace" | "perfetto") => Ok(Form::Perfetto),
            Some("txt" | "ftrace") => Ok(Form::Text),
            _ => Err(Usage(format!(
                "{}: the name says the form: .perfetto-trace, or .txt for the kernel's text",
                path.display()
            ))),
        }
    }
}

/// Writes one snapshot of a recording, with tracks of our own where the form has any, and returns what was read.
///
/// # Errors
/// When the recording cannot be read, has a clock that Perfetto cannot place, or the file cannot be written. Then there is
/// no file, or the one that was there before.
pub(crate) fn write(
    recording: &Recording,
    snapshot: u32,
    tracks: &[Track],
    form: Form,
    (path, existing): (&Path, Existing),
) -> anyhow::Result<Trace> {
    let failed = || format!("cannot write {}", path.display());
    // Before anything is read in vain.
    let mut out = NewFile::create(path, existing).with_context(failed)?;
    let header = recording.header();
    if form == Form::Perfetto && header.clock != "boot" {
        anyhow::bail!(
            "{} was recorded with the kernel's clock '{}', which Perfetto does not place beside others: write \
             a .txt file, or record on Linux 4.10 or later",
            recording.directory().display(),
            header.clock
        );
    }
    let trace = recording.read(snapshot)?;
    let comms = recording.snapshot(snapshot)?.comms;
    let written = match form {
        Form::Perfetto => {
            let contents = Contents { trace: &trace, release: &header.kernel_release, comms: &comms, tracks };
            perfetto::write(&contents, &mut out)
        }
        Form::Text => ftrace_text::write(&trace, &comms, &mut out),
    };
    written.and_then(|()| out.complete()).with_context(failed)?;
    Ok(trace)
}

/// Refuses to pass damage off as what the kernel lost.
///
/// # Errors
/// When pages are damaged.
pub(crate) fn refuse_damage(recording: &Recording, snapshot: u32, trace: &Trace) -> anyhow::Result<()> {
    let damaged: Vec<String> = trace.damaged().iter().map(u32::to_string).collect();
    if damaged.is_empty() {
        return Ok(());
    }
    anyhow::bail!(
        "{}: snapshot {snapshot} is damaged: what pages of CPU {} held is missing; copy the recording again",
        recording.directory().display(),
        damaged.join(", ")
    )
}

/// What a recording told, as far as it could be read.
#[derive(Debug)]
pub(crate) struct Told<T> {
    /// What could be made of it.
    pub(crate) told: Vec<T>,
    /// What is damaged or cannot be read.
    pub(crate) damage: Vec<anyhow::Error>,
}

impl<T> Default for Told<T> {
    fn default() -> Told<T> {
        Told { told: Vec::new(), damage: Vec::new() }
    }
}

impl<T> Told<T> {
    /// What is told, and what was wrong with the recording, in one line.
    pub(crate) fn split(self) -> (Vec<T>, Option<anyhow::Error>) {
        let more = self.damage.len().saturating_sub(1);
        let first = self.damage.into_iter().next();
        let damage = first.map(|first| match more {
            0 => first,
            _ => anyhow::anyhow!("{first:#}; {more} more snapshots are damaged or cannot be read"),
        });
        (self.told, damage)
    }
}

/// A snapshot that is whole, and what is wrong with any other.
pub(crate) fn read_whole(
    recording: &Recording,
    snapshot: u32,
    damage: &mut Vec<anyhow::Error>,
) -> Option<Trace> {
    let read = recording.read(snapshot).map_err(anyhow::Error::from);
    read.and_then(|trace| refuse_damage(recording, snapshot, &trace).map(|()| trace))
        .map_err(|error| damage.push(error))
        .ok()
}

/// What a reader should know about a trace: how many events it has, and that some were lost.
pub(crate) fn summary(path: &Path, trace: &Trace) -> String {
    let lost = trace.losses.iter().filter(|loss| loss.after_ns > 0 && !loss.damaged).count();
    let lost = match lost {
        0 => String::new(),
        1 => "; events were lost once, where the trace says so".to_owned(),
        times => format!("; events were lost {times} times, where the trace says so"),
    };
    format!("{}: {} events{lost}", path.display(), trace.events.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_says_its_form() {
        let form = |path: &str| Form::of(Path::new(path));
        assert_eq!(form("a/run.perfetto-trace").unwrap(), Form::Perfetto);
        assert_eq!(form("run.pftrace").unwrap(), Form::Perfetto);
        assert_eq!(form("run.txt").unwrap(), Form::Text);
        for path in ["run", "run.json", ".txt"] {
            assert!(form(path).unwrap_err().0.contains("the name says the form"), "{path}");
        }
    }
}
