//! The arguments of atrace. Must not know what they do.

use std::path::PathBuf;

use super::categories::{CATEGORIES, Category};
use crate::args::values::{push, set};
use crate::args::{Group, Opt, Positionals, ValueKind, values};

/// The largest file of category names, in bytes.
const MAX_NAMES_BYTES: u64 = 1 << 16;

/// The arguments as typed.
#[derive(Default)]
pub(crate) struct Typed {
    pub(super) job: Option<Job>,
    pub(super) categories: Vec<Category>,
    pub(super) apps: Option<String>,
    pub(super) kilobytes: Option<u64>,
    pub(super) overwrite: bool,
    pub(super) functions: Vec<String>,
    pub(super) ignore_signals: bool,
    pub(super) wait_s: Option<u64>,
    pub(super) record_s: Option<u64>,
    pub(super) compress: bool,
    pub(super) out: Option<PathBuf>,
    pub(super) only_userspace: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    /// Starts, waits, dumps and stops.
    Whole,
    Start,
    Dump,
    Stop,
    Stream,
    List,
}

/// The categories.
pub(crate) const POSITIONALS: Positionals<Typed> = Positionals {
    usage: "[CATEGORY]...",
    help: CATEGORIES,
    count: 0..=usize::MAX,
    kind: ValueKind::Text,
    set: |typed, text| push(&mut typed.categories, Category::named(text)),
};

/// The size of the buffers, under these names. `set` stores it.
pub(crate) const fn size(
    names: &'static [&'static str],
    default: &'static str,
    set: fn(&mut Typed, &str) -> Result<(), String>,
) -> Opt<Typed> {
    Opt::value(names, "KB", "The size of each CPU's buffer, in kilobytes.", set).default(default)
}

/// Stores a size of at least this many kilobytes.
pub(crate) fn at_least<const KILOBYTES: u64>(typed: &mut Typed, text: &str) -> Result<(), String> {
    set(&mut typed.kilobytes, values::whole(text, KILOBYTES..=4_000_000))
}

/// What a full buffer keeps.
pub(crate) const CIRCULAR: Opt<Typed> = Opt::flag(
    &["-c"],
    "Keeps the newest events when a buffer is full, as --async_start always does.",
    |typed: &mut Typed| typed.overwrite = true,
);

/// What to record, besides categories.
pub(crate) const WHAT: Group<Typed> = Group {
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
                let names = text.split(',').filter(|name| !name.is_empty());
                typed.functions.extend(names.map(str::to_owned));
                Ok(())
            },
        ),
        Opt::flag(
            &["--only_userspace"],
            "Refused: the events of Android's programs go to its own tracing service.",
            |typed: &mut Typed| typed.only_userspace = true,
        ),
    ],
};

/// When it records.
pub(crate) const WHEN: Group<Typed> = Group {
    heading: "When",
    options: &[
        Opt::value(&["-s"], "SECONDS", "Waits before it records.", |typed: &mut Typed, text| {
            set(&mut typed.wait_s, values::whole(text, 0..=86_400))
        })
        .default("0"),
        Opt::value(
            &["-t"],
            "SECONDS",
            "How long it records, if it does not only start.",
            |typed: &mut Typed, text| set(&mut typed.record_s, values::whole(text, 0..=86_400)),
        )
        .default("5"),
        Opt::flag(&["-n"], "Ignores signals while it records.", |typed: &mut Typed| {
            typed.ignore_signals = true;
        }),
        Opt::flag(&["--async_start"], "Starts recording, and returns.", |typed: &mut Typed| {
            typed.job = Some(Job::Start);
        }),
        Opt::flag(
            &["--async_dump"],
            "Prints what was recorded so far; recording goes on.",
            |typed: &mut Typed| typed.job = Some(Job::Dump),
        ),
        Opt::flag(
            &["--async_stop"],
            "Stops recording, and prints what was recorded.",
            |typed: &mut Typed| typed.job = Some(Job::Stop),
        ),
        Opt::flag(
            &["--stream"],
            "Prints events while it records, until a signal ends it.",
            |typed: &mut Typed| typed.job = Some(Job::Stream),
        ),
    ],
};

/// Where the recording goes.
pub(crate) const OUTPUT: Group<Typed> = Group {
    heading: "Output",
    options: &[
        Opt::path(
            &["-o"],
            "FILE",
            "Writes the events to FILE, and replaces it.",
            |typed: &mut Typed, text| set(&mut typed.out, values::path(text)),
        ),
        Opt::flag(&["-z"], "Compresses the events (zlib).", |typed: &mut Typed| typed.compress = true),
        Opt::flag(
            &["--list_categories"],
            "Lists the categories that this kernel has events for, and those whose events programs write.",
            |typed: &mut Typed| typed.job = Some(Job::List),
        ),
    ],
};
