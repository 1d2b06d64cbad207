//! Which processes used the CPUs during a run.

use serde::{Deserialize, Serialize};

/// Shares of all CPU time between two instants, each 0 to 1. Times are counted in ticks of 10 ms,
/// so shares of a run under a second are imprecise. They do not contain interrupts and the kernel's
/// threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuShares {
    /// The share of this process and of the workers that it has waited for.
    pub own: f64,
    /// The share of other processes; 0 if it may be an error of counting.
    pub foreign: f64,
    /// Steal time: the share in which a CPU of this virtual machine had work, but the host ran
    /// something else.
    pub stolen: f64,
}
