//! The call at which a run with `--trace` ended.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ipc::Stack;
use crate::scheduling::Scheduling;

/// A call that missed its deadline, and thereby stopped the kernel's trace and the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halted {
    /// The stack.
    pub stack: Stack,
    /// The number of the pair, from 0.
    pub pair: usize,
    /// How the caller was scheduled.
    pub caller: Scheduling,
    /// The call's latency, in nanoseconds.
    pub latency_ns: u64,
    /// The deadline, in nanoseconds.
    pub deadline_ns: u64,
    /// When the call ended, in nanoseconds of CLOCK_BOOTTIME.
    pub end_ns: u64,
    /// The trace's text.
    pub log: PathBuf,
}

impl fmt::Display for Halted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        write!(
            f,
            "a call over {}, pair {}, caller {}, took {:.6} ms; the deadline is {} ms; it ended at {:.6} s of \
             CLOCK_BOOTTIME",
            self.stack,
            self.pair + 1,
            self.caller,
            ms(self.latency_ns),
            ms(self.deadline_ns),
            self.end_ns as f64 / 1e9
        )
    }
}
