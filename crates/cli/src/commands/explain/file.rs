//! `roundtrip explain FILE`: the slow binder calls and the synchronous writes in a recording from
//! another tool, and what the recording lacks. `analysis` finds and explains them, `foreign` reads
//! the file.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context as _;
use roundtrip_analysis::recorded_writes::{RecordedWrites, recorded_writes, shows_writes};
use roundtrip_analysis::slow_calls::{self, Explained, Recorded, Wanted};
use roundtrip_files::NewFile;
use roundtrip_foreign::{Foreign, Tool};
use roundtrip_layers::Basis;
use roundtrip_report::perfetto::{self, Contents, Track};
use roundtrip_report::storage::slow_writes;
use roundtrip_report::text::inert;
use roundtrip_tracefs::Trace;

use super::Typed;
use crate::args::usage;
use crate::foreign_file;
use crate::terminal::{Exit, Terminal};
use crate::trace_file::Form;

/// The default deadline of a call, as in `ipc observe`, and of a write, as in `storage observe`.
const DEADLINE_NS: u64 = 2_500_000;
const WRITE_DEADLINE_NS: u64 = 20_000_000;

/// The default limit of explained calls, and of explained writes.
const LIMIT: u64 = 20;

/// Each event, and what remains unknown without it.
const NEEDED: [(&str, &str); 8] = [
    ("sched/sched_switch", "which thread had the CPU: without it, almost nothing can be explained"),
    ("sched/sched_waking", "what a thread waited for, and what woke it"),
    ("sched/sched_wakeup", "when a woken thread was on its CPU's queue"),
    ("sched/sched_migrate_task", "when a runnable thread moved to another CPU"),
    ("irq/irq_handler_entry", "the time in device interrupts: it counts as the interrupted thread's work"),
    ("irq/softirq_entry", "the time in softirqs: it counts as the interrupted thread's work"),
    ("binder/binder_wait_for_work", "how long no thread of a server was ready"),
    ("binder/binder_return", "which calls failed"),
];

/// The most threads of a recording. What each did takes memory.
const MAX_THREADS: usize = 250_000;

/// The most events of a recording whose writes are divided, for the same reason.
const MAX_EVENTS: usize = 6_000_000;

/// The contents of a recording.
struct Found {
    /// Whether it has the binder driver's events.
    binder: bool,
    calls: Recorded,
    writes: Option<RecordedWrites>,
    /// Whether there may be writes that are not divided: the recording has too many events.
    too_long: bool,
    wanted: Wanted,
}

impl Found {
    fn of(typed: &Typed, foreign: &Foreign, basis: &Basis<'_>) -> Self {
        let wanted = Wanted {
            deadline_ns: typed.deadline_ns.unwrap_or(DEADLINE_NS),
            slowest: typed.slowest.is_some(),
            limit: typed.slowest.or(typed.limit).unwrap_or(LIMIT),
        };
        let of_writes = Wanted { deadline_ns: typed.deadline_ns.unwrap_or(WRITE_DEADLINE_NS), ..wanted };
        let binder = has(foreign, "binder/binder_transaction");
        let too_long = foreign.trace.event_count() > MAX_EVENTS && shows_writes(&foreign.trace);
        let writes = if too_long { None } else { recorded_writes(basis, of_writes) };
        Self {
            binder,
            calls: slow_calls::recorded(basis, wanted),
            // System calls may be recorded for other reasons. If there are binder events but no
            // writes, leave the writes out.
            writes: writes.filter(|writes| !binder || !writes.result.rows.is_empty()),
            too_long,
            wanted,
        }
    }
}

/// Explains a file's calls, and divides its writes.
pub(super) fn run(typed: &Typed, path: &Path, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let is_text = matches!(typed.format.as_deref(), None | Some("text"));
    let path = &foreign_file::find(path)?;
    let foreign = read(typed, path, terminal)?;
    check_threads(path, &foreign.trace)?;
    let basis = Basis::of(&foreign.trace);
    let mut found = Found::of(typed, &foreign, &basis);
    if typed.out.is_none() && typed.number.is_none() {
        found.calls.kept.others = slow_calls::classify(&basis, &found.calls.others);
    }
    if !found.binder && found.too_long {
        anyhow::bail!("{}: {}", path.display(), too_long(&foreign.trace));
    }
    if !found.binder && found.writes.is_none() {
        // They may be in what could not be read.
        if let Some(damage) = &foreign.damage {
            let damage = inert::line(damage);
            anyhow::bail!(
                "{} is damaged: {damage}; no call or write is in the readable part",
                path.display()
            );
        }
        anyhow::bail!(
            "{}: it has no events of the binder driver: record binder/binder_transaction and \
             binder/binder_transaction_received, or raw_syscalls for writes, with the scheduler's events",
            path.display()
        );
    }
    let slow_writes = found.writes.as_ref().map_or(0, |writes| writes.result.slow_writes.len());
    let count = found.calls.kept.calls.len().max(slow_writes);
    if let Some(number) = typed.number.filter(|&number| number > count) {
        return Err(usage!("there is no slow call {number}: {count} are explained"));
    }
    let about = about(path, &foreign, &found);
    if is_text {
        about.iter().try_for_each(|line| writeln!(terminal.out, "{line}"))?;
        writeln!(terminal.out)?;
    } else {
        about.iter().skip(1).try_for_each(|line| writeln!(terminal.err, "roundtrip: note: {line}"))?;
    }
    let chosen = |call: &slow_calls::SlowCall| typed.number.is_none_or(|only| only == call.number);
    let explained = slow_calls::explain_recorded(&found.calls.kept, &basis, chosen);
    match &typed.out {
        Some(out) => {
            let mut tracks = roundtrip_report::explanation::tracks::tracks(&explained, &[]);
            if let Some(writes) = &found.writes {
                let slow = writes.slow();
                let slow = slow_writes::of_recording(&writes.result, &slow);
                let shown: Vec<_> = slow_writes::chosen(&slow, typed.number).collect();
                tracks.extend(slow_writes::tracks(&shown));
            }
            write(out, typed, &foreign, &tracks, terminal)?;
        }
        None => print(typed, path, &found, &explained, terminal)?,
    }
    terminal.out.flush()?;
    match foreign.damage {
        Some(damage) => {
            anyhow::bail!("{} is damaged: {damage}; only the readable part is explained", path.display())
        }
        None => Ok(Exit::OK),
    }
}

/// Prints the calls, followed by the writes.
fn print(
    typed: &Typed,
    path: &Path,
    found: &Found,
    explained: &[Explained],
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    use roundtrip_report::storage::recorded_writes as writes;

    let (format, only) = (typed.format.as_deref(), typed.number);
    if format == Some("json") {
        let writes = found.writes.as_ref().map(|writes| (writes, only));
        let json = roundtrip_report::explanation::json::json(explained, &found.calls.kept, writes)?;
        return Ok(terminal.out.write_all(json.as_bytes())?);
    }
    let mut parts = Vec::new();
    if found.binder {
        parts.push(match format {
            Some("csv") => roundtrip_report::explanation::rows::csv(explained),
            Some("markdown") => roundtrip_report::explanation::rows::markdown(explained),
            _ if found.calls.kept.calls.is_empty() => no_slow_call(&found.calls, found.wanted),
            _ => {
                let kept = &found.calls.kept;
                let shown = super::shown(typed, terminal);
                terminal.look.fit(roundtrip_report::explanation::text(explained, kept, shown))
            }
        });
    }
    parts.extend(found.writes.as_ref().map(|of| match format {
        Some("csv") => writes::csv(&path.to_string_lossy(), of),
        Some("markdown") => writes::markdown(of, only),
        _ => writes::text(of, only, terminal.look),
    }));
    Ok(terminal.out.write_all(parts.join("\n").as_bytes())?)
}

/// The file's events, with text that is safe to show.
fn read(typed: &Typed, path: &Path, terminal: &mut Terminal<'_>) -> anyhow::Result<Foreign> {
    let format = typed.format.as_deref();
    if let Some(out) = &typed.out {
        if format.is_some() {
            return Err(usage!("--format and -o exclude each other"));
        }
        if Form::of(out)? != Form::Perfetto {
            return Err(usage!("{}: slow calls are shown in a .perfetto-trace file", out.display()));
        }
    }
    let mut foreign = foreign_file::read(path, terminal.err)?;
    if format != Some("json") && typed.out.is_none() {
        make_inert(&mut foreign);
    }
    Ok(foreign)
}

/// Writes the recording with the explanations.
fn write(
    out: &Path,
    typed: &Typed,
    foreign: &Foreign,
    tracks: &[Track],
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    let contents = Contents { trace: &foreign.trace, release: &foreign.release, tracks };
    let failed = || format!("cannot write {}", out.display());
    let mut file = NewFile::create(out, typed.existing).with_context(failed)?;
    perfetto::write(&contents, &mut file).and_then(|()| file.complete()).with_context(failed)?;
    let events = foreign.trace.event_count();
    writeln!(terminal.out, "{}: {events} events, with the explanations", out.display())?;
    Ok(())
}

fn no_slow_call(recorded: &Recorded, wanted: Wanted) -> String {
    match recorded.kept.all_calls() {
        0 => "It contains no complete call.".to_owned(),
        calls => format!(
            "None of the {calls} calls took longer than {:.2} ms: --slowest 10 explains the slowest.\n",
            wanted.deadline_ns as f64 / 1e6
        ),
    }
}

/// Whether the recording has an event. A binder event may be from the C driver or from the Rust
/// driver, whose events have other names.
fn has(foreign: &Foreign, event: &str) -> bool {
    let in_rust = event.strip_prefix("binder/").is_some_and(|name| {
        [format!("rust_binder/{name}"), format!("rust_binder/rust_{name}")]
            .iter()
            .any(|event| foreign.trace.has(event))
    });
    in_rust || foreign.trace.has(event)
}

/// Makes the recording's text safe to show.
fn make_inert(foreign: &mut Foreign) {
    foreign.trace.change_names(inert::name);
    for text in [&mut foreign.release, &mut foreign.trace.machine] {
        *text = inert::name(text);
    }
}

/// A description of the recording and of what it lacks, one line each.
/// Refuses a recording of too many threads.
fn check_threads(path: &Path, trace: &Trace) -> anyhow::Result<()> {
    if trace.event_count() <= MAX_THREADS {
        return Ok(());
    }
    let mut threads = HashSet::new();
    for event in trace.all() {
        threads.insert(event.tid);
        if threads.len() > MAX_THREADS {
            let path = path.display();
            anyhow::bail!("{path}: it has more than {MAX_THREADS} threads: give a shorter recording");
        }
    }
    Ok(())
}

/// Why a recording's writes are not divided.
fn too_long(trace: &Trace) -> String {
    let events = trace.event_count();
    format!(
        "it has {events} events, and writes are divided in at most {MAX_EVENTS}: give a shorter recording"
    )
}

fn about(path: &Path, foreign: &Foreign, found: &Found) -> Vec<String> {
    let (trace, recorded) = (&foreign.trace, &found.calls);
    let by = match foreign.tool {
        Tool::Perfetto => "by Perfetto",
        Tool::TraceCmd => "by trace-cmd",
        Tool::Text => "as the kernel's text",
    };
    let kernel =
        if foreign.release.is_empty() { String::new() } else { format!(" on Linux {}", foreign.release) };
    let mut first = format!(
        "{}: recorded {by}{kernel}: {} events",
        inert::line(&path.display().to_string()),
        trace.event_count()
    );
    if found.binder {
        let (calls, oneway) = (recorded.kept.all_calls(), recorded.oneway);
        first += &format!(", {calls} calls, {oneway} oneway transactions");
        if has(foreign, "binder/binder_return") {
            first += &format!(", {} failed calls", recorded.failed);
        }
    }
    if let Some(writes) = found.writes.as_ref().filter(|writes| !writes.machine_unknown) {
        first += &format!(", {} synchronous writes", writes.result.calls());
    }
    let mut lines = vec![first];
    match foreign.clock.as_deref() {
        Some("boot") => {}
        Some(clock) => lines.push(format!(
            "Its clock is '{}', not 'boot': its times cannot be compared with other recordings.",
            inert::name(clock)
        )),
        None => lines.push(
            "It does not name its clock: its times may not be comparable with other recordings.".to_owned(),
        ),
    }
    lines.extend(lacks(foreign, found.binder));
    if found.too_long {
        lines.push(format!("Its writes are not shown: {}.", too_long(trace)));
    }
    if let Some(writes) = &found.writes {
        lines.extend(roundtrip_report::storage::recorded_writes::lacks(writes, trace));
    }
    let gaps = trace.losses.iter().filter(|loss| loss.after_ns > 0 && !loss.damaged).count();
    if gaps > 0 || foreign.lost_events > 0 {
        let events = match foreign.lost_events {
            0 => "Events".to_owned(),
            events => format!("{events} events"),
        };
        lines.push(format!(
            "{events} were lost, in {gaps} gaps: calls and writes across a gap are missing or not explained."
        ));
    }
    let unmatched = recorded.unmatched;
    let cut = unmatched.received + unmatched.replies + unmatched.ended;
    if cut > 0 {
        let why = if foreign.clocks_disagree { "the clocks of their CPUs differ, or they" } else { "they" };
        lines
            .push(format!("{cut} calls are incomplete: {why} began before the recording or ended after it."));
    }
    lines.extend(foreign.notes.iter().map(|note| inert::line(note).into_owned()));
    lines
}

/// What remains unknown because events are missing, one line each.
fn lacks(foreign: &Foreign, binder: bool) -> Vec<String> {
    let trace = &foreign.trace;
    let mut lines = Vec::new();
    for (event, what) in NEEDED.into_iter().filter(|(event, _)| binder || !event.starts_with("binder/")) {
        if !has(foreign, event) {
            lines.push(format!(
                "It has no event {event} (not recorded, or it never occurred), which shows {what}."
            ));
        }
    }
    if trace.processes.is_empty() {
        lines.push(
            "It does not say which process a thread belongs to: each thread is shown as a process."
                .to_owned(),
        );
    }
    lines
}
