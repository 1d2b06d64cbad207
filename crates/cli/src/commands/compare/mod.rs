//! `roundtrip compare`: whether some runs are better or worse than others. Reads runs, and measures
//! nothing.

pub(super) mod judging;

use std::path::PathBuf;

use analysis::compare::{self, Difference, Side};
use report::inert;

use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage};
use crate::terminal::{Exit, Terminal};
use judging::Judging;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    paths: Vec<PathBuf>,
    base: Vec<PathBuf>,
    anyway: bool,
    judging: Judging,
}

impl AsMut<Judging> for Typed {
    fn as_mut(&mut self) -> &mut Judging {
        &mut self.judging
    }
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["compare"],
    kind: Kind::Command,
    summary: "says whether runs are better or worse than others",
    description: "Compares stored runs. Prints for each figure the ratio, its interval and a verdict (worse, \
                  better, same, cannot tell). Exits with status 1 if a figure became worse.\n\n\
                  Several runs of one side count as repetitions. The verdict rests on how much they differ \
                  from each other, so use at least 4 runs a side; 10 can show what 4 cannot. Runs from two \
                  different days can show only large differences: for small ones, measure alternately with \
                  'roundtrip ab'. Runs that differ in driver, processor, governor or options are refused.\n\n\
                  Also reads Google Benchmark's JSON.",
    positionals: Some(Positionals {
        usage: "BASE NEW...",
        help: "Run directories, directories of run directories, or Google Benchmark's JSON files.",
        count: 2..=1000,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| {
            typed.paths.push(text.into());
            Ok(())
        },
    }),
    groups: &[
        Group {
            heading: "Comparison",
            options: &[
                Opt::path(
                    &["--base"],
                    "RUN",
                    "Another run of the base. Repeatable.",
                    |typed: &mut Typed, text| {
                        typed.base.push(text.into());
                        Ok(())
                    },
                ),
                Opt::flag(
                    &["--paired"],
                    "Treats the n-th runs of both sides as a pair, measured one right after the other.",
                    |typed: &mut Typed| typed.judging.options.paired = true,
                ),
                judging::figures(),
                judging::margin(),
                judging::noise(),
                Opt::flag(
                    &["--anyway"],
                    "Compares runs that would otherwise be refused, and lists how they differ.",
                    |typed: &mut Typed| typed.anyway = true,
                ),
            ],
        },
        Group { heading: "Output", options: &[judging::fail_on(), judging::format()] },
    ],
    examples: &[
        ("roundtrip compare monday tuesday", "Compares two runs, or two directories of runs."),
        (
            "roundtrip compare --fail-on 'p99>+5%' --format junit before after > compare.xml",
            "Fails if the 99th percentile became worse by more than 5%.",
        ),
    ],
    run,
};

fn run(mut typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut new_paths = typed.paths.split_off(1);
    let mut base_paths = typed.paths;
    let names = [base_paths.first(), new_paths.first()]
        .map(|path| path.map(|path| path.display().to_string()).unwrap_or_default());
    base_paths.append(&mut typed.base);
    new_paths.dedup();
    let (base, new) = (Side::read(&base_paths)?, Side::read(&new_paths)?);
    if typed.judging.options.paired && base.runs.len() != new.runs.len() {
        return Err(usage!(
            "--paired: the base has {} runs and the new side has {}: pairs need the same number",
            base.runs.len(),
            new.runs.len()
        ));
    }
    let differences = compare::differences(&base, &new);
    refuse(&differences, typed.anyway)?;
    typed.judging.tell(names.each_ref().map(String::as_str), [&base, &new], (&differences, &[]), terminal)
}

/// Rejects runs that differ in ways that make the comparison misleading.
fn refuse(differences: &[Difference], anyway: bool) -> anyhow::Result<()> {
    let refused: Vec<String> = differences
        .iter()
        .filter(|difference| difference.refused)
        .map(|difference| {
            let Difference { what, base, other, .. } = difference;
            format!("{what}: {} and {}", inert::line(base), inert::line(other))
        })
        .collect();
    if refused.is_empty() || anyway {
        return Ok(());
    }
    Err(usage!("these runs are not comparable ({}); --anyway compares them", refused.join("; ")))
}
