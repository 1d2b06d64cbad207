//! `roundtrip trace convert`: converts a recording for other tools. Records nothing.

use std::path::{Path, PathBuf};

use roundtrip_files::Existing;
use roundtrip_run::RECORDING;
use roundtrip_tracefs::Recording;

use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use crate::trace_file::{self, Form};
#[cfg(feature = "foreign")]
use roundtrip_report::perfetto::Contents;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    recordings: Vec<PathBuf>,
    snapshot: Option<u32>,
    out: Option<PathBuf>,
    existing: Existing,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["trace", "convert"],
    kind: Kind::Command,
    summary: "writes a recording for Perfetto, or as the kernel's text",
    description: "Converts a recording of the kernel's events to a file for other tools: FILE.perfetto-trace \
                  for ui.perfetto.dev and Perfetto's trace processor, in nanoseconds, or FILE.txt in the \
                  kernel's own text form, in microseconds. It also converts what other tools recorded, in all \
                  forms that `roundtrip explain` reads. `roundtrip explain -o` adds the slow calls and \
                  their explanations.",
    positionals: Some(Positionals {
        usage: "RECORDING",
        help: "A run directory that contains a recording, the recording's own directory, or another \
               tool's recording.",
        count: 1..=1,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| push(&mut typed.recordings, values::any(text)),
    }),
    groups: &[Group {
        heading: "Output",
        options: &[
            Opt::path(
                &["-o", "--output"],
                "FILE",
                "The file to write. Its name chooses the format: .perfetto-trace or .txt.",
                |typed: &mut Typed, text| set(&mut typed.out, values::path(text)),
            ),
            Opt::flag(&["--force"], "Replaces FILE if it exists.", |typed: &mut Typed| {
                typed.existing = Existing::Replace;
            }),
            Opt::value(
                &["--snapshot"],
                "N",
                "The snapshot to convert, if the recording has several.",
                |typed: &mut Typed, text| set(&mut typed.snapshot, values::whole(text, 1..=u32::MAX)),
            ),
        ],
    }],
    examples: &[
        (
            "roundtrip trace convert runs/monday -o monday.perfetto-trace",
            "Writes the run's recording as a trace that opens at ui.perfetto.dev.",
        ),
        (
            "roundtrip trace convert phone.html.gz -o phone.perfetto-trace",
            "Writes systrace's page as a trace.",
        ),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Some(path) = typed.recordings.first() else { return Err(usage!("name a recording")) };
    let Some(out) = typed.out else { return Err(usage!("name the file to write: -o FILE")) };
    let form = Form::of(&out)?;
    if super::explain::is_recording(path) {
        if typed.snapshot.is_some() {
            return Err(usage!("--snapshot applies only to a recording of this program"));
        }
        #[cfg(feature = "foreign")]
        return convert_foreign(path, form, (&out, typed.existing), terminal);
        #[cfg(not(feature = "foreign"))]
        return Err(super::explain::not_read_here(path));
    }
    let recording = open(path)?;
    let snapshots = recording.snapshots()?;
    let snapshot = match (typed.snapshot, &snapshots[..]) {
        (_, []) => anyhow::bail!("{} has no snapshot: nothing was slow", path.display()),
        (None, [only]) => *only,
        (None, [first, .., last]) => {
            return Err(usage!(
                "{} has {} snapshots, {first} to {last}: choose one with --snapshot N",
                path.display(),
                snapshots.len()
            ));
        }
        (Some(number), all) if all.contains(&number) => number,
        (Some(number), all) => {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            return Err(usage!("{} has no snapshot {number}; it has {}", path.display(), all.join(", ")));
        }
    };
    let trace = trace_file::write(&recording, snapshot, &[], form, (&out, typed.existing))?;
    writeln!(terminal.out, "{}", trace_file::summary(&out, &trace))?;
    roundtrip_analysis::refuse_damage(&recording, snapshot, &trace)?;
    Ok(Exit::OK)
}

/// Converts another tool's recording.
#[cfg(feature = "foreign")]
fn convert_foreign(
    path: &Path,
    form: Form,
    to: (&Path, Existing),
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<Exit> {
    let path = &crate::foreign_file::find(path)?;
    let roundtrip_foreign::Foreign { trace, release, damage, .. } =
        crate::foreign_file::read(path, terminal.err)?;
    let contents = Contents { trace: &trace, release: &release, tracks: &[] };
    trace_file::write_contents(&contents, form, to)?;
    writeln!(terminal.out, "{}", trace_file::summary(to.0, &trace))?;
    match damage {
        Some(damage) => anyhow::bail!("{} is damaged: {damage}; the rest was converted", path.display()),
        None => Ok(Exit::OK),
    }
}

/// Opens the recording in a run directory, or a recording's own folder.
fn open(path: &Path) -> anyhow::Result<Recording> {
    let within = path.join(RECORDING);
    Ok(Recording::open(if within.is_dir() { &within } else { path })?)
}
