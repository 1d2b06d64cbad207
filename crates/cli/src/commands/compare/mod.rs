//! `roundtrip compare`: whether runs are better or worse than others. Reads runs, and measures
//! nothing.

pub(super) mod judging;

use std::path::PathBuf;

use analysis::compare::{self, Difference, Side};
use report::inert;

use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage};
use crate::terminal::{Exit, Terminal};
use judging::Judging;

/// What was typed.
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
    summary: "tells whether runs are better or worse than others",
    description: "Compares stored runs: for each figure the ratio with its interval, and a verdict \
                  (worse, better, same, cannot tell). Ends with status 1 if a figure became worse. \
                  \n\n\
                  Several runs of one side count as its repetitions. A verdict rests on how much they \
                  differ among each other: 4 runs a side are the least, 10 show what a single pair \
                  cannot. Runs of two days tell a large difference at best: what 'roundtrip ab' measures \
                  in turn tells a small one as well. Runs of other drivers, processors, governors or options are refused. \
                  \n\n\
                  Also reads the JSON that Google Benchmark writes.",
    positionals: Some(Positionals {
        usage: "BASE NEW...",
        help: "Run directories, directories that hold run directories, or Google Benchmark's JSON files.",
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
                    "A further run of the base. Repeatable.",
                    |typed: &mut Typed, text| {
                        typed.base.push(text.into());
                        Ok(())
                    },
                ),
                Opt::flag(
                    &["--paired"],
                    "The n-th runs of both sides were made beside each other.",
                    |typed: &mut Typed| typed.judging.options.paired = true,
                ),
                judging::figures(),
                judging::margin(),
                judging::noise(),
                Opt::flag(
                    &["--anyway"],
                    "Compares runs that are refused otherwise, and tells in what they differ.",
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
            "--paired: the base has {} runs and the new side {}: pairs need as many",
            base.runs.len(),
            new.runs.len()
        ));
    }
    let differences = compare::differences(&base, &new);
    refuse(&differences, typed.anyway)?;
    typed.judging.tell(names.each_ref().map(String::as_str), [&base, &new], (&differences, &[]), terminal)
}

/// Rejects runs that differ in more than what is compared.
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
