//! `cargo xtask test --changed`: which tests a change can affect. Runs nothing.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};

use crate::outcome::Outcome;
use crate::shell::{self, say};
use crate::suite;

/// What a change affects.
#[derive(Debug, Default, PartialEq, Eq)]
struct Affected {
    /// Packages of the workspace whose files changed.
    packages: BTreeSet<String>,
    /// All packages.
    everything: bool,
    /// Steps of `cargo xtask test` that run more than the workspace's tests, and would be needed.
    left_out: BTreeSet<&'static str>,
}

/// The tests to run, as a filter of nextest.
static FILTER: OnceLock<String> = OnceLock::new();

/// Finds out what changed since `base` and runs `steps`, of which one is [`tests`]. By default
/// `base` is the last commit.
pub(crate) fn command(base: &str, steps: impl FnOnce() -> bool) -> ExitCode {
    let affected = match files(base) {
        Ok(files) if files.is_empty() => {
            say(&format!(
                "nothing changed since {base}; pass another commit: cargo xtask test --changed COMMIT"
            ));
            return ExitCode::from(2);
        }
        Ok(files) => affected(&files),
        Err(error) => {
            say(&format!("cargo xtask test --changed: {error:#}"));
            return ExitCode::from(2);
        }
    };
    let filter = FILTER.get_or_init(|| filter(&affected));
    say(&format!("tests of what changed since {base}: {filter}"));
    let passed = steps();
    let left_out: Vec<&str> = affected.left_out.into_iter().collect();
    if !left_out.is_empty() {
        say(&format!(
            "left out, although the change may affect it: {}; cargo xtask test runs it",
            left_out.join(", ")
        ));
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the tests that the change can affect.
pub(crate) fn tests() -> Result<Outcome> {
    let filter = FILTER.get().context("what changed is not known")?;
    let notes = suite::empty("changed-times")?;
    let mut tests = suite::nextest(&notes)?;
    suite::run(tests.args(["--workspace", "--no-tests", "pass", "-E", filter]), &notes)
}

/// The files that differ from a commit, and new ones.
fn files(base: &str) -> Result<Vec<String>> {
    if base.starts_with('-') {
        bail!("'{base}' is not a commit");
    }
    let list = |arguments: &[&str]| {
        let text =
            shell::output("git", arguments).with_context(|| format!("git knows no commit '{base}'"))?;
        Ok::<_, anyhow::Error>(text.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let mut files = list(&["diff", "--name-only", "--no-renames", base, "--"])?;
    files.extend(list(&["ls-files", "--others", "--exclude-standard"])?);
    Ok(files)
}

/// The package in a folder of `crates`, or in a folder of this name.
fn package_of(folder: &str) -> String {
    match folder {
        "roundtrip" | "xtask" => folder.to_owned(),
        library => format!("roundtrip-{library}"),
    }
}

fn affected(files: &[String]) -> Affected {
    const GUESTS: &str = "guests";
    let mut all = Affected::default();
    for file in files {
        // Its tests check the sources and documents of all packages.
        all.packages.insert("xtask".to_owned());
        let parts: Vec<&str> = file.split('/').collect();
        match parts[..] {
            ["crates", package, ..] => {
                all.packages.insert(package_of(package));
                all.left_out.extend([GUESTS, "static binaries", "fuzz targets"]);
            }
            [package @ ("guest" | "xtask"), ..] => {
                all.packages.insert(package_of(package));
                all.left_out.insert(GUESTS);
            }
            ["web", ..] => drop(all.packages.insert(package_of("report"))),
            ["java", ..] => drop(all.packages.insert(package_of("bench"))),
            ["lab", ..] => drop(all.left_out.insert("lab")),
            ["fuzz", ..] => drop(all.left_out.insert("fuzz targets")),
            ["peers", ..] => drop(all.left_out.insert(GUESTS)),
            ["docs", ..] => {
                // Its tests compare pages with what the program prints.
                all.packages.insert(package_of("report"));
                all.left_out.insert("commands of the documents");
            }
            [page] if page.ends_with(".md") => drop(all.left_out.insert("commands of the documents")),
            _ => all.everything = true,
        }
    }
    all
}

fn filter(affected: &Affected) -> String {
    if affected.everything {
        return "all()".to_owned();
    }
    let packages = affected.packages.iter().map(|package| format!("rdeps(={package})"));
    packages.collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Affected {
        affected(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_change_affects_its_package_and_what_uses_it() {
        let changed = of(&["crates/layers/src/lib.rs", "guest/src/lib.rs"]);
        assert_eq!(filter(&changed), "rdeps(=roundtrip-guest) + rdeps(=roundtrip-layers) + rdeps(=xtask)");
        assert!(changed.left_out.contains("guests"));
        assert_eq!(filter(&of(&["web/page.js"])), "rdeps(=roundtrip-report) + rdeps(=xtask)");
        assert_eq!(filter(&of(&["lab/src/x.py"])), "rdeps(=xtask)");
        assert_eq!(of(&["lab/src/x.py"]).left_out, BTreeSet::from(["lab"]));
    }

    #[test]
    fn what_no_package_owns_affects_everything() {
        for file in ["Cargo.lock", "fixtures/runs/x/run.json", ".config/nextest.toml"] {
            assert_eq!(filter(&of(&[file, "crates/layers/src/lib.rs"])), "all()", "{file}");
        }
    }
}
