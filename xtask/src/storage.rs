//! `cargo xtask storage`: the accuracy of what is said of writes, where it takes a calm machine to
//! measure it. Runs tests that are ignored otherwise, one at a time, and shows what they print.
//! Knows their names, nothing of what they do.

use crate::outcome::Outcome;
use crate::shell::{cargo, output, say};

/// Runs them, built with all optimisation. Those that a machine cannot do, or that it is not calm
/// enough for, say so.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    if output("id", &["-u"]).is_none_or(|id| id.trim() != "0") {
        return Ok(Outcome::NotRun("not root; run: sudo cargo xtask storage".into()));
    }
    say("Ratios are medians over blocks in shuffled order, with their 95% intervals.");
    cargo(&[
        "test",
        "--release",
        "--package",
        "roundtrip",
        "--test",
        "storage_measured",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ])
}
