//! Runs every fuzz target briefly, to see that it builds and that no simple input breaks it.

use std::process::Command;

use anyhow::{Result, bail};

use crate::outcome::Outcome;
use crate::shell::{output, root, run};

/// How long each target runs, in seconds.
const SECONDS: u32 = 15;

/// Builds and runs each target under `fuzz/`. The first input that breaks one fails the step, and
/// is kept in `fuzz/artifacts`.
pub(crate) fn short_runs() -> Result<Outcome> {
    if !root().join("fuzz/Cargo.toml").exists() {
        bail!("fuzz/Cargo.toml is missing");
    }
    if output("cargo", &["+nightly", "fuzz", "--version"]).is_none() {
        return Ok(Outcome::NotRun("no nightly Rust or no cargo-fuzz; see the install step".into()));
    }
    let targets = output("cargo", &["+nightly", "fuzz", "list"]).unwrap_or_default();
    if targets.trim().is_empty() {
        bail!("'cargo fuzz list' names no target");
    }
    for target in targets.split_whitespace() {
        // The host's target explicitly: otherwise cargo-fuzz uses the one that it was built for.
        let time = format!("-max_total_time={SECONDS}");
        run(Command::new("cargo")
            .args(["+nightly", "fuzz", "run", "--target", &host()?, target, "--"])
            .args([&time, "-rss_limit_mb=2048", "-verbosity=0"]))?;
    }
    Ok(Outcome::Passed)
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let version = output("rustc", &["-vV"]).unwrap_or_default();
    match version.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(host) => Ok(host.to_owned()),
        None => bail!("'rustc -vV' names no host"),
    }
}
