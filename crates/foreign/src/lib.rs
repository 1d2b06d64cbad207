//! Reads kernel traces that other tools recorded, and converts them to Roundtrip's own form. Reads
//! Perfetto traces, trace-cmd's `trace.dat` (versions 6 and 7), and the kernel's text as atrace,
//! `trace-cmd report` and `/sys/kernel/tracing/trace` print it; each also packed.
//!
//! Every byte is untrusted. Sizes are limited. Damage is reported, and ends the reading of the
//! damaged part. Everything read before is kept. Must not know what events are used for.

mod bodies;
mod clocks;
mod collect;
mod compressed;
mod error;
mod fields;
mod kept;
mod opening;
mod perfetto;
mod text;
mod threads;
mod trace_dat;

use roundtrip_files::Budget;
use roundtrip_tracefs::Trace;

pub use error::{Error, Result};
use opening::Form;
pub use opening::{Input, Limits, holds_recording};

/// The tool that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Perfetto.
    Perfetto,
    /// trace-cmd.
    TraceCmd,
    /// The kernel itself, as text.
    Text,
}

/// The contents of a file.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The tool that wrote it.
    pub tool: Tool,
    /// The events. They may be packed, see [`Trace::all`]. `recorded` lists the events that the
    /// file declares as recorded. Without such a declaration, it lists those that the file
    /// contains.
    pub trace: Trace,
    /// The kernel's name of the trace clock ("boot"); `None` if the file does not name the clock.
    pub clock: Option<String>,
    /// The recording kernel's release; empty if the file does not name it.
    pub release: String,
    /// How many events the recorder counted as lost; see also the trace's losses.
    pub lost_events: u64,
    /// Whether the clocks of CPUs differ in a way that was not corrected.
    pub clocks_disagree: bool,
    /// What the file lacks, and what could not be read, in one sentence each.
    pub notes: Vec<String>,
    /// The first damage found, with its place in the file.
    pub damage: Option<String>,
}

impl Foreign {
    fn new(tool: Tool) -> Self {
        Self {
            tool,
            trace: Trace { others: kept::others(), ..Trace::default() },
            clock: None,
            release: String::new(),
            lost_events: 0,
            clocks_disagree: false,
            notes: Vec::new(),
            damage: None,
        }
    }

    /// Records damage; only the first is reported.
    fn damaged(&mut self, what: impl Into<String>) {
        self.damage.get_or_insert(what.into());
    }
}

/// The maximum size of all decompressed parts of a file together, in bytes.
const MOST_UNPACKED_BYTES: usize = 1 << 30;

/// The maximum size of one compressed part of a Perfetto trace, in bytes. Perfetto compresses a few
/// pages together.
const MAX_PART_BYTES: usize = 64 << 20;

/// The maximum memory for what a file contains, in bytes: its events, which are packed, and all
/// names.
const MAX_MEMORY_BYTES: u64 = 384 << 20;

/// The maximum number of a file's events. Packed, they take about 300 MB.
const MAX_EVENTS: u64 = 16_000_000;

/// The maximum number of lines or messages within a file: each event, and as many around them.
const MAX_STEPS: u64 = 1 << 26;

/// What an entry of a table costs besides its text, in bytes, while the table grows.
const BYTES_EACH: usize = 200;

/// Reads the bytes of a file that any of these tools wrote. The events are not packed.
///
/// # Errors
/// Those of [`read_within`].
pub fn read(bytes: &[u8]) -> Result<Foreign> {
    let mut foreign = read_within(Input::memory(bytes), &Limits::default())?;
    foreign.trace.unpack();
    Ok(foreign)
}

/// Reads a file that any of these tools wrote, packed or not.
///
/// # Errors
/// If the file is something else, is damaged at its start, or exceeds the limits. Later damage is
/// not an error, see [`Foreign::damage`].
pub fn read_within(input: Input<'_>, limits: &Limits) -> Result<Foreign> {
    let opened = opening::open(input, limits)?;
    let budget = &Budget::new(MAX_MEMORY_BYTES, MAX_EVENTS, MAX_STEPS);
    let mut foreign = match opened.form {
        Form::Text => match text::read(opened.reader(), budget)? {
            Some(foreign) => foreign,
            None => return Err(opened.unknown()),
        },
        Form::Perfetto => perfetto::read(&|| opened.reader(), budget)?,
        Form::TraceCmd => {
            let (source, damage) = opened.source()?;
            let mut foreign = trace_dat::read(source, budget)?;
            // What comes first in the file is reported: the unpacked bytes end there.
            foreign.damage = damage.or(foreign.damage);
            foreign
        }
    };
    if let Some(member) = opened.member {
        foreign.notes.insert(0, format!("the recording is {member} in the archive"));
    }
    clocks::mend(&mut foreign);
    Ok(foreign)
}
