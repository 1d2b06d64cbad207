//! Reads kernel traces recorded by other tools into the form of Roundtrip's own: Perfetto traces,
//! trace-cmd's `trace.dat` (versions 6 and 7), and the kernel's text as atrace and
//! `/sys/kernel/tracing/trace` print it.
//!
//! Every byte is untrusted. Sizes are limited. Damage is reported and ends the reading of its part;
//! everything read before stays. Must not know what events are used for.

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
    /// The events. `recorded` lists what the file declares as recorded, or else what it contains.
    pub trace: Trace,
    /// The trace clock by the kernel's name ("boot"); `None` if the file does not name it.
    pub clock: Option<String>,
    /// The recording kernel's release; empty if the file does not name it.
    pub release: String,
    /// Names of threads and processes.
    pub comms: BTreeMap<u32, String>,
    /// How many events the recorder counted as lost; see also the trace's losses.
    pub lost_events: u64,
    /// What the file lacks, or what of it could not be read, one sentence each.
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

/// The most that all compressed parts of a file may expand to, in bytes.
const MOST_UNPACKED_BYTES: usize = 1 << 30;

/// The most events of a file that are kept.
const MOST_EVENTS: usize = 16_000_000;

/// Reads a file's bytes, whichever tool wrote it.
///
/// # Errors
/// [`Error::Unknown`] for any other format, [`Error::Unreadable`] if its header is damaged.
/// Damage after that is not an error, see [`Foreign::damage`].
pub fn read(bytes: &[u8]) -> Result<Foreign> {
    if trace_dat::is(bytes) {
        return trace_dat::read(bytes);
    }
    if perfetto::is(bytes) {
        return perfetto::read(bytes);
    }
    text::read(bytes)
}
