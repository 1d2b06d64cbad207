//! `roundtrip explain`: why the slow calls of a recorded run were slow, on this machine or another. Measures nothing.

use std::path::{Path, PathBuf};

use bench::run::Run;

use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::explained::{self, Explained};
use crate::format;
use crate::terminal::{Exit, Terminal};

/// What was typed.
#[derive(Default)]
pub(crate) struct Typed {
    runs: Vec<PathBuf>,
    number: Option<usize>,
    format: Option<String>,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["explain"],
    kind: Kind::Command,
    summary: "tells why a recorded run's slow calls were slow",
    description: "Cuts each slow call that `ipc latency --explain` or `--explain-slowest` has kept into parts that each have one \
                  owner and one state and add up to the call exactly, and names what took the time: another thread and its \
                  priority, an interrupt, the holder of a lock and who kept that from its CPU, a CPU quota. What cannot be \
                  told is said.",
    positionals: Some(Positionals {
        usage: "RUN",
        help: "A run directory.",
        count: 1..=1,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| {
            typed.runs.push(text.into());
            Ok(())
        },
    }),
    groups: &[Group {
        heading: "Output",
        options: &[
            Opt::value(
                &["--miss"],
                "N",
                "Only the Nth slow call, counted from 1.",
                |typed: &mut Typed, text| {
                    typed.number = Some(values::whole(text, 1..=usize::MAX)?);
                    Ok(())
                },
            )
            .default("all"),
            Opt::one_of(
                &["--format"],
                "FORMAT",
                &["text", "json"],
                "How they are printed.",
                |typed: &mut Typed, text| {
                    typed.format = Some(text.to_owned());
                    Ok(())
                },
            )
            .default("text"),
        ],
    }],
    examples: &[
        ("roundtrip explain runs/monday", "Explains every slow call that the run has kept."),
        ("roundtrip explain --miss 3 --format json runs/monday", "Prints all parts of the third as JSON."),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Some(path) = typed.runs.first() else { return Err(usage!("name a run directory")) };
    let run = Run::read(path)?;
    // A run may be named by its file.
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let kept = run.results.latency.as_ref().filter(|result| result.explained.is_some());
    let Some(result) = kept else {
        anyhow::bail!(
            "{} keeps no slow calls: record them with `roundtrip ipc latency --explain --out DIR`",
            path.display()
        )
    };
    let count = result.explained.as_ref().map_or(0, |explained| explained.misses.len());
    if let Some(number) = typed.number.filter(|&number| number > count) {
        return Err(usage!("there is no slow call {number}: {} keeps {count}", path.display()));
    }
    let explained = explained::explain(&run, result, directory, typed.number)?;
    print(&explained, typed.format.as_deref() == Some("json"), terminal)?;
    Ok(Exit::OK)
}

fn print(explained: &[Explained<'_>], json: bool, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    let text = if json {
        format::explanation_json::json(explained)?
    } else if explained.is_empty() {
        "No call was slow.\n".to_owned()
    } else {
        format::explanation::text(explained)
    };
    terminal.out.write_all(text.as_bytes())?;
    Ok(())
}
