//! `roundtrip storage observe`: other programs' synchronous writes, divided among the layers.

use std::path::{Path, PathBuf};

use analysis::observed_writes::{Divider, slow};
use bench::observe::{self, Divide, Ended};
use latency::Deadline;
use layers::storage::Write;
use report::csv::with_labels;
use report::run::Divided;
use run::storage::Device;
use run::storage::observe::{Divided as DividedRow, ObserveWritesPlan};
use run::{RECORDING, Results};
use tracefs::Trace;

use super::finish::finish;
use super::gates::{self, Gated, Gates};
use super::observe::subject;
use super::output::{self, RunOutput};
use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, Usage, ValueKind, values};
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    pid: Option<u32>,
    name: Option<String>,
    file: Option<PathBuf>,
    command: Vec<String>,
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    limit: Option<u32>,
    buffer_kilobytes: Option<u64>,
    output: RunOutput,
    gates: Gates,
}

impl AsMut<RunOutput> for Typed {
    fn as_mut(&mut self) -> &mut RunOutput {
        &mut self.output
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
    description: "Watches the synchronous writes of programs that are not Roundtrip's: fsync, fdatasync, \
                  sync_file_range, msync, sync and syncfs, writes to files opened with O_SYNC or O_DSYNC, pwritev2 with \
                  RWF_DSYNC, and io_uring's. Divides each among the layers as 'storage layers' does, and shows them by \
                  thread, system call and file. Also shows buffered writes that had to wait for the device, and whose \
                  journal commits were waited for.\n\n\
                  The programs are not stopped and not changed. It needs root and tracefs.",
    positionals: Some(Positionals {
        usage: "[-- COMMAND...]",
        help: "A program to start and to observe until it ends, with what it starts.",
        count: 0..=1000,
        kind: ValueKind::Text,
        set: |typed: &mut Typed, text| {
            typed.command.push(text.to_owned());
            Ok(())
        },
    }),
    groups: &[
        Group {
            heading: "What to observe",
            options: &[
                Opt::value(&["--pid"], "PID", "Only writes of this process.", |typed: &mut Typed, text| {
                    set(&mut typed.pid, values::whole(text, 1..=u32::MAX))
                }),
                Opt::value(
                    &["--name"],
                    "NAME",
                    "Only writes of processes of this name: a program's name without its folder.",
                    |typed: &mut Typed, text| {
                        typed.name = Some(text.to_owned());
                        Ok(())
                    },
                ),
                Opt::value(&["--file"], "FILE", "Only writes to this file.", |typed: &mut Typed, text| {
                    typed.file = Some(text.into());
                    Ok(())
                }),
                Opt::value(
                    &["--duration"],
                    "TIME",
                    "For how long, as in 30s; Ctrl-C ends it earlier. With COMMAND: until it ends.",
                    |typed: &mut Typed, text| set(&mut typed.duration_ns, values::duration_ns(text)),
                )
                .default("10s"),
                Opt::value(
                    &["--deadline"],
                    "TIME",
                    "A write that takes longer is slow, as in 20ms.",
                    |typed: &mut Typed, text| set(&mut typed.deadline_ns, values::duration_ns(text)),
                )
                .default("20ms"),
                Opt::value(
                    &["--explain-limit"],
                    "N",
                    "How many slow writes are kept, the slowest; the rest is counted.",
                    |typed: &mut Typed, text| set(&mut typed.limit, values::whole(text, 0..=1000)),
                )
                .default("20"),
                Opt::value(
                    &["--buffer"],
                    "SIZE",
                    "The trace buffer of each CPU. It is emptied ten times a second; what does not fit is lost, and counted.",
                    |typed: &mut Typed, text| {
                        set(&mut typed.buffer_kilobytes, values::buffer_kilobytes(text))
                    },
                )
                .default("8M"),
            ],
        },
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                output::format(output::FORMATS, output::FORMATS_HELP),
                output::out("Also writes the run, with what was recorded of slow writes, into this directory."),
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
            "Observes one program from its start to its end, and keeps its slow writes.",
        ),
    ],
    run,
};

fn plan(typed: &Typed) -> Result<ObserveWritesPlan, Usage> {
    let default = ObserveWritesPlan::default();
    let subject = subject(typed.pid, typed.name.as_ref(), &typed.command)?;
    if let Some(file) = typed.file.as_deref().filter(|file| !file.exists()) {
        return Err(Usage(format!("--file {}: no such file", file.display())));
    }
    let until_it_ends = !typed.command.is_empty();
    Ok(ObserveWritesPlan {
        subject,
        file: typed.file.clone(),
        duration_ns: typed.duration_ns.or(if until_it_ends { None } else { default.duration_ns }),
        deadline: typed.deadline_ns.map_or(default.deadline, |ns| Deadline { ns }),
        limit: typed.limit.unwrap_or(default.limit),
        kilobytes: typed.buffer_kilobytes.unwrap_or(default.kilobytes),
        ..default
    })
}

/// The explaining side of an observer, which knows none.
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
    // A recording that cannot be read any more costs the slow writes, not the tables.
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
