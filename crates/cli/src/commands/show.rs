//! `roundtrip show`: recorded runs as text, or several runs of one plan merged. Reads run
//! directories, and measures nothing.

use std::path::{Path, PathBuf};

use roundtrip_run::Run;

use super::gates::{self, Gated, Gates};
use super::output;
use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, values};
use crate::terminal::{Exit, Terminal, nobody_reads};
use roundtrip_analysis::Analysed;
use roundtrip_report::text::inert;
use roundtrip_report::text::look::Look;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    runs: Vec<PathBuf>,
    merge: bool,
    short: bool,
    histogram: bool,
    format: Option<String>,
    gates: Gates,
}

impl Gated for Typed {
    const TESTS: &'static [&'static str] = roundtrip_run::NAMES;
    const REQUIRES: &'static [&'static str] = &["realtime", "kernel-driver", "events"];
    const GATES: &'static str = gates::LATENCY;

    fn gates(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["show"],
    kind: Kind::Command,
    summary: "prints stored runs",
    description: "Prints stored runs, from this machine or another. --merge combines several runs of the same \
                  plan into one: it merges their calls and rounds, so the percentiles are those of all calls.",
    positionals: Some(Positionals {
        usage: "RUN...",
        help: "Run directories, or their run.json files.",
        count: 1..=1000,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| push(&mut typed.runs, values::any(text)),
    }),
    groups: &[
        gates::group(),
        Group {
            heading: "Output",
            options: &[
                Opt::flag(
                    &["--merge"],
                    "Combines all runs into one. They must have the same plan and driver.",
                    |typed: &mut Typed| {
                        typed.merge = true;
                    },
                ),
                Opt::flag(&["--short"], "Prints only the summary of each run.", |typed: &mut Typed| {
                    typed.short = true
                }),
                Opt::flag(&["--histogram"], output::HISTOGRAM, |typed: &mut Typed| typed.histogram = true),
                Opt::one_of(
                    &["--format"],
                    "FORMAT",
                    &["text", "json", "csv", "markdown"],
                    "The output format: json prints each run's run.json on one line; csv and markdown have a \
                     line for each figure.",
                    |typed: &mut Typed, text| set(&mut typed.format, values::any(text)),
                )
                .default("text"),
            ],
        },
    ],
    examples: &[
        ("roundtrip show runs/survey-20261121-204259", "Prints everything that a survey measured."),
        ("roundtrip show --merge monday tuesday", "Prints two runs of one plan as one."),
        (
            "roundtrip show --fail-on 'p99>1ms' --fail-on 'missed>0' monday",
            "Fails if the run is slower than allowed.",
        ),
    ],
    run,
};

/// Names the run or merged runs that a report describes, if there are several reports.
fn origin(typed: &Typed, path: &Path) -> String {
    if !typed.merge {
        return format!("Run: {}", inert::name(&path.to_string_lossy()));
    }
    let paths: Vec<String> = typed.runs.iter().map(|path| inert::name(&path.to_string_lossy())).collect();
    format!("{} runs combined: {}; the machine's state is that of the first", paths.len(), paths.join(", "))
}

fn is_text(typed: &Typed) -> bool {
    matches!(typed.format.as_deref(), None | Some("text"))
}

/// A run in the requested format.
fn text(
    typed: &Typed,
    analysed: &Analysed<'_>,
    path: &Path,
    look: Look,
) -> Result<String, roundtrip_run::Error> {
    let name = path.to_string_lossy();
    let mut text = match typed.format.as_deref() {
        Some("json") => analysed.run.to_json()?,
        Some("csv") => roundtrip_report::figures::csv(&name, analysed),
        Some("markdown") => roundtrip_report::figures::markdown(&name, analysed),
        _ if typed.short => roundtrip_report::run::first_page(analysed, look),
        _ => roundtrip_report::run::text(analysed, look),
    };
    if typed.histogram && is_text(typed) {
        text += &look.fit(roundtrip_report::histogram::page(analysed.run, look));
    }
    Ok(text)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let read = |path: &PathBuf| match typed.format.as_deref() {
        Some("json") => Run::read(path),
        _ => Run::read_shown(path, inert::line),
    };
    let mut runs = typed.runs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if typed.merge {
        let mut rest = runs.split_off(1).into_iter();
        if let Some(first) = runs.first_mut() {
            rest.try_for_each(|run| first.merge(&run))?;
        }
    }
    let mut damaged = Vec::new();
    let mut violations = Vec::new();
    let mut printed = match typed.format.as_deref() {
        Some("csv") => terminal.out.write_all(roundtrip_report::figures::csv_header().as_bytes()),
        _ => Ok(()),
    };
    for (index, (run, path)) in runs.iter().zip(&typed.runs).enumerate() {
        let mut analysed = Analysed::read(run, Run::directory(path), 1);
        damaged.append(&mut analysed.damage);
        let which = if runs.len() > 1 { inert::name(&path.to_string_lossy()) + ": " } else { String::new() };
        let violated = typed.gates.violations(&analysed).into_iter();
        violations.extend(violated.map(|line| format!("{which}{line}")));
        // If the output is closed early, go on, so that errors in the remaining runs are reported.
        if printed.is_err() {
            continue;
        }
        let mut text = text(&typed, &analysed, path, terminal.look)?;
        if typed.runs.len() > 1 && is_text(&typed) {
            let gap = if index > 0 { "\n" } else { "" };
            text.insert_str(0, &format!("{gap}{}\n", origin(&typed, path)));
        }
        printed = terminal.out.write_all(text.as_bytes());
    }
    let printed = printed.and_then(|()| terminal.out.flush()).map_err(anyhow::Error::from);
    for error in &damaged {
        // If standard error is closed too, the error cannot be reported.
        let _ = writeln!(terminal.err, "roundtrip show: {}", inert::line(&format!("{error:#}")));
    }
    for line in &violations {
        let _ = writeln!(terminal.err, "roundtrip: failed: {line}");
    }
    let exit = match (damaged.is_empty(), violations.is_empty()) {
        (false, _) => Exit::FAILED,
        (true, false) => Exit::VIOLATED,
        (true, true) => Exit::OK,
    };
    match printed {
        Err(error) if exit == Exit::OK || !nobody_reads(&error) => Err(error),
        _ => Ok(exit),
    }
}
