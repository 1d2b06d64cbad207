//! Writes a snapshot of a recording as a file for other tools: selects the format, and makes sure
//! that the file is complete or absent. Must not know the formats, nor what the tracks show.

use std::path::Path;

use anyhow::Context as _;
use roundtrip_files::{Existing, NewFile};
use roundtrip_tracefs::{Recording, Trace};

use crate::args::Usage;
use roundtrip_report::ftrace_text;
use roundtrip_report::perfetto::{self, Contents, Track};

/// Formats for other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Perfetto's format.
    Perfetto,
    /// The kernel's text format.
    Text,
}

impl Form {
    /// The format for a file name.
    ///
    /// # Errors
    /// If the name does not determine one.
    pub(crate) fn of(path: &Path) -> Result<Self, Usage> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("perfetto-trace" | "pftrace" | "perfetto") => Ok(Self::Perfetto),
            Some("txt" | "ftrace") => Ok(Self::Text),
            _ => Err(Usage(format!(
                "{}: the file name must end in .perfetto-trace, or in .txt for the kernel's text",
                path.display()
            ))),
        }
    }
}

/// Writes one snapshot of a recording, with our tracks if the format supports them, and returns
/// what was read.
///
/// # Errors
/// If the recording cannot be read, has a clock that Perfetto does not support, or the file cannot
/// be written. In these cases no new file appears, and an earlier file is unchanged.
pub(crate) fn write(
    recording: &Recording,
    snapshot: u32,
    tracks: &[Track],
    form: Form,
    (path, existing): (&Path, Existing),
) -> anyhow::Result<Trace> {
    let failed = || format!("cannot write {}", path.display());
    // Create the file first, so that a failure costs no time.
    let mut out = NewFile::create(path, existing).with_context(failed)?;
    let header = recording.header();
    if form == Form::Perfetto && header.clock != "boot" {
        anyhow::bail!(
            "{} was recorded with the kernel's clock '{}', which Perfetto cannot align with other clocks: \
             write a .txt file, or record on Linux 4.10 or later",
            recording.directory().display(),
            header.clock
        );
    }
    let trace = recording.read(snapshot)?;
    let contents = Contents { trace: &trace, release: &header.kernel_release, tracks };
    put(&contents, form, &mut out).and_then(|()| out.complete()).with_context(failed)?;
    Ok(trace)
}

/// Writes another tool's recording.
///
/// # Errors
/// If the file cannot be written. In this case no new file appears, and an earlier file is
/// unchanged.
#[cfg(feature = "foreign")]
pub(crate) fn write_contents(
    contents: &Contents<'_>,
    form: Form,
    (path, existing): (&Path, Existing),
) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut out = NewFile::create(path, existing).with_context(failed)?;
    put(contents, form, &mut out).and_then(|()| out.complete()).with_context(failed)
}

fn put(contents: &Contents<'_>, form: Form, out: &mut NewFile) -> std::io::Result<()> {
    match form {
        Form::Perfetto => perfetto::write(contents, out),
        Form::Text => ftrace_text::write(contents.trace, out),
    }
}

/// A summary of a trace: its number of events, and whether some were lost.
pub(crate) fn summary(path: &Path, trace: &Trace) -> String {
    let lost = trace.losses.iter().filter(|loss| loss.after_ns > 0 && !loss.damaged).count();
    let lost = match lost {
        0 => String::new(),
        1 => "; events were lost once; the trace marks the place".to_owned(),
        times => format!("; events were lost {times} times; the trace marks the places"),
    };
    format!("{}: {} events{lost}", path.display(), trace.event_count())
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
            assert!(form(path).unwrap_err().0.contains("the file name must end in"), "{path}");
        }
    }
}
