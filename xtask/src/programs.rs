//! Which test programs may be left out, because they passed before with the same inputs. Runs none.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell;

/// Files of the project that tests of any package may read when they run. Their own package is
/// theirs as a whole.
const SHARED: [&str; 1] = ["fixtures"];

/// What tests of these packages read besides. A test compares this with the sources.
const READ: [(&str, &[&str]); 3] = [
    ("report", &["docs", "crates/cli/src/commands", "xtask/perfetto"]),
    ("roundtrip", &["docs/json-and-csv.md", "xtask/perfetto"]),
    // The rules on sources and documents.
    ("xtask", &["."]),
];

/// A test program.
pub(crate) struct Program {
    /// Nextest's name for it.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, in the project's.
    pub(crate) folder: String,
    /// The name that starts a note on a skipped test.
    binary: String,
    inputs: Inputs,
}

/// The test programs of the workspace, which are built.
pub(crate) fn built() -> Result<Vec<Program>> {
    let list = ["nextest", "list", "--workspace", "--list-type", "binaries-only", "--message-format", "json"];
    of(&shell::output("cargo", &list).context("cargo nextest does not list the test programs")?)
}

/// What `cargo nextest list` prints in JSON.
fn of(list: &str) -> Result<Vec<Program>> {
    let list: Value = serde_json::from_str(list).context("cargo nextest list prints no JSON")?;
    let machine = Inputs::new()?;
    let binaries = list["rust-binaries"].as_object().context("cargo nextest lists no programs")?;
    binaries.values().map(|binary| program(binary, &list, machine.clone())).collect()
}

fn program(binary: &Value, list: &Value, machine: Inputs) -> Result<Program> {
    let text = |name: &str| binary[name].as_str().with_context(|| format!("a program without {name}"));
    let (id, package) = (text("binary-id")?, text("package-id")?);
    let path = PathBuf::from(text("binary-path")?);
    let mut inputs = machine.text(id).file(&path)?;
    // The programs of the package, which its tests start.
    let others = list["rust-build-meta"]["non-test-binaries"][package].as_array();
    let target = list["rust-build-meta"]["target-directory"].as_str().unwrap_or_default();
    for other in others.into_iter().flatten() {
        let file = other["path"].as_str().context("a program without path")?;
        inputs = inputs.file(&Path::new(target).join(file))?;
    }
    let folder = folder(package)?;
    let name = folder.rsplit('/').next().unwrap_or_default();
    let read = READ.iter().find(|(package, _)| *package == name).map_or(&[][..], |(_, paths)| paths);
    let paths: Vec<&str> = [&[&*folder], &SHARED[..], read].concat();
    let stem = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let binary = stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned());
    let inputs = inputs.project(&paths)?;
    Ok(Program { id: id.to_owned(), path, folder, binary, inputs })
}

/// The folder of a package, as in `path+file:///home/me/roundtrip/crates/layers#0.1.0`.
fn folder(package: &str) -> Result<String> {
    let path = package.split_once("file://").and_then(|(_, rest)| rest.split_once('#'));
    let (path, _) = path.with_context(|| format!("the package {package} has no folder"))?;
    let inside = Path::new(path).strip_prefix(shell::root()).context("a package outside of the project")?;
    Ok(inside.to_string_lossy().into_owned())
}

impl Program {
    fn name(&self) -> String {
        format!("tests of {}", self.id)
    }

    /// Its skipped tests, if it passed before with the same inputs.
    pub(crate) fn before(&self) -> Option<Vec<String>> {
        passed::before(&self.name(), &self.inputs)
    }

    /// Notes that it passed, with those of the skipped tests that are its own.
    pub(crate) fn passed(&self, skipped: &[String]) -> Result<()> {
        let start = format!("{}::", self.binary);
        let own = skipped.iter().filter(|test| test.starts_with(&start)).cloned().collect();
        passed::note(&self.name(), &self.inputs, &Outcome::Skipped(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packages_folder_is_read_from_its_id() {
        let id = format!("path+file://{}/crates/layers#0.1.0", shell::root().display());
        assert_eq!(folder(&id).unwrap(), "crates/layers");
        assert!(folder("registry+https://x#y@1").is_err());
    }

    /// Otherwise a changed file would not run the tests that read it.
    #[test]
    fn tests_of_a_package_read_only_what_is_listed_as_its_inputs() {
        let files = shell::output("git", &["ls-files", "crates/*.rs", "guest/*.rs"]).unwrap();
        let mut found = 0;
        for file in files.lines().filter(|file| shell::root().join(file).exists()) {
            // What it reads is a part of the program, too.
            if file.ends_with("build.rs") {
                continue;
            }
            let folder = file.split('/').take(if file.starts_with("crates/") { 2 } else { 1 });
            let folder = folder.collect::<Vec<_>>().join("/");
            let name = folder.rsplit('/').next().unwrap();
            let text = std::fs::read_to_string(shell::root().join(file)).unwrap();
            // Compiled in, and so a part of the program.
            let read = text.lines().filter(|line| !line.contains("include") && !line.contains("#[path"));
            for rest in read.flat_map(|line| line.split("\"").filter(|text| text.contains("../"))) {
                let path = rest.trim_start_matches('/');
                let up = path.matches("../").count();
                let inside = path.trim_start_matches("../");
                // Within the package, or an invalid path on purpose.
                if !path.starts_with("../") || inside.contains("../") || up > 2 {
                    continue;
                }
                let whole = if up == 1 { format!("crates/{inside}") } else { inside.to_owned() };
                let own =
                    READ.iter().find(|(package, _)| *package == name).map_or(&[][..], |(_, paths)| paths);
                let mut listed = SHARED.iter().chain(own);
                // Names of crates in messages, as in "../x", do not exist.
                let exists = shell::root().join(&whole).exists();
                assert!(!exists || listed.any(|path| Path::new(&whole).starts_with(path)), "{file}: {rest}");
                found += usize::from(exists);
            }
        }
        assert!(found > 30, "{found} paths were checked");
    }
}
