//! Runs all tests, and reports which of them could not run on this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::outcome::Outcome;
use crate::shell;

/// Runs the tests of the whole workspace.
pub(crate) fn all() -> Result<Outcome> {
    let noted = empty("skipped-tests")?;
    let mut cargo = shell::cargo_command();
    shell::run(cargo.args(["test", "--workspace", "--no-fail-fast"]).env(skips::FILE, &noted))?;
    Ok(Outcome::Skipped(read(&noted)?))
}

/// Empties the file in which tests note what they skip.
pub(crate) fn empty(name: &str) -> Result<PathBuf> {
    let noted = shell::target_dir().join(name);
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
