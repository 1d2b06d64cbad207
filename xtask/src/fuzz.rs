//! Runs every fuzz target briefly, to see that it builds and that no simple input breaks it.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{self, output, root, run, say};
use crate::suite::host;

const HELP: &str = "\
Usage: cargo xtask fuzz SECONDS

Runs every fuzz target for this long. An input that breaks one stays in fuzz/artifacts.";

/// How long each target runs in a test run, in seconds.
const SECONDS: u32 = 5;

/// `cargo xtask fuzz SECONDS`: every target for this long.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let asked = shell::asked("fuzz", HELP, arguments, |arguments| match arguments {
        [seconds] => seconds.parse().with_context(|| format!("'{seconds}' is not a number of seconds")),
        _ => bail!("pass the number of seconds for each target"),
    });
    match asked.map(run_all) {
        Ok(Ok(Outcome::NotRun(why))) => {
            say(&format!("fuzz: {why}"));
            ExitCode::FAILURE
        }
        Ok(Ok(_)) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            say(&format!("fuzz: {error:#}"));
            ExitCode::FAILURE
        }
        Err(status) => status,
    }
}

/// Runs each target briefly, as a step of `test`.
pub(crate) fn short_runs() -> Result<Outcome> {
    run_all(SECONDS)
}

/// Builds the targets under `fuzz/`, and runs each unless it passed before. The first input that
/// breaks one fails the step, and is kept in `fuzz/artifacts`.
fn run_all(seconds: u32) -> Result<Outcome> {
    match build()? {
        Outcome::Passed => {}
        outcome => return Ok(outcome),
    }
    let targets = output("cargo", &["+nightly", "fuzz", "list"]).unwrap_or_default();
    if targets.trim().is_empty() {
        bail!("'cargo fuzz list' lists no target");
    }
    let host = host()?;
    let mut outcomes = Vec::new();
    for target in targets.split_whitespace() {
        let time = format!("-max_total_time={seconds}");
        let inputs = Inputs::new()?.text(&time).file(&program(target, &host))?;
        let outcome = passed::once(&format!("fuzz target {target}"), &inputs, || {
            run(cargo_fuzz("run").args(["--target", &host, target, "--"]).args([
                &time,
                "-rss_limit_mb=2048",
                "-verbosity=0",
            ]))
        });
        outcomes.push(outcome?);
    }
    Ok(passed::together(&outcomes))
}

/// The program that is built for a target.
fn program(target: &str, host: &str) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "fuzz/target".into(), PathBuf::from);
    root().join(folder).join(host).join("release").join(target)
}

/// Builds all targets at once, so that all CPUs are used.
pub(crate) fn build() -> Result<Outcome> {
    if !root().join("fuzz/Cargo.toml").exists() {
        bail!("fuzz/Cargo.toml is missing");
    }
    if output("cargo", &["+nightly", "fuzz", "--version"]).is_none() {
        return Ok(Outcome::NotRun("no nightly Rust or no cargo-fuzz; see the install step".into()));
    }
    // The host's target explicitly: otherwise cargo-fuzz uses the one that it was built for.
    run(cargo_fuzz("build").args(["--target", &host()?]))
}

/// A command of cargo-fuzz for targets that count steps (`fuzz/steps.rs`).
fn cargo_fuzz(what: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", what]);
    command.env("RUSTFLAGS", "-Cllvm-args=-sanitizer-coverage-trace-loads");
    command
}
