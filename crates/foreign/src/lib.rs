//! Reads kernel traces that other tools recorded, and converts them to Roundtrip's own form. Reads
//! Perfetto traces, trace-cmd's `trace.dat` (versions 6 and 7), and the kernel's text as atrace and
//! `/sys/kernel/tracing/trace` print it.
//!
//! Every byte is untrusted. Sizes are limited. Damage is reported, and ends the reading of the
//! damaged part. Everything read before is kept. Must not know what events are used for.

mod bodies;
mod collect;
mod compressed;
mod error;
mod fields;
mod kept;
mod perfetto;
mod text;
mod trace_dat;

use std::collections::BTreeMap;

use tracefs::Trace;

pub use error::{Error, Result};

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
    /// The events. `recorded` lists the events that the file declares as recorded. Without such a
    /// declaration, it lists those that the file contains.
    pub trace: Trace,
    /// The kernel's name of the trace clock ("boot"); `None` if the file does not name the clock.
    pub clock: Option<String>,
    /// The recording kernel's release; empty if the file does not name it.
    pub release: String,
    /// Names of threads and processes.
    pub comms: BTreeMap<u32, String>,
    /// How many events the recorder counted as lost; see also the trace's losses.
    pub lost_events: u64,
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
            comms: BTreeMap::new(),
            lost_events: 0,
            notes: Vec::new(),
            damage: None,
        }
    }

    /// Records damage; only the first is reported.
    fn damaged(&mut self, what: impl Into<String>) {
        self.damage.get_or_insert(what.into());
    }
}

/// The longest file that is read, in bytes.
pub const MOST_FILE_BYTES: u64 = 1 << 30;

/// The maximum size of all decompressed parts of a file together, in bytes.
const MOST_UNPACKED_BYTES: usize = 1 << 30;

/// The maximum number of events that are kept of a file.
const MOST_EVENTS: usize = 16_000_000;

/// Reads the bytes of a file that any of these tools wrote.
///
/// # Errors
/// [`Error::Unknown`] for any other format, [`Error::Unreadable`] if the header is damaged. Damage
/// after the header is not an error, see [`Foreign::damage`].
pub fn read(bytes: &[u8]) -> Result<Foreign> {
    if trace_dat::is(bytes) {
        return trace_dat::read(bytes);
    }
    if perfetto::is(bytes) {
        return perfetto::read(bytes);
    }
    text::read(bytes)
}
