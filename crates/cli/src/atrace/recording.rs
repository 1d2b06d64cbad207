//! What atrace does: starts a recording of the global trace, waits, dumps it, and ends it. Must not
//! know how events are enabled or settings are restored.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use roundtrip_bench::worker::Interrupts;
use roundtrip_files::{Existing, NewFile};
use roundtrip_tracefs::{GlobalTrace, Settings, Tracefs};

use super::arguments::{Job, Typed};
use super::categories::{self, Category};
use crate::terminal::{Exit, Terminal};

/// How often a waiting program looks for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// How a program that records calls itself, and what it does unless the arguments say otherwise.
pub(crate) struct Front {
    /// Its name in messages.
    pub(crate) name: &'static str,
    /// The size of each CPU's buffer, in kilobytes.
    pub(crate) kilobytes: u64,
    /// Whether it only starts a recording, without `-t` or another job.
    pub(crate) only_starts: bool,
    /// Prints that a recording has been started that another call will end.
    pub(crate) started: fn(&GlobalTrace, &mut Terminal<'_>) -> anyhow::Result<()>,
}

/// Does what the arguments say.
pub(crate) fn record(typed: &Typed, front: &Front, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    if typed.only_userspace {
        return Err(crate::args::usage!(
            "--only_userspace: the events of Android's programs go to its own tracing service; use Android's atrace \
             or perfetto for them"
        ));
    }
    let usual = if front.only_starts && typed.record_s.is_none() { Job::Start } else { Job::Whole };
    let job = typed.job.unwrap_or(usual);
    if job == Job::List {
        return list(terminal);
    }
    // A signal is handled only after all settings are changed. Then they can be restored.
    let signals = Signals { interrupts: Interrupts::watch()?, ignored: typed.ignore_signals };
    let trace = match job {
        Job::Dump | Job::Stop => match find()? {
            Some(trace) => trace,
            None => anyhow::bail!("no trace was started; start one with '{} --async_start'", front.name),
        },
        Job::Whole | Job::Start | Job::Stream | Job::List => {
            signals.wait(typed.wait_s.unwrap_or(0))?;
            let trace = start(typed, job, front, terminal)?;
            match run(typed, job, front, &trace, &signals, terminal) {
                Ok(()) if job == Job::Start => return Ok(Exit::OK),
                Ok(()) => trace,
                Err(error) => {
                    trace.restore()?;
                    return Err(error);
                }
            }
        }
    };
    if job != Job::Dump {
        trace.halt()?;
    }
    let dumped = if job == Job::Stream { Ok(()) } else { dump(typed, &trace, terminal) };
    match job {
        Job::Dump => dumped.and_then(|()| Ok(trace.clear()?))?,
        // The events are kept if they could not be written.
        Job::Stop if dumped.is_err() => dumped?,
        _ => trace.restore().map_err(Into::into).and(dumped)?,
    }
    Ok(Exit::OK)
}

/// The trace that was started earlier.
pub(crate) fn find() -> anyhow::Result<Option<GlobalTrace>> {
    GlobalTrace::find().map_err(|error| with_remedy(error.into()))
}

/// Adds a remedy to an error of starting or finding a trace.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(roundtrip_tracefs::Error::AlreadyStarted { .. }) => {
            anyhow::anyhow!("{error}: end it with `roundtrip trace stop`")
        }
        Some(roundtrip_tracefs::Error::Busy) => anyhow::anyhow!(
            "another `roundtrip trace` is starting or stopping the trace; try again when it has finished"
        ),
        _ => error,
    }
}

fn list(terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let tracefs = Tracefs::open()?;
    let has_events = |category: &&Category| !category.events(tracefs.root()).is_empty();
    for category in Category::ALL.iter().filter(|one| one.by_programs || has_events(one)) {
        writeln!(terminal.out, "  {:>10} - {}", category.name, category.title)?;
    }
    Ok(Exit::OK)
}

fn start(typed: &Typed, job: Job, front: &Front, terminal: &mut Terminal<'_>) -> anyhow::Result<GlobalTrace> {
    let settings = Settings {
        kilobytes: typed.kilobytes.unwrap_or(front.kilobytes),
        overwrite: typed.overwrite || job == Job::Start,
        functions: typed.functions.clone(),
    };
    let mut missing = Vec::new();
    let trace = GlobalTrace::start(&settings, |root| {
        let chosen = categories::choose(root, &typed.categories)?;
        missing.clone_from(&chosen.missing);
        Ok::<_, anyhow::Error>(chosen)
    })
    .map_err(with_remedy)?;
    let mut notes = Vec::new();
    if typed.apps.is_some() {
        notes.push("-a has no effect: only Android's programs read the property".to_owned());
    }
    if job == Job::Start && (typed.compress || typed.out.is_some()) {
        notes.push("-o and -z have no effect at the start: give them to --async_stop".to_owned());
    }
    notes.extend(categories::notes(&typed.categories, &missing));
    for note in notes {
        writeln!(terminal.err, "{}: note: {note}", front.name)?;
    }
    Ok(trace)
}

/// Everything between the start and the end of recording.
fn run(
    typed: &Typed,
    job: Job,
    front: &Front,
    trace: &GlobalTrace,
    signals: &Signals,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    if job != Job::Start {
        write!(terminal.out, "capturing trace...")?;
        terminal.out.flush()?;
    }
    // CPUs begin to record one after the other. From here on, all of them do.
    trace.clear()?;
    categories::mark_clocks(trace)?;
    match job {
        Job::Whole => signals.wait(typed.record_s.unwrap_or(5)).inspect_err(|_| {
            let _ = writeln!(terminal.out, "\ntrace aborted.");
        }),
        Job::Stream => {
            writeln!(terminal.out)?;
            Ok(trace.stream(terminal.out, || signals.interrupts.check().is_err())?)
        }
        _ => {
            signals.interrupts.check()?;
            (front.started)(trace, terminal)
        }
    }
}

/// Writes the trace to standard output or to the file.
fn dump(typed: &Typed, trace: &GlobalTrace, terminal: &mut Terminal<'_>) -> anyhow::Result<()> {
    writeln!(terminal.out, " done")?;
    let Some(path) = &typed.out else {
        return write(typed, trace, terminal.out);
    };
    let mut file = NewFile::create(path, Existing::Replace)?;
    write(typed, trace, &mut file)?;
    Ok(file.complete()?)
}

fn write(typed: &Typed, trace: &GlobalTrace, out: &mut dyn Write) -> anyhow::Result<()> {
    out.write_all(b"TRACE:\n")?;
    if typed.compress {
        let mut compressed = ZlibEncoder::new(out, Compression::default());
        trace.write_text(&mut compressed)?;
        compressed.finish()?;
    } else {
        trace.write_text(out)?;
    }
    Ok(())
}

/// Signals that end the recording, unless they are ignored.
struct Signals {
    interrupts: &'static Interrupts,
    ignored: bool,
}

impl Signals {
    /// Waits, unless a signal arrives.
    fn wait(&self, seconds: u64) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            if !self.ignored {
                self.interrupts.check()?;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(PAUSE));
        }
    }
}
