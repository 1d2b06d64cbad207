//! `roundtrip storage observe`: attributes the time of other programs' synchronous writes to
//! layers.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use analysis::observed_writes::{Divider, slow};
use bench::observe::{self, Divide, Ended};
use layers::storage::Write;
use report::csv::with_labels;
use report::run::Divided;
use run::storage::Device;
use run::storage::observe::{Divided as DividedRow, ObserveWritesPlan};
use run::{RECORDING, Results};
use tracefs::Trace;

use super::finish::finish;
use super::gates::{self, Gated, Gates};
use super::observe_options::{self, ObserveOptions, Observes, Observing};
use super::output::{self, RunOutput};
use crate::args::{Entry, Group, Kind, Opt, Usage};
use crate::terminal::{Exit, Terminal};

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    observing: ObserveOptions,
    file: Option<PathBuf>,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
    }
}

impl Observes for Typed {
    fn observing(&mut self) -> &mut ObserveOptions {
        &mut self.observing
    }
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = &["observed-writes"];

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["storage", "observe"],
    kind: Kind::Command,
    summary: "shows where other programs' synchronous writes spend their time",
    description: "Observes the synchronous writes of other programs: fsync, fdatasync, sync_file_range, msync, sync and \
                  syncfs; writes to files opened with O_SYNC or O_DSYNC; pwritev2 with RWF_SYNC or RWF_DSYNC; and the \
                  same through io_uring. Attributes the time of each to layers, as 'storage layers' does, and shows it \
                  by thread, system call and file. Also shows buffered writes that had to wait for the device, and \
                  waits for journal commits that another thread started.\n\n\
                  The programs are neither stopped nor changed. Requires root and tracefs.",
    positionals: Some(observe_options::command()),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                observe_options::pid("Observes only the writes of this process."),
                observe_options::name(
                    "Observes only the writes of processes with this name: the program's file name, without its directory.",
                ),
                Opt::value(
                    &["--file"],
                    "FILE",
                    "Observes only the writes to this file.",
                    |typed: &mut Typed, text| {
                        typed.file = Some(text.into());
                        Ok(())
                    },
                ),
                observe_options::duration(),
                observe_options::deadline(
                    "A write that takes longer than this, such as 20ms, is slow.",
                    "20ms",
                ),
                observe_options::limit(
                    "Keeps this many of the slowest slow writes in detail, and only counts the others.",
                ),
                observe_options::buffer("8M"),
            ],
        },
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                output::format(output::FORMATS, output::FORMATS_HELP),
                output::out("Also writes the run into this directory, with the recordings of slow writes."),
                output::force(),
                output::label(),
                output::histogram(),
                output::quiet(),
            ],
        },
    ],
    examples: &[
        ("roundtrip storage observe --name postgres --duration 30s", "Shows what a database waits for."),
        (
            "roundtrip storage observe --deadline 50ms --out monday -- ./my-writer",
            "Runs one program, observes it until it exits, and keeps its slow writes.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObserveWritesPlan, Usage> {
    let default = ObserveWritesPlan::default();
    let Observing { subject, duration_ns, deadline, limit, kilobytes } =
        typed.observing.meant(Observing {
            subject: default.subject.clone(),
            duration_ns: default.duration_ns,
            deadline: default.deadline,
            limit: default.limit,
            kilobytes: default.kilobytes,
        })?;
    let file = typed.file.clone();
    if let Some(file) = &file {
        let refuse = |why: &str| Err(Usage(format!("--file {}: {why}", file.display())));
        let Ok(found) = file.metadata() else { return refuse("no such file") };
        let kind = found.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            return refuse("what is written to it does not go to a disk");
        }
    }
    Ok(ObserveWritesPlan { subject, file, duration_ns, deadline, limit, kilobytes, ..default })
}

/// Attributes the time of recorded writes to layers. The observer itself does not know the layers.
#[derive(Default)]
struct Dividing(Divider);

impl Divide for Dividing {
    fn divide(&mut self, trace: &Trace, devices: &[Device], writes: &[Ended]) {
        let writes =
            writes.iter().map(|&Ended { row, start_ns, end_ns, tid }| (row, Write { start_ns, end_ns, tid }));
        self.0.add(trace, devices, writes);
    }

    fn finish(&mut self) -> Vec<Option<DividedRow>> {
        self.0.finish()
    }
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut plan = plan(&typed)?;
    let directory = typed.output.directory()?;
    plan.directory = directory.path().join(RECORDING);
    let run = {
        let mut line = typed.output.progress(terminal.err);
        typed.output.record(|_| {
            let mut dividing = Dividing::default();
            let result = observe::run_writes(&plan, &mut dividing, &mut |progress| line.show(progress))?;
            Ok::<_, bench::Error>(Results::from(result))
        })?
    };
    let shown = report::inert::measured(&run, typed.output.format.as_deref() == Some("json"))?;
    let Some(result) = &shown.results.observed_writes else { return Ok(Exit::FAILED) };
    // If the recording cannot be read, only the slow writes are missing from the report.
    let (slow, missing) = slow(result, Path::new(directory.path())).split();
    let divided = Divided { slow_writes: &slow, ..Divided::default() };
    let text = match typed.output.format.as_deref() {
        Some("json") => shown.to_json()?,
        Some("csv") => with_labels(report::observed_writes_csv::csv(result), &run.labels),
        Some("markdown") => report::figures::markdown("storage observe", &shown, divided),
        _ => {
            let tables = report::observed_writes::tables(result, &slow, terminal.look);
            let page = report::run::page(&shown, divided, &tables, terminal.look);
            page + &typed.output.histograms(&shown, terminal.look)
        }
    };
    let exit = finish(&run, directory.asked(), &typed.output, terminal, |terminal| {
        Ok(terminal.out.write_all(text.as_bytes())?)
    })?;
    let exit = typed.gates.judge(&run, divided, exit, terminal);
    missing.map_or(Ok(exit), |error| Err(error.into()))
}
