//! The tests of the Python package in `lab`: installs it with its test dependencies into its own
//! folder, and runs them. Needs the static binary, which makes and explains the runs that it
//! collects.

use std::process::Command;

use anyhow::{Result, bail};

use crate::install;
use crate::leftovers::Temporary;
use crate::outcome::Outcome;
use crate::passed::{self, Inputs};
use crate::shell::{output, run, static_binary, target_dir};
use crate::suite;

/// The oldest supported Python version.
const PYTHON: (u32, u32) = (3, 11);

/// Installs it, with the packages that its tests need.
pub(crate) fn install() -> Result<Outcome> {
    let version = output("python3", &["-c", "import sys; print(*sys.version_info[:2])"]).unwrap_or_default();
    let numbers: Vec<u32> = version.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    if !matches!(numbers[..], [major, minor] if (major, minor) >= PYTHON) {
        let (major, minor) = PYTHON;
        return Ok(Outcome::NotRun(format!("Python {major}.{minor} is not installed")));
    }
    let folder = target_dir().join("lab");
    if !folder.join("bin/python").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "./lab[test]"]);
    Ok(install::download(&mut pip)
        .unwrap_or_else(|error| Outcome::NotRun(format!("the package cannot be installed: {error:#}"))))
}

/// Tests it as it is now. Lists skipped tests.
pub(crate) fn check() -> Result<Outcome> {
    match install()? {
        Outcome::Passed => (),
        outcome => return Ok(outcome),
    }
    let python = target_dir().join("lab/bin/python");
    let binary = static_binary(std::env::consts::ARCH);
    if !binary.exists() {
        bail!("{} does not exist: the previous step builds it", binary.display());
    }
    // Whatever pip installed there.
    let packages = output(&python.to_string_lossy(), &["-m", "pip", "freeze"]).unwrap_or_default();
    let inputs = Inputs::new()?.text(&packages).file(&binary)?;
    let inputs = inputs.project(&["lab", "fixtures/runs", "docs", "web"])?;
    passed::once("the lab", &inputs, || {
        let noted = suite::empty("skipped-lab-tests")?;
        let temporary = Temporary::new()?;
        run(Command::new(&python)
            .args(["-m", "pytest", "--quiet", "--durations=10", "-p", "no:cacheprovider", "lab/tests"])
            .env("ROUNDTRIP", &binary)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", temporary.path())
            .env(roundtrip_skips::FILE, &noted))?;
        Ok(Outcome::Skipped(suite::read(&noted)?))
    })
}
