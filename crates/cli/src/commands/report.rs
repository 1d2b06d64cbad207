//! `roundtrip report`: recorded runs as one HTML page. Reads run directories, and measures nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use roundtrip_files::{Existing, NewFile};
use roundtrip_run::Run;

use super::compare;
use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use roundtrip_analysis::{Analysed, slow_calls};
use roundtrip_report::html::{Pair, Subject, page};
use roundtrip_report::text::inert;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    runs: Vec<PathBuf>,
    out: Option<PathBuf>,
    existing: Existing,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["report"],
    kind: Kind::Command,
    summary: "writes stored runs as one HTML page",
    description: "Writes a page that any browser opens without a network. It shows what is slow and why, what \
                  to do about it, how far to trust the result, and every figure as a chart with its table. It \
                  shows several runs side by side, and of two it first says which is better or worse. The page \
                  also contains all its figures as JSON.",
    positionals: Some(Positionals {
        usage: "RUN...",
        help: "Run directories, or their run.json files; or one directory that 'roundtrip ab --out' made, for a \
               page of the comparison.",
        count: 1..=16,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| push(&mut typed.runs, values::any(text)),
    }),
    groups: &[Group {
        heading: "Output",
        options: &[
            Opt::path(&["-o", "--output"], "FILE", "The page to write.", |typed: &mut Typed, text| {
                set(&mut typed.out, values::path(text))
            }),
            Opt::flag(&["--force"], "Replaces FILE if it exists.", |typed: &mut Typed| {
                typed.existing = Existing::Replace;
            }),
        ],
    }],
    examples: &[
        ("roundtrip report runs/monday -o monday.html", "Writes one run as a page."),
        ("roundtrip report before after -o both.html", "Writes two runs side by side."),
    ],
    run,
};

/// The number of slow writes per series that are shown as lanes.
const SLOW_WRITES: usize = 3;

/// Says what was written.
fn written(out: &Path, text: &str, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let kilobytes = text.len().div_ceil(1000);
    Ok(writeln!(terminal.out, "{}: {kilobytes} kB", inert::line(&out.display().to_string()))?)
}

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Some(out) = &typed.out else { return Err(usage!("name the page to write: -o FILE")) };
    let failed = || format!("cannot write {}", out.display());
    if let [directory] = typed.runs.as_slice()
        && let Some(sides) = compare::made_by_ab(directory)
    {
        let text = compare::page_of_ab(&sides)?;
        let mut file = NewFile::create(out, typed.existing).with_context(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.complete()).with_context(failed)?;
        return written(out, &text, terminal).map(|()| Exit::OK);
    }
    let runs =
        typed.runs.iter().map(|path| Run::read_shown(path, inert::line)).collect::<Result<Vec<_>, _>>()?;
    // Create the file first, so that a failure costs no time.
    let mut file = NewFile::create(out, typed.existing).with_context(failed)?;
    let parts: Vec<_> = runs.iter().zip(&typed.runs).map(|(run, path)| explained(run, path)).collect();
    let labels = labels(&runs, &typed.runs);
    let subjects: Vec<Subject<'_>> = parts
        .iter()
        .zip(&labels)
        .map(|(parts, label)| Subject {
            label: inert::name(label),
            analysed: &parts.analysed,
            explained: &parts.calls,
            damage: parts.damage.iter().map(|text| inert::name(text)).collect(),
        })
        .collect();
    let sides = match &typed.runs[..] {
        [base, new] => Some(compare::of_two(base, new)),
        _ => None,
    };
    let comparison = sides.as_ref().and_then(|sides| sides.as_ref().ok());
    let comparison = comparison.map(|compared| compared.named([&subjects[0].label, &subjects[1].label]));
    let pair = match (&comparison, &sides) {
        (Some(comparison), _) => Some(Pair::Compared(comparison)),
        (None, Some(Err(error))) => {
            Some(Pair::NotComparable(inert::line(&format!("{error:#}")).into_owned()))
        }
        (None, _) => None,
    };
    let text = page(&subjects, pair.as_ref())?;
    file.write_all(text.as_bytes()).and_then(|()| file.complete()).with_context(failed)?;
    written(out, &text, terminal)?;
    let damage: Vec<&String> = parts.iter().flat_map(|parts| &parts.damage).collect();
    for text in &damage {
        writeln!(terminal.err, "roundtrip report: {}", inert::line(text))?;
    }
    Ok(if damage.is_empty() { Exit::OK } else { Exit::FAILED })
}

/// A run with everything that explains it, and what is damaged.
struct Parts<'a> {
    analysed: Analysed<'a>,
    calls: Vec<slow_calls::Explained>,
    damage: Vec<String>,
}

fn explained<'a>(run: &'a Run, path: &Path) -> Parts<'a> {
    let directory = Run::directory(path);
    let mut damage = Vec::new();
    let mut calls = Vec::new();
    if let Some(kept) = slow_calls::Kept::of(run) {
        match slow_calls::explain(&kept, directory, |_| true, Some(&inert::name)) {
            Ok(explained) => calls = explained,
            Err(error) => damage.push(format!("slow calls are not explained: {error}")),
        }
    }
    damage.extend(calls.iter_mut().filter_map(|one| one.damage.take()).map(|error| error.to_string()));
    let analysed = Analysed::read(run, directory, SLOW_WRITES);
    damage.extend(analysed.damage.iter().map(ToString::to_string));
    Parts { analysed, calls, damage }
}

/// The names of runs: the labels in which they differ, if these distinguish all of them, else the
/// names of their directories.
fn labels(runs: &[Run], paths: &[PathBuf]) -> Vec<String> {
    let value =
        |run: &Run, key: &str| run.labels.iter().find(|label| label.0 == key).map(|label| label.1.to_owned());
    let keys: BTreeSet<&str> = runs.iter().flat_map(|run| run.labels.iter().map(|label| label.0)).collect();
    let differ = |key: &&str| runs.iter().any(|run| value(run, key) != value(&runs[0], key));
    let keys: Vec<&str> = keys.into_iter().filter(differ).collect();
    let label = |run: &Run| {
        let all = keys.iter().filter_map(|key| Some(format!("{key}={}", value(run, key)?)));
        all.collect::<Vec<_>>().join(", ")
    };
    let all: Vec<String> = runs.iter().map(label).collect();
    let told_apart = all.iter().collect::<BTreeSet<_>>().len() == all.len();
    if told_apart && !all.iter().any(String::is_empty) { all } else { names(paths) }
}

/// The names of the runs' directories, or the whole path if two are the same.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let short = |path: &PathBuf| {
        let directory =
            if path.ends_with(roundtrip_run::FILE_NAME) { path.parent().unwrap_or(path) } else { path };
        let name = directory.file_name().unwrap_or(directory.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let all: Vec<String> = paths.iter().map(short).collect();
    let once = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    all.iter()
        .zip(paths)
        .map(|(name, path)| if once(name) { name.clone() } else { path.display().to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_their_directories_and_told_apart() {
        let labels = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(labels(&["runs/monday", "runs/tuesday/run.json"]), ["monday", "tuesday"]);
        assert_eq!(labels(&["a/run", "b/run"]), ["a/run", "b/run"]);
    }
    #[test]
    fn labels_that_tell_runs_apart_are_their_names() {
        let run = |labels: &[&str]| {
            let mut run = Run::read(Path::new("../../fixtures/runs/x86_64-6.1-binder")).unwrap();
            labels.iter().for_each(|label| run.labels.add(label).unwrap());
            run
        };
        let paths = ["a", "b"].map(PathBuf::from);
        let of = |one: &[&str], other: &[&str]| labels(&[run(one), run(other)], &paths);
        let differing = of(&["board=x", "build=1"], &["board=x", "build=2"]);
        assert_eq!(differing, ["build=1", "build=2"]);
        assert_eq!(of(&["build=1"], &["build=1"]), ["a", "b"], "they tell nothing apart");
        assert_eq!(of(&["build=1"], &[]), ["a", "b"], "one has none");
    }
}
