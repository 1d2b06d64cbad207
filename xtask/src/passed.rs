//! Remembers with which inputs a step passed, so that a second run leaves out what would only
//! repeat it. Knows no step. `cargo xtask test --anew` forgets everything.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::outcome::Outcome;
use crate::shell::{output, root, say, target_dir};

/// What the result of a step depends on: this program, the kernel, installed packages, and what is
/// added.
#[derive(Clone)]
pub(crate) struct Inputs(Sha256);

impl Inputs {
    pub(crate) fn new() -> Result<Self> {
        let mut inputs = Self(Sha256::new()).file(Path::new("/proc/self/exe"))?;
        // Not on all systems.
        for file in ["/proc/sys/kernel/osrelease", "/proc/sys/kernel/version", "/var/lib/dpkg/status"] {
            inputs = inputs.part(&fs::read(file).unwrap_or_default());
        }
        let words = [("id", &["-u"][..]), ("rustc", &["-vV"]), ("rustc", &["+nightly", "-vV"])];
        Ok(words.iter().fold(inputs, |inputs, (program, arguments)| {
            inputs.text(&output(program, arguments).unwrap_or_default())
        }))
    }

    /// Each part with its length, so that two lists of parts never have the same bytes.
    fn part(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.part(text.as_bytes())
    }

    /// The contents of a file.
    pub(crate) fn file(self, path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(self.part(&bytes))
    }

    /// The names and contents of the project's files below these paths, committed or not.
    pub(crate) fn project(mut self, paths: &[&str]) -> Result<Self> {
        let mut list = vec!["ls-files", "--cached", "--others", "--exclude-standard", "-z", "--"];
        list.extend(paths);
        let files = output("git", &list).context("git does not list the files of this project")?;
        let files: BTreeSet<&str> = files.split('\0').filter(|file| !file.is_empty()).collect();
        for file in files {
            let path = root().join(file);
            // Removed, but not committed.
            if path.is_file() {
                self = self.text(file).file(&path)?;
            }
        }
        Ok(self)
    }

    fn fingerprint(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Runs a step unless it passed before with the same inputs.
pub(crate) fn once(name: &str, inputs: &Inputs, work: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
    if let Some(skipped) = before(name, inputs) {
        say(&format!("{name}: passed before with the same inputs"));
        return Ok(Outcome::Unchanged { parts: 1, of: 1, skipped });
    }
    let outcome = work()?;
    note(name, inputs, &outcome)?;
    Ok(outcome)
}

/// The skipped tests of a step that passed before with the same inputs. Otherwise forgets when it
/// passed: it may fail or be interrupted now.
pub(crate) fn before(name: &str, inputs: &Inputs) -> Option<Vec<String>> {
    let file = folder().join(slug(name));
    let before = remembered(&file, &inputs.fingerprint());
    if before.is_none() {
        let _ = fs::remove_file(&file);
    }
    before
}

/// Notes that a step passed, if it did.
pub(crate) fn note(name: &str, inputs: &Inputs, outcome: &Outcome) -> Result<()> {
    let skipped = match outcome {
        Outcome::Passed => &[][..],
        Outcome::Skipped(tests) => tests,
        Outcome::NotRun(_) | Outcome::Unchanged { .. } => return Ok(()),
    };
    let file = folder().join(slug(name));
    fs::create_dir_all(folder()).with_context(|| format!("create {}", folder().display()))?;
    let note = json!({"inputs": inputs.fingerprint(), "skipped": skipped}).to_string();
    fs::write(&file, note).with_context(|| format!("write {}", file.display()))
}

/// Forgets what passed.
pub(crate) fn forget() -> Result<()> {
    match fs::remove_dir_all(folder()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", folder().display()))
        }
        _ => Ok(()),
    }
}

fn folder() -> PathBuf {
    target_dir().join("passed")
}

/// The tests that were skipped when it passed with these inputs, if it did.
fn remembered(file: &Path, fingerprint: &str) -> Option<Vec<String>> {
    let value: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    if value["inputs"] != fingerprint {
        return None;
    }
    value["skipped"].as_array()?.iter().map(|test| test.as_str().map(str::to_owned)).collect()
}

/// A file name of its own for each name.
fn slug(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
            other => format!("_{other:02x}"),
        })
        .collect()
}

/// The outcome of a step whose parts have these outcomes.
pub(crate) fn together(parts: &[Outcome]) -> Outcome {
    let mut skipped = Vec::new();
    let mut before = 0;
    for part in parts {
        match part {
            Outcome::Passed => {}
            Outcome::Skipped(tests) => skipped.extend(tests.clone()),
            Outcome::Unchanged { skipped: tests, .. } => {
                before += 1;
                skipped.extend(tests.clone());
            }
            Outcome::NotRun(_) => return part.clone(),
        }
    }
    if before == 0 {
        Outcome::Skipped(skipped)
    } else {
        Outcome::Unchanged { parts: before, of: parts.len(), skipped }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn inputs(text: &str) -> Inputs {
        Inputs(Sha256::new()).text(text)
    }

    #[test]
    fn a_step_runs_again_only_if_its_inputs_changed_or_it_failed() {
        let runs = Cell::new(0);
        let name = format!("the test of {}", std::process::id());
        let step = |text: &str, result: fn() -> Result<Outcome>| {
            once(&name, &inputs(text), || {
                runs.set(runs.get() + 1);
                result()
            })
        };
        let skipped = || Ok(Outcome::Skipped(vec!["one: no root".into()]));
        let before = Outcome::Unchanged { parts: 1, of: 1, skipped: vec!["one: no root".into()] };
        assert_eq!(step("a", skipped).unwrap(), skipped().unwrap());
        assert_eq!((step("a", skipped).unwrap(), runs.get()), (before, 1));
        assert!(step("b", || anyhow::bail!("no")).is_err());
        // It has not passed since.
        assert_eq!((step("a", skipped).unwrap(), runs.get()), (skipped().unwrap(), 3));
        let not_run = || Ok(Outcome::NotRun("no QEMU".into()));
        assert_eq!(step("c", not_run).unwrap(), step("c", not_run).unwrap());
        assert_eq!(runs.get(), 5);
        assert!(!folder().join(slug(&name)).exists());
    }

    #[test]
    fn inputs_differ_by_each_part_and_where_it_ends() {
        let of = |parts: &[&str]| {
            parts.iter().fold(Inputs(Sha256::new()), |inputs, part| inputs.text(part)).fingerprint()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab", ""]));
        assert_ne!(slug("a b"), slug("a_b"));
    }

    #[test]
    fn the_projects_files_are_inputs_by_name_and_contents() {
        let of = |paths: &[&str]| inputs("").project(paths).unwrap().fingerprint();
        assert_eq!(of(&["web"]), of(&["web"]));
        assert_ne!(of(&["web"]), of(&["java"]));
        assert_eq!(of(&["no-such-file"]), inputs("").fingerprint());
    }

    #[test]
    fn a_step_of_several_parts_says_how_many_are_unchanged() {
        let before = |test: &str| Outcome::Unchanged { parts: 1, of: 1, skipped: vec![test.into()] };
        let all = together(&[Outcome::Passed, before("a"), Outcome::Skipped(vec!["b".into()])]);
        let expected = Outcome::Unchanged { parts: 1, of: 3, skipped: vec!["a".into(), "b".into()] };
        assert_eq!(all, expected);
        assert_eq!(together(&[Outcome::Passed]), Outcome::Skipped(Vec::new()));
    }
}
