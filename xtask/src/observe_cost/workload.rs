//! What a program has in common with all others that are measured.

use anyhow::Result;

/// A prepared program.
pub(crate) trait Workload {
    /// Runs it once, and returns its operations a second.
    fn run(&mut self) -> Result<f64>;
}
