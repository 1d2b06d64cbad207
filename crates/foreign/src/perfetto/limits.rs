//! How much a trace may ask for: work by its messages, memory by its names. Must not know what the
//! messages mean.

use super::Reader;
use crate::collect::overflow;
use crate::{Foreign, MAX_NAME_BYTES, MAX_THREADS};

/// The maximum number of messages within a trace: 16 million events and as much again around them,
/// read twice.
const MAX_STEPS: u64 = 1 << 26;

/// What an entry of a table costs besides its text, in bytes.
pub(super) const BYTES_EACH: usize = 100;

impl Reader {
    /// Whether the trace exceeds a limit, so that reading can stop.
    pub(super) fn overflowed(&self, foreign: &Foreign) -> bool {
        self.collected.overflowed() || self.too_much(foreign)
    }

    pub(super) fn too_much(&self, foreign: &Foreign) -> bool {
        self.exhausted() || overflow(&foreign.trace.names, &self.processes, &self.comms)
    }

    fn exhausted(&self) -> bool {
        let threads = self.processes.len() > MAX_THREADS;
        threads || self.kept_bytes > MAX_NAME_BYTES || self.steps > MAX_STEPS
    }

    /// Counts a message, whatever is in it.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.exhausted() { Err("it has too many parts".to_owned()) } else { Ok(()) }
    }

    /// A text to keep beside the events.
    pub(super) fn keep(&mut self, text: &str) -> String {
        self.kept_bytes += text.len() + BYTES_EACH;
        text.to_owned()
    }
}
