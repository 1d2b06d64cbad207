//! Runs the tests with cargo-nextest, each in a process of its own, and reports which of them could
//! not run on this machine and where the time went.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::builds::{self, Builds};
use crate::install;
use crate::lanes;
use crate::leftovers::Temporary;
use crate::outcome::Outcome;
use crate::passed;
use crate::programs;
use crate::shell::{self, say, target_dir};
use crate::timed::{self, Timed};

/// The file with the tests' times, in Cargo's target folder.
const TIMES: &str = "test-times";
/// The file with the times of the builds, beside it.
const BUILDS: &str = "test-builds";

/// Builds the tests of the whole workspace.
pub(crate) fn build() -> Result<Outcome> {
    let notes = empty(BUILDS)?;
    let mut cargo = shell::cargo_command();
    cargo.args(["nextest", "run", "--workspace", "--no-run"]);
    let (built, builds) = builds::watch(&target_dir(), || shell::run(&mut cargo));
    builds::store(&builds, &notes)?;
    built
}

/// Runs the tests of the whole workspace, except programs that passed before with the same inputs.
pub(crate) fn all() -> Result<Outcome> {
    let notes = empty(TIMES)?;
    let (mut left, mut before) = (Vec::new(), Vec::new());
    for program in programs::built()? {
        match program.before() {
            Some(skipped) => before.push(Outcome::Unchanged { parts: 1, of: 1, skipped }),
            None => left.push(program),
        }
    }
    let mut tests = nextest(&notes)?;
    tests.arg("--workspace");
    if !before.is_empty() {
        say(&format!("{} test programs passed before with the same inputs", before.len()));
        let ids: Vec<String> = left.iter().map(|program| format!("binary_id(={})", program.id)).collect();
        tests.args(["-E", &if ids.is_empty() { "none()".to_owned() } else { ids.join(" + ") }]);
        // None is left if only a program without tests has changed.
        tests.args(["--no-tests", "pass"]);
    }
    let Outcome::Skipped(skipped) = run(&mut tests, &notes)? else { bail!("no report on skipped tests") };
    for program in &left {
        program.passed(&skipped)?;
    }
    let mut parts = before;
    parts.extend(left.iter().map(|_| Outcome::Passed));
    parts.push(Outcome::Skipped(skipped));
    Ok(passed::together(&parts))
}

/// Runs the examples in the documentation of the libraries, which nextest leaves out.
pub(crate) fn in_documentation() -> Result<Outcome> {
    shell::cargo(&["test", "--quiet", "--workspace", "--doc"])
}

/// Runs a command that runs tests and notes their times in this file, and returns which of them
/// were skipped. Fails if they left files behind, except where a test failed at first.
pub(crate) fn run(command: &mut Command, notes: &Path) -> Result<Outcome> {
    let noted = empty("skipped-tests")?;
    if install::has_packages() {
        command.env(roundtrip_skips::INSTALLED, "1");
    }
    let temporary = Temporary::new()?;
    shell::run(command.env(roundtrip_skips::FILE, &noted).env("TMPDIR", temporary.path()))?;
    if timed::flaky(&timed::read(notes)).is_empty() {
        temporary.check()?;
    }
    Ok(Outcome::Skipped(read(&noted)?))
}

/// A command that runs tests, even after a failure, and notes their times in this file.
pub(crate) fn nextest(notes: &Path) -> Result<Command> {
    // Building the tests may replace this program's file while it is used.
    let own = target_dir().join("timed");
    let partial = own.with_extension(std::process::id().to_string());
    std::fs::copy("/proc/self/exe", &partial)
        .and_then(|_| std::fs::rename(&partial, &own))
        .with_context(|| format!("write {}", own.display()))?;
    let mut command = shell::cargo_command();
    command.args([
        "nextest",
        "run",
        "--no-fail-fast",
        "--status-level",
        "slow",
        "--final-status-level",
        "slow",
    ]);
    // The runner of Cargo's configuration, which has no name for "this machine" there.
    let variable = format!("CARGO_TARGET_{}_RUNNER", host()?.to_uppercase().replace('-', "_"));
    command.env(variable, format!("{} timed {}", own.display(), notes.display()));
    lanes::announce(&mut command);
    Ok(command)
}

/// The target triple of this machine.
pub(crate) fn host() -> Result<String> {
    let version = shell::output("rustc", &["-vV"]).unwrap_or_default();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("'rustc -vV' names no host")?.to_owned())
}

/// Where the time of the tests that ran last went.
pub(crate) fn times() -> (Builds, Vec<Timed>) {
    let note = |name| target_dir().join(name);
    (builds::read(&note(BUILDS)), timed::read(&note(TIMES)))
}

/// The path of a file with notes in Cargo's target folder. Removes what an earlier run left there.
pub(crate) fn empty(name: &str) -> Result<PathBuf> {
    let noted = target_dir().join(name);
    match std::fs::remove_file(&noted) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", noted.display()))
        }
        _ => Ok(noted),
    }
}

/// The tests' notes, one line each; empty if there are none.
pub(crate) fn read(noted: &Path) -> Result<Vec<String>> {
    if !noted.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(noted).with_context(|| format!("cannot read {}", noted.display()))?;
    let mut tests: Vec<String> = text.lines().map(|line| line.replacen('\t', ": ", 1)).collect();
    tests.sort();
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_read_in_order_and_no_file_means_none() {
        let noted = std::env::temp_dir().join(format!("roundtrip-skipped-{}", std::process::id()));
        assert_eq!(read(&noted).unwrap(), [] as [String; 0]);
        std::fs::write(&noted, "b::two\tno root\na::one\tno btt: here\n").unwrap();
        let tests = read(&noted).unwrap();
        std::fs::remove_file(&noted).unwrap();
        assert_eq!(tests, ["a::one: no btt: here", "b::two: no root"]);
    }
}
