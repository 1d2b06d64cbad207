//! `roundtrip trace start`, `stop` and `status`: controls the kernel's global trace like `atrace`,
//! for machines without atrace. Must not know what a trace is or how settings are restored.

use std::path::{Path, PathBuf};

use roundtrip_bench::directory::scratch::Scratch;
use roundtrip_bench::worker::Interrupts;
use roundtrip_files::{Existing, NewFile};
use roundtrip_tracefs::{GlobalTrace, Recording, Status};

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, values};
use crate::atrace::{self, Front, Typed, find};
use crate::terminal::{Exit, Terminal};
use roundtrip_report::perfetto::Contents;

/// The defaults are those of the command line that Android's documentation recommends.
const FRONT: Front = Front {
    name: "roundtrip trace start",
    kilobytes: 8000,
    only_starts: true,
    started: |trace, terminal| show(trace, terminal),
};

/// The suffix of a Perfetto trace.
const PERFETTO: &str = ".perfetto-trace";

/// The arguments typed after `stop`.
#[derive(Default)]
pub(crate) struct Stop {
    out: Option<PathBuf>,
    existing: Existing,
    discard: bool,
}

/// The arguments typed after `status`.
#[derive(Default)]
pub(crate) struct NoArguments;

/// The command that starts a trace.
pub(crate) static START: Entry<Typed> = Entry {
    path: &["trace", "start"],
    kind: Kind::Command,
    summary: "starts the kernel's trace as atrace does",
    description: "Does what `atrace --async_start -b 8000 -c sched idle workq binder_driver sync freq irq` \
                  does, with these or other atrace categories: it records those kernel events in the global \
                  trace, in ring buffers that overwrite the oldest events. It takes all of atrace's arguments; \
                  with -t it also ends the recording, and prints it. `ipc latency --trace`, schd-dbg \
                  -trace and libhwbinder_latency -trace stop it at the first call that misses its deadline. \
                  Roundtrip saves every earlier setting in a file, and `roundtrip trace stop` restores it. It \
                  does not touch a trace that another program uses. Needs root.",
    positionals: Some(atrace::POSITIONALS),
    groups: &[
        atrace::WHAT,
        Group {
            heading: "Buffers",
            options: &[atrace::size(&["-b", "--buffer"], "8000", atrace::at_least::<64>), atrace::CIRCULAR],
        },
        atrace::WHEN,
        atrace::OUTPUT,
    ],
    examples: &[(
        "roundtrip trace start && schd-dbg -trace -i 5000; roundtrip trace stop -o miss.txt",
        "Records what led to the first missed deadline.",
    )],
    run: |typed, terminal| atrace::record(&typed, &FRONT, terminal),
};

/// The command that stops the trace.
pub(crate) static STOP: Entry<Stop> = Entry {
    path: &["trace", "stop"],
    kind: Kind::Command,
    summary: "stops the trace, stores it and restores every setting",
    description: "Stops what `roundtrip trace start` started, writes it to a file, and then restores every \
                  setting of the kernel's trace. If it cannot write the file, the trace stays stopped and is \
                  kept; then name another file.",
    positionals: None,
    groups: &[Group {
        heading: "Output",
        options: &[
            Opt::path(
                &["-o", "--output"],
                "FILE",
                "The file to write: the kernel's text form or, if its name ends in .perfetto-trace, a \
                 Perfetto trace.",
                |typed: &mut Stop, text| set(&mut typed.out, values::path(text)),
            ),
            Opt::flag(&["--force"], "Replaces FILE if it exists.", |typed: &mut Stop| {
                typed.existing = Existing::Replace;
            }),
            Opt::flag(&["--discard"], "Discards the trace.", |typed: &mut Stop| typed.discard = true),
        ],
    }],
    examples: &[
        ("roundtrip trace stop -o trace.txt", "Stores the kernel's text form."),
        ("roundtrip trace stop -o trace.perfetto-trace", "Stores it for ui.perfetto.dev."),
    ],
    run: stop,
};

/// The command that shows the trace's state.
pub(crate) static STATUS: Entry<NoArguments> = Entry {
    path: &["trace", "status"],
    kind: Kind::Command,
    summary: "shows whether a trace is running, and what it holds",
    description: "Describes the trace that `roundtrip trace start` started: how long it has run, whether \
                  something stopped it, what it records, and how many events each CPU's buffer holds. Exits \
                  with status 1 if no trace was started.",
    positionals: None,
    groups: &[],
    examples: &[("roundtrip trace status", "Shows whether a missed deadline stopped the trace.")],
    run: status,
};

/// Shows the state of a trace.
fn show(trace: &GlobalTrace, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let text = roundtrip_report::trace_status::text(&trace.status()?);
    Ok(terminal.out.write_all(text.as_bytes())?)
}

fn status(_: NoArguments, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    match find()? {
        Some(trace) => {
            show(&trace, terminal)?;
            Ok(Exit::OK)
        }
        None => {
            writeln!(terminal.out, "no trace was started; start one with `roundtrip trace start`")?;
            Ok(Exit::FAILED)
        }
    }
}

fn stop(typed: Stop, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let out = match (&typed.out, typed.discard) {
        (Some(_), true) => return Err(crate::args::usage!("-o and --discard exclude each other")),
        (None, false) => {
            return Err(crate::args::usage!("name the file to write (-o FILE), or use --discard"));
        }
        (out, _) => out.as_deref(),
    };
    // A signal is handled only after all settings are restored.
    let interrupts = Interrupts::watch()?;
    let Some(trace) = find()? else {
        anyhow::bail!("no trace was started; start one with `roundtrip trace start`");
    };
    trace.halt()?;
    let status = trace.status()?;
    let held = held_by(&status);
    if let Some(path) = out {
        let mut kept = None;
        if let Err(error) = store(&trace, (path, typed.existing), &mut kept) {
            let failed = format!("cannot write {}", path.display());
            if held == 0 || held_by(&trace.status()?) > 0 {
                return Err(error
                    .context(format!("the trace is stopped and kept; write it to another file: {failed}")));
            }
            // The buffers contain nothing that must be kept.
            trace.restore()?;
            let fate = match kept {
                Some(folder) => format!(
                    "the recording is kept; write it elsewhere with `roundtrip trace convert {} -o FILE`",
                    folder.display()
                ),
                None => "the events were already taken out of the buffers and are lost".to_owned(),
            };
            return Err(error.context(format!("{fate}: {failed}")));
        }
    }
    trace.restore()?;
    match out {
        Some(path) => writeln!(terminal.out, "{}: {held} events", path.display())?,
        None => writeln!(terminal.out, "{held} events were discarded")?,
    }
    lost(&status, terminal)?;
    interrupts.check()?;
    Ok(Exit::OK)
}

/// The number of events in the buffers.
fn held_by(status: &Status) -> u64 {
    status.cpus.iter().map(|(_, stats)| stats.entries).sum()
}

/// Reports the events that are missing from the file.
fn lost(status: &Status, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let overwritten: u64 = status.cpus.iter().map(|(_, stats)| stats.overrun).sum();
    let dropped: u64 = status.cpus.iter().map(|(_, stats)| stats.dropped + stats.commit_overrun).sum();
    if overwritten > 0 {
        writeln!(
            terminal.err,
            "roundtrip: {overwritten} older events were overwritten; keep more with -b at the start"
        )?;
    }
    if dropped > 0 {
        writeln!(terminal.err, "roundtrip: warning: the kernel lost {dropped} events")?;
    }
    Ok(())
}

/// Writes the trace to a file, completely or not at all. If the file cannot be written after the
/// events were taken out of the buffers, sets `kept` to the folder that contains them.
fn store(
    trace: &GlobalTrace,
    (path, existing): (&Path, Existing),
    kept: &mut Option<PathBuf>,
) -> anyhow::Result<()> {
    // Create the file before events are taken out, so that an error such as a missing folder loses
    // no events.
    let mut file = NewFile::create(path, existing)?;
    if !path.to_string_lossy().ends_with(PERFETTO) {
        trace.write_text(&mut file)?;
        return Ok(file.complete()?);
    }
    let scratch = Scratch::new()?;
    let recording = trace.record(&scratch.path().join("recording"))?;
    perfetto(&recording, &mut file).and_then(|()| Ok(file.complete()?)).inspect_err(|_| {
        *kept = (0..1000).find_map(|number| {
            let folder = format!("roundtrip-trace-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            roundtrip_files::put(recording.directory(), &folder).is_ok().then_some(folder)
        });
    })
}

/// Writes a recording's only snapshot as a Perfetto trace.
fn perfetto(recording: &Recording, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
    let trace = recording.read(1)?;
    let release = &recording.header().kernel_release;
    let contents = Contents { trace: &trace, release, tracks: &[] };
    Ok(roundtrip_report::perfetto::write(&contents, out)?)
}
