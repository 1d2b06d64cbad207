//! `roundtrip compare`: whether some runs are better or worse than others. Reads runs, and measures
//! nothing.

pub(super) mod judging;

use std::path::{Path, PathBuf};

use roundtrip_analysis::compare::{self, Compared, Difference, Options, Side};
use roundtrip_report::comparison::Comparison;
use roundtrip_report::text::inert;

use crate::args::values::push;
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use judging::{About, Judging, Names};

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
                  better, same, cannot tell), and the answer as a sentence.\n\n\
                  Several runs of one side count as repetitions. The verdict rests on how much they differ \
                  from each other, so use at least 4 runs a side; 10 can show what 4 cannot. Runs from two \
                  different days can show only large differences: for small ones, measure alternately with \
                  'roundtrip ab'. Runs that differ in driver, processor, governor or options are refused.\n\n\
                  Also reads Google Benchmark's JSON.",
    positionals: Some(Positionals {
        usage: "BASE NEW... | AB",
        help: "Run directories, directories of run directories, or Google Benchmark's JSON files. AB: a \
               directory that 'roundtrip ab --out' made.",
        count: 1..=1000,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| push(&mut typed.paths, values::any(text)),
    }),
    groups: &[
        Group {
            heading: "Comparison",
            options: &[
                Opt::path(
                    &["--base"],
                    "RUN",
                    "Another run of the base. Repeatable.",
                    |typed: &mut Typed, text| push(&mut typed.base, values::any(text)),
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
        Group { heading: "Output", options: &[judging::fail_on(), judging::format(), judging::name()] },
    ],
    examples: &[
        ("roundtrip compare monday tuesday", "Compares two runs, or two directories of runs."),
        ("roundtrip compare kept", "Compares the runs of 'roundtrip ab --out kept' again."),
        (
            "roundtrip compare --fail-on 'p99>+5%' --format junit before after > compare.xml",
            "Fails if the 99th percentile became worse by more than 5%.",
        ),
    ],
    run,
};

fn run(mut typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let mut base_paths = std::mem::take(&mut typed.paths);
    let mut new_paths = base_paths.split_off(1);
    let from_ab = new_paths.is_empty();
    if from_ab {
        let sides = made_by_ab(&base_paths[0]).filter(|_| typed.base.is_empty());
        let Some([a, b]) = sides else {
            return Err(usage!("expected BASE NEW..., or one directory that 'roundtrip ab --out' made"));
        };
        (base_paths, new_paths) = (vec![a], vec![b]);
    }
    let names = [base_paths.first(), new_paths.first()]
        .map(|path| path.map(|path| path.display().to_string()).unwrap_or_default());
    base_paths.append(&mut typed.base);
    new_paths.dedup();
    let [base, new] = if from_ab {
        typed.judging.options.paired = true;
        pairs([&base_paths[0], &new_paths[0]])?
    } else {
        [Side::read(&base_paths)?, Side::read(&new_paths)?]
    };
    if typed.judging.options.paired && base.runs.len() != new.runs.len() {
        return Err(usage!(
            "--paired: the base has {} runs and the new side has {}: pairs need the same number",
            base.runs.len(),
            new.runs.len()
        ));
    }
    let differences = compare::differences(&base, &new);
    // The sides of `ab` may differ in anything.
    refuse(&differences, typed.anyway || from_ab)?;
    let mut judging = typed.judging;
    let typed_names = std::mem::take(&mut judging.names);
    let names = Names::or(&typed_names, names.each_ref().map(String::as_str))?;
    let about = About { differences: &differences, notes: &[], hints: &[], pair_ns: None };
    judging.tell(names, [&base, &new], about, terminal)
}

/// The directories of both sides in one that `ab` made; `None` for another directory.
pub(super) fn made_by_ab(directory: &Path) -> Option<[PathBuf; 2]> {
    let sides = ["a", "b"].map(|side| directory.join(side));
    let is_run = directory.join(roundtrip_run::FILE_NAME).exists();
    (!is_run && sides.iter().all(|side| side.is_dir())).then_some(sides)
}

/// The complete pairs. After a signal, the last pair may be incomplete.
fn pairs(sides: [&PathBuf; 2]) -> anyhow::Result<[Side; 2]> {
    let [mut a, mut b] =
        [Side::read(std::slice::from_ref(sides[0]))?, Side::read(std::slice::from_ref(sides[1]))?];
    let complete = a.runs.len().min(b.runs.len());
    [&mut a, &mut b].into_iter().for_each(|side| side.runs.truncate(complete));
    Ok([a, b])
}

/// The page of a comparison that `ab` made.
pub(super) fn page_of_ab(sides: &[PathBuf; 2]) -> anyhow::Result<String> {
    let options = Options { paired: true, ..Options::default() };
    let compared = Both::of(&pairs(sides.each_ref())?, options);
    let names = sides.each_ref().map(|path| path.display().to_string());
    Ok(roundtrip_report::html::compared(&compared.named(names.each_ref().map(String::as_str)))?)
}

/// Both sides of a page, compared by default.
pub(super) struct Both {
    figures: Vec<Compared>,
    differences: Vec<Difference>,
    options: Options,
}

impl Both {
    fn of([base, new]: &[Side; 2], options: Options) -> Self {
        let (figures, differences) = (compare::compare(base, new, &options), compare::differences(base, new));
        Self { figures, differences, options }
    }

    /// The comparison of the sides with these names.
    pub(super) fn named<'a>(&'a self, names: [&'a str; 2]) -> Comparison<'a> {
        Comparison {
            names,
            named: false,
            figures: &self.figures,
            differences: &self.differences,
            notes: &[],
            hints: &[],
            pair_ns: None,
            failed: &[],
            margin: self.options.margin,
            noise: self.options.noise,
        }
    }
}

/// The comparison of two runs.
///
/// # Errors
/// The reason why they cannot be compared.
pub(super) fn of_two(base: &Path, new: &Path) -> anyhow::Result<Both> {
    let sides = [Side::read(&[base.to_owned()])?, Side::read(&[new.to_owned()])?];
    let both = Both::of(&sides, Options::default());
    let refused = refused(&both.differences);
    anyhow::ensure!(refused.is_empty(), "they differ ({refused})");
    anyhow::ensure!(!both.figures.is_empty(), "they have no figure in common");
    Ok(both)
}

/// The differences that make a comparison misleading, in words; empty if there are none.
fn refused(differences: &[Difference]) -> String {
    let refused: Vec<String> = differences
        .iter()
        .filter(|difference| difference.refused)
        .map(|difference| {
            let Difference { what, base, other, .. } = difference;
            format!("{what}: {} and {}", inert::line(base), inert::line(other))
        })
        .collect();
    refused.join("; ")
}

/// Rejects runs that differ in ways that make the comparison misleading.
fn refuse(differences: &[Difference], anyway: bool) -> anyhow::Result<()> {
    let refused = refused(differences);
    if refused.is_empty() || anyway {
        return Ok(());
    }
    Err(usage!("these runs are not comparable ({refused}); --anyway compares them"))
}
