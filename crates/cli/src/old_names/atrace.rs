//! `atrace`: records the kernel's global trace with the options and the output of Android's
//! program. Must not know how events are enabled or settings are restored.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use roundtrip_bench::worker::Interrupts;
use roundtrip_files::{Existing, NewFile};
use roundtrip_tracefs::{GlobalTrace, Settings, Tracefs};

use crate::args::values::{push, set};
use crate::args::{Entry, Group, Kind, Opt, Positionals, ValueKind, values};
use crate::atrace::{self, Category};
use crate::commands::trace::{find, with_cure};
use crate::terminal::{Exit, Terminal};

/// The largest file of category names, in bytes.
const MAX_NAMES_BYTES: u64 = 1 << 16;

/// How often a waiting program looks for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    job: Job,
    categories: Vec<Category>,
    apps: Option<String>,
    kilobytes: Option<u64>,
    overwrite: bool,
    functions: Vec<String>,
    ignore_signals: bool,
    wait_s: Option<u64>,
    record_s: Option<u64>,
    compress: bool,
    out: Option<PathBuf>,
    only_userspace: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Job {
    /// Starts, waits, dumps and stops.
    #[default]
    Whole,
    Start,
    Dump,
    Stop,
    Stream,
    List,
}

/// The program.
pub(crate) static COMMAND: Entry<Typed> = Entry {
    path: &["atrace"],
    kind: Kind::OldName,
    summary: "records the kernel's events of some categories",
    description: "Records the events of these categories in the kernel's global trace for some seconds and prints \
                  them, or starts a recording that a later call dumps or stops. Every earlier setting of the trace \
                  is restored at the end. It does not touch a trace that another program uses. Needs root.",
    positionals: Some(Positionals {
        usage: "[CATEGORY]...",
        help: atrace::CATEGORIES,
        count: 0..=usize::MAX,
        kind: ValueKind::Text,
        set: |typed, text| push(&mut typed.categories, Category::named(text)),
    }),
    groups: &[
        Group {
            heading: "What to record",
            options: &[
                Opt::value(
                    &["-a"],
                    "APPS",
                    "Accepted with a note: only Android's programs read the property that this sets.",
                    |typed: &mut Typed, text| {
                        typed.apps = Some(text.to_owned());
                        Ok(())
                    },
                ),
                Opt::value(
                    &["-b"],
                    "KB",
                    "The size of each CPU's buffer, in kilobytes.",
                    |typed: &mut Typed, text| set(&mut typed.kilobytes, values::whole(text, 1..=4_000_000)),
                )
                .default("2048"),
                Opt::flag(
                    &["-c"],
                    "Keeps the newest events when a buffer is full, as --async_start always does.",
                    |typed: &mut Typed| typed.overwrite = true,
                ),
                Opt::path(
                    &["-f"],
                    "FILE",
                    "Also records the categories that FILE names, separated by spaces.",
                    |typed: &mut Typed, text| {
                        let names = roundtrip_files::read(text.as_ref(), MAX_NAMES_BYTES)
                            .map_err(|error| error.to_string())?;
                        for name in String::from_utf8_lossy(&names).split_whitespace() {
                            typed.categories.push(Category::named(name)?);
                        }
                        Ok(())
                    },
                ),
                Opt::value(
                    &["-k"],
                    "FUNCTIONS",
                    "Also records the calls of these kernel functions, separated by commas.",
                    |typed: &mut Typed, text| {
                        typed
                            .functions
                            .extend(text.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
                        Ok(())
                    },
                ),
                Opt::flag(
                    &["--only_userspace"],
                    "Refused: the events of Android's programs go to its own tracing service.",
                    |typed: &mut Typed| typed.only_userspace = true,
                ),
            ],
        },
        Group {
            heading: "When",
            options: &[
                Opt::value(&["-s"], "SECONDS", "Waits before it records.", |typed: &mut Typed, text| {
                    set(&mut typed.wait_s, values::whole(text, 0..=86_400))
                })
                .default("0"),
                Opt::value(&["-t"], "SECONDS", "How long it records.", |typed: &mut Typed, text| {
                    set(&mut typed.record_s, values::whole(text, 0..=86_400))
                })
                .default("5"),
                Opt::flag(&["-n"], "Ignores signals while it records.", |typed: &mut Typed| {
                    typed.ignore_signals = true;
                }),
                Opt::flag(&["--async_start"], "Starts recording, and returns.", |typed: &mut Typed| {
                    typed.job = Job::Start;
                }),
                Opt::flag(
                    &["--async_dump"],
                    "Prints what was recorded so far; recording goes on.",
                    |typed: &mut Typed| typed.job = Job::Dump,
                ),
                Opt::flag(
                    &["--async_stop"],
                    "Stops recording, and prints what was recorded.",
                    |typed: &mut Typed| {
                        typed.job = Job::Stop;
                    },
                ),
                Opt::flag(
                    &["--stream"],
                    "Prints events while it records, until a signal ends it.",
                    |typed: &mut Typed| typed.job = Job::Stream,
                ),
            ],
        },
        Group {
            heading: "Output",
            options: &[
                Opt::path(
                    &["-o"],
                    "FILE",
                    "Writes the events to FILE, and replaces it.",
                    |typed: &mut Typed, text| set(&mut typed.out, values::path(text)),
                ),
                Opt::flag(&["-z"], "Compresses the events (zlib).", |typed: &mut Typed| {
                    typed.compress = true
                }),
                Opt::flag(
                    &["--list_categories"],
                    "Lists the categories that this kernel has events for.",
                    |typed: &mut Typed| typed.job = Job::List,
                ),
            ],
        },
    ],
    examples: &[
        (
            "atrace --async_start -b 8000 -c sched idle workq binder_driver sync freq",
            "Starts recording what matters for latency.",
        ),
        ("atrace --async_stop -o trace.txt", "Stores it."),
    ],
    run,
};

fn run(typed: Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    if typed.only_userspace {
        return Err(crate::args::usage!(
            "--only_userspace: the events of Android's programs go to its own tracing service; use Android's atrace \
             or perfetto for them"
        ));
    }
    if typed.job == Job::List {
        return list(terminal);
    }
    // A signal is handled only after all settings are changed. Then they can be restored.
    let signals = Signals { interrupts: Interrupts::watch()?, ignored: typed.ignore_signals };
    let trace = match typed.job {
        Job::Dump | Job::Stop => match find()? {
            Some(trace) => trace,
            None => anyhow::bail!("no trace was started; start one with 'atrace --async_start'"),
        },
        Job::Whole | Job::Start | Job::Stream | Job::List => {
            signals.wait(typed.wait_s.unwrap_or(0))?;
            let trace = start(&typed, terminal)?;
            match record(&typed, &trace, &signals, terminal) {
                Ok(()) if typed.job == Job::Start => return Ok(Exit::OK),
                Ok(()) => trace,
                Err(error) => {
                    trace.restore()?;
                    return Err(error);
                }
            }
        }
    };
    if typed.job != Job::Dump {
        trace.halt()?;
    }
    let dumped = if typed.job == Job::Stream { Ok(()) } else { dump(&typed, &trace, terminal) };
    match typed.job {
        Job::Dump => dumped.and_then(|()| Ok(trace.clear()?))?,
        // The events are kept if they could not be written.
        Job::Stop if dumped.is_err() => dumped?,
        _ => trace.restore().map_err(Into::into).and(dumped)?,
    }
    Ok(Exit::OK)
}

fn list(terminal: &mut Terminal<'_>) -> anyhow::Result<Exit> {
    let tracefs = Tracefs::open()?;
    for category in Category::ALL.iter().filter(|category| !category.events(tracefs.root()).is_empty()) {
        writeln!(terminal.out, "{:>10} - {}", category.name, category.title)?;
    }
    Ok(Exit::OK)
}

fn start(typed: &Typed, terminal: &mut Terminal<'_>) -> anyhow::Result<GlobalTrace> {
    let settings = Settings {
        kilobytes: typed.kilobytes.unwrap_or(2048),
        overwrite: typed.overwrite || typed.job == Job::Start,
        functions: typed.functions.clone(),
    };
    let mut missing = Vec::new();
    let trace = GlobalTrace::start(&settings, |root| {
        let chosen = atrace::choose(root, &typed.categories)?;
        missing.clone_from(&chosen.missing);
        Ok::<_, anyhow::Error>(chosen)
    })
    .map_err(with_cure)?;
    if typed.apps.is_some() {
        writeln!(terminal.err, "atrace: note: -a has no effect: only Android's programs read the property")?;
    }
    for note in if typed.categories.is_empty() { Vec::new() } else { atrace::notes(&missing) } {
        writeln!(terminal.err, "atrace: note: {note}")?;
    }
    Ok(trace)
}

/// Everything between the start and the end of recording.
fn record(
    typed: &Typed,
    trace: &GlobalTrace,
    signals: &Signals,
    terminal: &mut Terminal<'_>,
) -> anyhow::Result<()> {
    write!(terminal.out, "capturing trace...")?;
    terminal.out.flush()?;
    // CPUs begin to record one after the other. From here on, all of them do.
    trace.clear()?;
    atrace::mark_clocks(trace)?;
    match typed.job {
        Job::Whole => signals.wait(typed.record_s.unwrap_or(5)).inspect_err(|_| {
            let _ = writeln!(terminal.out, "\ntrace aborted.");
        }),
        Job::Stream => {
            writeln!(terminal.out)?;
            Ok(trace.stream(terminal.out, || signals.interrupts.check().is_err())?)
        }
        _ => Ok(signals.interrupts.check()?),
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
