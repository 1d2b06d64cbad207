//! `roundtrip explain`: what delayed the slow calls of a recorded run, on any machine. Measures
//! nothing.

#[cfg(feature = "foreign")]
mod file;
mod writes;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use roundtrip_files::Existing;
use roundtrip_run::{RECORDING, Run};
use roundtrip_tracefs::Recording;

use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, usage, values};
use crate::terminal::{Exit, Terminal};
use crate::trace_file::{self, Form};
use roundtrip_analysis::slow_calls::{self, Explained, Kept, SlowCall};
use roundtrip_report::explanation::Shown;
use roundtrip_report::text::inert;
use roundtrip_sorting::SmallSort as _;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    runs: Vec<PathBuf>,
    number: Option<usize>,
    all: bool,
    deadline_ns: Option<u64>,
    slowest: Option<u64>,
    limit: Option<u64>,
    format: Option<String>,
    out: Option<PathBuf>,
    existing: Existing,
}

/// How many bytes of a file tell whether it is a run.
const HEAD_BYTES: u64 = 4096;

/// The command.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["explain"],
    kind: Kind::Command,
    summary: "explains why slow calls and writes were slow, in a run or a recording",
    description: "Divides each slow call that `ipc latency --explain` or `--explain-slowest` has \
                  kept into parts. Each part has one owner and one state, and the parts add up to \
                  the call exactly. Names what delayed the call: another thread and its priority, \
                  an interrupt, the holder of a lock and what kept that thread from its CPU, a CPU \
                  quota. Says what cannot be determined. Of a run of `storage layers` or `storage observe`, explains the \
                  slow writes: in which layer each was, and why it did not move there.\n\n\
                  FILE is a recording that another tool made: a Perfetto trace, trace-cmd's trace.dat (versions 6 and \
                  7), or the kernel's text as atrace, systrace, 'trace-cmd report' and /sys/kernel/tracing/trace \
                  print it. It may be packed (gzip, xz, zstd, zip, atrace -z), and it may be the only recording in \
                  a folder. Roundtrip explains the binder calls in it that took longer than --deadline, and divides \
                  its synchronous writes into layers as 'storage observe' does, as far as its events allow. It says \
                  what the recording lacks.",
    positionals: Some(Positionals {
        usage: "RUN|FILE",
        help: "A run directory, or another tool's recording.",
        count: 1..=1,
        kind: ValueKind::Path,
        set: |typed: &mut Typed, text| push(&mut typed.runs, values::any(text)),
    }),
    groups: &[RECORDED, OUTPUT],
    examples: &[
        (
            "roundtrip explain runs/monday",
            "Sums up what delayed the slow calls, and explains the worst three.",
        ),
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
            "Explains the N slowest calls and writes instead, whether they missed the deadline or not. Of a run of \
             `storage layers`: of each writer and size, the N slowest writes instead of 20.",
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
            "Only the Nth slowest call or write, with its parts; 1 is the slowest.",
            |typed: &mut Typed, text| set(&mut typed.number, values::whole(text, 1..=usize::MAX)),
        )
        .default("all, of which text shows the worst three"),
        Opt::flag(&["--all"], "Shows all slow calls with their parts as text.", |typed: &mut Typed| {
            typed.all = true;
        }),
        Opt::one_of(
            &["--format"],
            "FORMAT",
            &["text", "json", "csv", "markdown"],
            "The output format: csv has a line for each cause, markdown a line for each call or write.",
            |typed: &mut Typed, text| set(&mut typed.format, values::any(text)),
        )
        .default("text"),
        Opt::path(
            &["-o", "--output"],
            "FILE",
            "Writes FILE.perfetto-trace instead, for ui.perfetto.dev: what the kernel recorded \
             around one slow call or write (the slowest, or the one that --miss chooses), with its \
             explanation. Of another tool's recording: all of it, with all slow calls and writes, or \
             with the one that --miss chooses.",
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
        return Err(not_read_here(path));
    }
    let run = match typed.out.is_none() && typed.format.as_deref() != Some("json") {
        true => Run::read_shown(path, inert::line)?,
        false => Run::read(path)?,
    };
    refuse_recording_options(&typed, &run, path)?;
    let directory = Run::directory(path);
    let Some(kept) = Kept::of(&run) else {
        if writes::are_in(&run) {
            return writes::run(&typed, &run, path, terminal);
        }
        anyhow::bail!(
            "{} keeps no slow calls: record them with `roundtrip ipc latency --explain --out DIR`, or those of other programs \
             with `roundtrip ipc observe --out DIR`; slow writes with `roundtrip storage layers` or `storage observe`",
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
    print(&explained, &kept, &typed, terminal)?;
    terminal.out.flush()?;
    let measured = run.results.latency.iter().flat_map(|result| &result.explained);
    for warning in measured.flat_map(roundtrip_run::ipc::latency::Explained::warnings) {
        writeln!(terminal.err, "roundtrip: warning: {}", roundtrip_report::text::inert::line(&warning))?;
    }
    explained.iter_mut().find_map(|one| one.damage.take()).map_or(Ok(Exit::OK), |error| Err(error.into()))
}

/// Rejects the options for recordings if a run is given, which selected its slow calls when it was
/// made. Only `storage layers` keeps the recording of every write.
fn refuse_recording_options(typed: &Typed, run: &Run, path: &Path) -> anyhow::Result<()> {
    if let Some(option) = [
        (typed.deadline_ns.is_some(), "--deadline"),
        (typed.slowest.is_some() && run.results.storage.is_none(), "--slowest"),
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

/// Why the binary for devices does not read another tool's recording.
#[cfg(not(feature = "foreign"))]
pub(crate) fn not_read_here(path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{}: this binary is built for devices and does not read other tools' recordings; use one built by \
         `cargo build`",
        path.display()
    )
}

/// Whether a path names another tool's recording: a file that is not a run, or a folder that is
/// none and has recordings in it.
pub(crate) fn is_recording(path: &Path) -> bool {
    if path.is_dir() {
        #[cfg(feature = "foreign")]
        return !path.join(roundtrip_run::FILE_NAME).exists() && crate::foreign_file::has_recordings(path);
        #[cfg(not(feature = "foreign"))]
        return false;
    }
    let mut head = Vec::new();
    let file = path.is_file().then(|| std::fs::File::open(path).ok()).flatten();
    file.is_some_and(|file| file.take(HEAD_BYTES).read_to_end(&mut head).is_ok()) && !is_run(&head)
}

/// Whether a file that begins like this is a run. Runs are JSON, and so is what Chrome records.
fn is_run(head: &[u8]) -> bool {
    const CHROMES: &[u8] = b"\"traceEvents\"";
    head.starts_with(b"{") && !head.windows(CHROMES.len()).any(|window| window == CHROMES)
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
    explained.small_sort_by_key(|one| one.explanation.start_ns);
    let calls = run.results.latency.as_ref();
    let calls =
        calls.map(|result| slow_calls::recorded_calls(result, &recording, snapshot)).transpose()?.flatten();
    let tracks =
        roundtrip_report::explanation::tracks::tracks(&explained, calls.as_deref().unwrap_or_default());
    let trace = trace_file::write(&recording, snapshot, &tracks, Form::Perfetto, (out, existing))?;
    writeln!(terminal.out, "{}", trace_file::summary(out, &trace))?;
    roundtrip_analysis::refuse_damage(&recording, snapshot, &trace)?;
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
    typed: &Typed,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let text = match typed.format.as_deref() {
        Some("json") => roundtrip_report::explanation::json::json(explained, kept, None)?,
        Some("csv") => roundtrip_report::explanation::rows::csv(explained),
        Some("markdown") => roundtrip_report::explanation::rows::markdown(explained),
        _ => terminal.look.fit(roundtrip_report::explanation::text(explained, kept, shown(typed, terminal))),
    };
    terminal.out.write_all(text.as_bytes())?;
    Ok(())
}

/// What the report shows: of one call everything, of all of them the worst.
fn shown(typed: &Typed, terminal: &Terminal<'_>) -> Shown<'static> {
    Shown {
        all: typed.all || typed.number.is_some(),
        last: terminal.look.is_terminal,
        rest: "--miss N shows the parts of one, --all those of all.",
    }
}
