//! `roundtrip explain`: what delayed the slow calls of a recorded run, on any machine. Measures
//! nothing.

#[cfg(feature = "foreign")]
mod file;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use files::Existing;
use run::{RECORDING, Run};
use tracefs::Recording;

use crate::args::values::set;
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use crate::trace_file::{self, Form};
use analysis::slow_calls::{self, Explained, Kept, SlowCall};
use report::inert;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    runs: Vec<PathBuf>,
    number: Option<usize>,
    deadline_ns: Option<u64>,
    slowest: Option<u64>,
    limit: Option<u64>,
    format: Option<String>,
    out: Option<PathBuf>,
    existing: Existing,
}

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["explain"],
    kind: Kind::Command,
    summary: "explains why slow calls were slow, in a run or a recording",
    description: "Divides each slow call that `ipc latency --explain` or `--explain-slowest` has \
                  kept into parts. Each part has one owner and one state, and the parts add up to \
                  the call exactly. Names what delayed the call: another thread and its priority, \
                  an interrupt, the holder of a lock and what kept that thread from its CPU, a CPU \
                  quota. Says what cannot be determined.\n\n\
                  FILE is a recording that another tool made: a Perfetto trace, trace-cmd's trace.dat (versions 6 and \
                  7), or the kernel's text as atrace and /sys/kernel/tracing/trace print it. Roundtrip \
                  explains the binder calls in it that took longer than --deadline, and divides its synchronous \
                  writes into layers as 'storage observe' does, as far as its events allow. It says what the \
                  recording lacks.",
    positionals: Some(Positionals {
        usage: "RUN|FILE",
        help: "A run directory, or another tool's recording.",
        count: 1..=1,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| {
            typed.runs.push(text.into());
            Ok(())
        },
    }),
    groups: &[RECORDED, OUTPUT],
    examples: &[
        ("roundtrip explain runs/monday", "Explains every slow call that the run kept, the slowest first."),
        (
            "roundtrip explain --miss 3 --format json runs/monday",
            "Prints all parts of the third \
             slowest call as JSON.",
        ),
        (
            "roundtrip explain -o slow.perfetto-trace runs/monday",
            "Writes the trace of the slowest call for ui.perfetto.dev.",
        ),
        (
            "roundtrip explain --deadline 5ms phone.perfetto-trace",
            "Explains the binder calls in a Perfetto trace that took longer than 5 ms.",
        ),
        (
            "roundtrip explain --slowest 10 trace.dat",
            "Divides the synchronous writes that trace-cmd recorded, and shows the slowest ten.",
        ),
    ],
    run,
};

/// The options that select what to explain in another tool's recording. They do not apply to a run,
/// which selected its slow calls when it was made.
const RECORDED: Group<Typed> = Group {
    heading: "Another tool's recording",
    options: &[
        Opt::value(
            &["--deadline"],
            "TIME",
            "Explains the calls, and the writes, that took longer, as in 2.5ms.",
            |typed: &mut Typed, text| set(&mut typed.deadline_ns, values::duration_ns(text)),
        )
        .default("2.5ms; 20ms for writes"),
        Opt::value(
            &["--slowest"],
            "N",
            "Explains the N slowest calls and writes instead, whether they missed the deadline or not.",
            |typed: &mut Typed, text| set(&mut typed.slowest, values::whole(text, 1..=1000)),
        )
        .default("off"),
        Opt::value(
            &["--explain-limit"],
            "N",
            "Explains at most this many of the calls over the deadline, the slowest ones.",
            |typed: &mut Typed, text| set(&mut typed.limit, values::whole(text, 1..=1000)),
        )
        .default("20"),
    ],
};

const OUTPUT: Group<Typed> = Group {
    heading: "Output",
    options: &[
        Opt::value(
            &["--miss"],
            "N",
            "Only the Nth slowest call; 1 is the slowest.",
            |typed: &mut Typed, text| set(&mut typed.number, values::whole(text, 1..=usize::MAX)),
        )
        .default("all"),
        Opt::one_of(
            &["--format"],
            "FORMAT",
            &["text", "json", "csv", "markdown"],
            "The output format: csv has a line for each cause, markdown a line for each call.",
            |typed: &mut Typed, text| {
                typed.format = Some(text.to_owned());
                Ok(())
            },
        )
        .default("text"),
        Opt::path(
            &["-o", "--output"],
            "FILE",
            "Writes FILE.perfetto-trace instead, for ui.perfetto.dev: what the kernel recorded \
             around one slow call (the slowest, or the one that --miss chooses), with its \
             explanation.",
            |typed: &mut Typed, text| set(&mut typed.out, values::path(text)),
        ),
        Opt::flag(&["--force"], "Replaces FILE if it exists.", |typed: &mut Typed| {
            typed.existing = Existing::Replace;
        }),
    ],
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let Some(path) = typed.runs.first() else { return Err(usage!("name a run directory, or a recording")) };
    if is_recording(path) {
        #[cfg(feature = "foreign")]
        return file::run(&typed, path, terminal);
        #[cfg(not(feature = "foreign"))]
        anyhow::bail!(
            "{}: this binary is built for devices and does not read other tools' recordings; use one built by \
             `cargo build`",
            path.display()
        );
    }
    refuse_recording_options(&typed, path)?;
    let mut run = Run::read(path)?;
    if typed.out.is_none() && typed.format.as_deref() != Some("json") {
        run = inert::run(&run)?;
    }
    // The user may also name the run's file instead of its directory.
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let Some(kept) = Kept::of(&run) else {
        anyhow::bail!(
            "{} keeps no slow calls: record them with `roundtrip ipc latency --explain --out DIR`, or those of other programs \
             with `roundtrip ipc observe --out DIR`",
            path.display()
        )
    };
    let count = kept.calls.len();
    if let Some(number) = typed.number.filter(|&number| number > count) {
        return Err(usage!("there is no slow call {number}: {} keeps {count}", path.display()));
    }
    if let Some(out) = &typed.out {
        if typed.format.is_some() {
            return Err(usage!("--format and -o exclude each other"));
        }
        return trace(&run, &kept, directory, typed.number, (out, typed.existing), terminal);
    }
    let wanted = |call: &SlowCall| typed.number.is_none_or(|only| only == call.number);
    let json = typed.format.as_deref() == Some("json");
    let rename: Option<&dyn Fn(&str) -> String> = (!json).then_some(&inert::name);
    let mut explained = slow_calls::explain(&kept, directory, wanted, rename)?;
    print(&explained, &kept, typed.format.as_deref(), terminal)?;
    terminal.out.flush()?;
    let measured = run.results.latency.iter().flat_map(|result| &result.explained);
    for warning in measured.flat_map(run::ipc::latency::Explained::warnings) {
        writeln!(terminal.err, "roundtrip: warning: {}", report::inert::line(&warning))?;
    }
    explained.iter_mut().find_map(|one| one.damage.take()).map_or(Ok(Exit::OK), |error| Err(error.into()))
}

/// Rejects the options for recordings if a run is given, which selected its slow calls when it was
/// made.
fn refuse_recording_options(typed: &Typed, path: &Path) -> anyhow::Result<()> {
    if let Some(option) = [
        (typed.deadline_ns.is_some(), "--deadline"),
        (typed.slowest.is_some(), "--slowest"),
        (typed.limit.is_some(), "--explain-limit"),
    ]
    .into_iter()
    .find_map(|(given, option)| given.then_some(option))
    {
        return Err(usage!(
            "{option} applies only to another tool's recording: {} is a run, which kept its slow calls",
            path.display()
        ));
    }
    Ok(())
}

/// Whether a path names a file that is not a run, that is, not JSON.
fn is_recording(path: &Path) -> bool {
    let mut first = [0; 1];
    let opened = path.is_file().then(|| std::fs::File::open(path).ok()).flatten();
    opened.is_some_and(|mut file| file.read_exact(&mut first).is_ok() && first != *b"{")
}

/// Writes the snapshot of one slow call, with all slow calls in it.
fn trace(
    run: &Run,
    kept: &Kept,
    directory: &Path,
    number: Option<usize>,
    (out, existing): (&Path, Existing),
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<Exit> {
    if Form::of(out)? != Form::Perfetto {
        return Err(usage!(
            "{}: slow calls are shown in a .perfetto-trace file; `roundtrip trace convert` writes the kernel's text",
            out.display()
        ));
    }
    let mut recorded = kept.calls.iter().filter_map(|call| Some((call.number, call.snapshot?)));
    let count = recorded.clone().count();
    let Some((at, snapshot)) = recorded.find(|(at, _)| number.is_none_or(|number| number == *at)) else {
        let which = number.map_or_else(|| "any slow call".into(), |number| format!("slow call {number}"));
        anyhow::bail!("{} holds no kernel events of {which}: {}", directory.display(), kept.not_recorded)
    };
    let recording = Recording::open(&directory.join(RECORDING))?;
    let mut explained = slow_calls::explain(kept, directory, |call| call.snapshot == Some(snapshot), None)?;
    explained.sort_by_key(|one| one.explanation.start_ns);
    let calls = run.results.latency.as_ref();
    let calls =
        calls.map(|result| slow_calls::recorded_calls(result, &recording, snapshot)).transpose()?.flatten();
    let tracks = report::explanation_tracks::tracks(&explained, calls.as_deref().unwrap_or_default());
    let trace = trace_file::write(&recording, snapshot, &tracks, Form::Perfetto, (out, existing))?;
    writeln!(terminal.out, "{}", trace_file::summary(out, &trace))?;
    analysis::refuse_damage(&recording, snapshot, &trace)?;
    match &calls {
        Some(calls) => {
            let count: usize = calls.iter().map(|of| of.samples.len()).sum();
            let complete = calls.iter().all(|of| of.complete);
            let some = if complete { "" } else { "; other calls of that time were not kept" };
            writeln!(terminal.out, "it shows the {count} round trips of that time{some}")?;
        }
        None => writeln!(terminal.out, "it shows only slow calls: the run did not keep the others")?,
    }
    let numbers: Vec<String> = explained.iter().map(|one| one.call.number.to_string()).collect();
    let slowest = if number.is_none() {
        format!("; call {at} is the slowest that was recorded")
    } else {
        String::new()
    };
    let others = if count > numbers.len() { "; --miss N chooses another" } else { "" };
    writeln!(
        terminal.out,
        "it explains slow call {} of {}{slowest}{others}",
        numbers.join(", "),
        kept.calls.len()
    )?;
    Ok(Exit::OK)
}

fn print(
    explained: &[Explained],
    kept: &Kept,
    format: Option<&str>,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let text = match format {
        Some("json") => report::explanation_json::json(explained, kept, None)?,
        Some("csv") => report::explanation_rows::csv(explained),
        Some("markdown") => report::explanation_rows::markdown(explained),
        _ => terminal.look.fit(report::explanation::text(explained, kept)),
    };
    terminal.out.write_all(text.as_bytes())?;
    Ok(())
}
