//! `cargo xtask storage`: checks of the accuracy of explained writes that need a quiet machine.
//! Runs tests that are otherwise ignored, one at a time, and shows their output. Knows their names,
//! but not what they do.

use crate::outcome::Outcome;
use crate::shell::{cargo, is_root, say};

/// Runs them with full optimisation. Tests that this machine does not support, or for which it is
/// not quiet enough, say so.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    if !is_root() {
        return Ok(Outcome::NotRun("not root; run: sudo cargo xtask storage".into()));
    }
    say("Ratios are medians over blocks in shuffled order, with their 95% intervals.");
    cargo(&[
        "test",
        "--release",
        "--package",
        "roundtrip",
        "--test",
        "program",
        "--",
        "storage_measured::",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ])
}
