//! Recordings that other tools made of the kernel's events, read into the form in which
//! Roundtrip's own are explained: traces of Perfetto, `trace.dat` of trace-cmd (versions 6 and 7),
//! and the kernel's text as atrace and `/sys/kernel/tracing/trace` print it.
//!
//! Every byte is foreign: what is read is limited, and damage ends the reading of what it belongs
//! to and is told, while all that was read before it stays. Must not know what events are used for.

mod bodies;
mod collect;
mod compressed;
mod error;
mod perfetto;
mod text;
mod trace_dat;

use std::collections::BTreeMap;

use tracefs::Trace;

pub use error::{Error, Result};

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Perfetto.
    Perfetto,
    /// trace-cmd.
    TraceCmd,
    /// The kernel itself, as text.
    Text,
}

/// What a file says.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Who wrote it.
    pub tool: Tool,
    /// The events. What was recorded is what the file declares, or else what is in it.
    pub trace: Trace,
    /// The clock of the events, as the kernel calls it ("boot"); `None` where the file does not
    /// say.
    pub clock: Option<String>,
    /// The recording kernel's release; empty where the file does not say.
    pub release: String,
    /// Names of threads and processes.
    pub comms: BTreeMap<u32, String>,
    /// How many events the recorder lost, where it counted; see also the trace's losses.
    pub lost_events: u64,
    /// What the file lacks or could not be read of it, a sentence each.
    pub notes: Vec<String>,
    /// Damage, with its place in the file.
    pub damage: Option<String>,
}

impl Foreign {
    fn new(tool: Tool) -> Self {
        Self {
            tool,
            trace: Trace::default(),
            clock: None,
            release: String::new(),
            comms: BTreeMap::new(),
            lost_events: 0,
            notes: Vec::new(),
            damage: None,
        }
    }

    /// Takes note of damage; the first is what is told.
    fn damaged(&mut self, what: impl Into<String>) {
        self.damage.get_or_insert(what.into());
    }
}

/// The longest file that is read, in bytes.
pub const MOST_FILE_BYTES: u64 = 1 << 30;

/// What may come out of all that is compressed in a file, in bytes.
const MOST_UNPACKED_BYTES: usize = 1 << 30;

/// The most events of a file that are kept.
const MOST_EVENTS: usize = 16_000_000;

/// Reads a file's bytes, whichever tool wrote it.
///
/// # Errors
/// [`Error::Unknown`] when it is of none of the forms, [`Error::Unreadable`] when its beginning
/// makes no sense. Damage further behind is no error, see [`Foreign::damage`].
pub fn read(bytes: &[u8]) -> Result<Foreign> {
    if trace_dat::is(bytes) {
        return trace_dat::read(bytes);
    }
    if perfetto::is(bytes) {
        return perfetto::read(bytes);
    }
    text::read(bytes)
}
