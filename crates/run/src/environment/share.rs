//! Whose the CPU time was during a run.

use serde::{Deserialize, Serialize};

/// Shares of all CPU time between two moments, each 0 to 1. Times come in ticks of 10 ms, so a run
/// shorter than a second is judged coarsely.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuShares {
    /// This process and the workers that it has waited for.
    pub own: f64,
    /// Everyone else, and interrupts.
    pub foreign: f64,
    /// Wanted by a CPU of this virtual machine while its host ran something else.
    pub stolen: f64,
}
