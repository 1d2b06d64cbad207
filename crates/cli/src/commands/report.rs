//! `roundtrip report`: recorded runs as one HTML page. Reads run directories, and measures nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use files::{Existing, NewFile};
use run::Run;

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use analysis::{interference, observed_writes, slow_calls, storage};
use report::html::{Subject, page};
use report::inert;

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
                  shows several runs side by side. The page also contains all its figures as JSON.",
    positionals: Some(Positionals {
        usage: "RUN...",
        help: "Run directories, or their run.json files.",
        count: 1..=16,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| {
            typed.runs.push(text.into());
            Ok(())
        },
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

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Some(out) = &typed.out else { return Err(usage!("name the page to write: -o FILE")) };
    let runs = typed
        .runs
        .iter()
        .map(|path| anyhow::Ok(inert::run(&Run::read(path)?)?))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let failed = || format!("cannot write {}", out.display());
    // Create the file first, so that a failure costs no time.
    let mut file = NewFile::create(out, typed.existing).with_context(failed)?;
    let parts: Vec<_> = runs.iter().zip(&typed.runs).map(|(run, path)| explained(run, path)).collect();
    let labels = labels(&runs, &typed.runs);
    let subjects: Vec<Subject<'_>> = parts
        .iter()
        .zip(&runs)
        .zip(&labels)
        .map(|((parts, run), label)| Subject {
            label: inert::name(label),
            run,
            explained: &parts.calls,
            layers: &parts.layers,
            beside: &parts.beside,
            slow_writes: &parts.slow_writes,
            damage: parts.damage.iter().map(|text| inert::name(text)).collect(),
        })
        .collect();
    let text = page(&subjects)?;
    file.write_all(text.as_bytes()).and_then(|()| file.complete()).with_context(failed)?;
    writeln!(terminal.out, "{}: {} kB", inert::line(&out.display().to_string()), text.len().div_ceil(1000))?;
    let damage: Vec<&String> = parts.iter().flat_map(|parts| &parts.damage).collect();
    for text in &damage {
        writeln!(terminal.err, "roundtrip report: {}", inert::line(text))?;
    }
    Ok(if damage.is_empty() { Exit::OK } else { Exit::FAILED })
}

/// The readable parts of a run's explanation, and what is damaged.
struct Parts<'a> {
    calls: Vec<slow_calls::Explained>,
    layers: Vec<storage::SeriesLayers<'a>>,
    beside: Vec<interference::Explained<'a>>,
    slow_writes: Vec<observed_writes::Slow<'a>>,
    damage: Vec<String>,
}

fn explained<'a>(run: &'a Run, path: &Path) -> Parts<'a> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let mut damage = Vec::new();
    let mut calls = Vec::new();
    if let Some(kept) = slow_calls::Kept::of(run) {
        match slow_calls::explain(&kept, directory, |_| true, Some(&inert::name)) {
            Ok(explained) => calls = explained,
            Err(error) => damage.push(format!("slow calls are not explained: {error}")),
        }
    }
    damage.extend(calls.iter_mut().filter_map(|one| one.damage.take()).map(|error| error.to_string()));
    let result = run.results.storage.as_ref();
    let (layers, error) =
        result.map(|result| storage::divide(result, directory, SLOW_WRITES)).unwrap_or_default().split();
    damage.extend(error.map(|error| error.to_string()));
    let result = run.results.interference.as_ref();
    let (beside, error) =
        result.map(|result| interference::explain(result, directory)).unwrap_or_default().split();
    damage.extend(error.map(|error| error.to_string()));
    let result = run.results.observed_writes.as_ref();
    let (slow_writes, error) =
        result.map(|result| observed_writes::slow(result, directory)).unwrap_or_default().split();
    damage.extend(error.map(|error| error.to_string()));
    Parts { calls, layers, beside, slow_writes, damage }
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
        let directory = if path.ends_with(run::FILE_NAME) { path.parent().unwrap_or(path) } else { path };
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
