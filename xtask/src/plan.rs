//! What `cargo xtask test` runs, in which order, and what beside what. Knows no step's work, except
//! where it is one command.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::lanes::{self, Lane};
use crate::outcome::Outcome;
use crate::shell::{self, say};
use crate::step::Step;
use crate::steps::{self, Phase};
use crate::{
    BUILD_TESTS, CIRCLES, DEBIAN, DEBIAN_ARM64, DOCTOR, DOCUMENTS, ENDS, INTEROP, LAB, OBSERVED, PACKAGES,
    PEERS, PERFETTO, REALTIME, STORAGE, TESTS, UBUNTU,
};
use crate::{
    changed, dist, documents, ends, fuzz, guests, install, interop, lab, passed, perfetto, slowest_tests,
    suite,
};

/// What the steps of `test` need from the start.
const TOOLS: [Step; 2] = [
    ("install: Rust components and targets", install::rust),
    ("install: cargo-nextest", || install::cargo_tool(&install::NEXTEST)),
];

/// What later steps need.
const DOWNLOADS: [Step; 7] = [
    ("install: packages", install::packages),
    ("install: the oldest Rust", install::oldest),
    ("install: cargo-deny", || install::cargo_tool(&install::DENY)),
    ("install: cargo-fuzz and nightly Rust", install::fuzzing),
    ("install: Perfetto", perfetto::install),
    ("install: the lab's Python packages", lab::install),
    ("install: kernels for guests", guests::install),
];

pub(crate) fn setup() -> bool {
    steps::run(&[&TOOLS[..], &DOWNLOADS].concat())
}

/// Checks that run no test, then the build of the tests.
const CHECKS: &[Step] = &[FORMATTING, LINTS, CIRCLES, DOCUMENTS[0], DOCUMENTS[1], BUILD_TESTS];

const FORMATTING: Step = ("formatting", || shell::cargo(&["fmt", "--all", "--check"]));
const LINTS: Step =
    ("lints", || shell::cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]));

pub(crate) fn test_changed() -> bool {
    let tests = ("tests that the change affects", changed::tests as _);
    steps::run(&[FORMATTING, LINTS, CIRCLES, DOCUMENTS[0], DOCUMENTS[1], BUILD_TESTS, tests])
}

pub(crate) fn test_anew() -> bool {
    match passed::forget() {
        Ok(()) => test(),
        Err(error) => {
            say(&format!("cargo xtask test --anew: {error:#}"));
            false
        }
    }
}

pub(crate) fn test() -> bool {
    const LAST: &[Step] = &[
        LAB,
        ("dependencies: licences and sources", || shell::cargo(&["deny", "check", "licenses", "sources"])),
        // Only dependencies of tests may build C code; the device binary may not.
        ("dependencies: no C in the binary", || shell::cargo(&["deny", "--exclude-dev", "check", "bans"])),
        ("dependencies: advisories", advisories),
        DOCUMENTS[2],
        PERFETTO,
        PACKAGES,
        ("fuzz targets", fuzz::short_runs),
        DOCTOR,
        PEERS,
    ];
    let phases = [
        Phase { steps: &TOOLS, beside: &[] },
        Phase { steps: CHECKS, beside: &[&DOWNLOADS_LANE] },
        Phase { steps: &[TESTS], beside: &[&BUILDS_LANE] },
        Phase { steps: LAST, beside: &[&GUESTS_LANE, &COMPILERS_LANE] },
    ];
    steps::run_phases(&phases, slowest_tests)
}

/// Most guests of `test`. The others are at the end of the steps beside them, so that both end at
/// about the same time. Each guest uses one CPU, and most of them count instructions, so other
/// steps running at the same time do not affect them.
const GUESTS_LANE: Lane = Lane {
    name: "guests",
    steps: &[DEBIAN, REALTIME, UBUNTU, DEBIAN_ARM64, STORAGE, INTEROP, OBSERVED, ENDS],
    idle: false,
};

const DOWNLOADS_LANE: Lane = Lane { name: "downloads", steps: &DOWNLOADS, idle: false };

/// Builds what later steps need while the tests run. The tests leave CPUs idle: many of them wait,
/// and some run alone.
const BUILDS_LANE: Lane = Lane {
    name: "builds",
    steps: &[
        ("static binaries", dist::build),
        ("fuzz targets: build", fuzz::build),
        ("guests: build", build_for_guests),
    ],
    idle: true,
};

/// What only compiles, and nothing waits for.
const COMPILERS_LANE: Lane = Lane {
    name: "compilers",
    steps: &[
        ("oldest Rust", oldest_rust),
        ("32-bit Arm", arm32),
        ("documentation: rustdoc", documents::rustdoc),
        ("each library by itself", libraries_alone),
        ("tests in the documentation", suite::in_documentation),
    ],
    idle: true,
};

fn build_for_guests() -> Result<Outcome> {
    guests::build_all()?;
    interop::build_all()?;
    ends::build()?;
    Ok(Outcome::Passed)
}

/// Runs the steps of `test` that run in a separate process.
pub(crate) fn run_lane(name: &str, results: &Path) -> ExitCode {
    let Some(lane) =
        [DOWNLOADS_LANE, BUILDS_LANE, GUESTS_LANE, COMPILERS_LANE].into_iter().find(|lane| lane.name == name)
    else {
        say(&format!("there is no lane '{name}'"));
        return ExitCode::from(2);
    };
    if lanes::run(&lane, results) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds the program with the oldest supported Rust version.
fn oldest_rust() -> Result<Outcome> {
    let version = install::oldest_rust()?;
    let toolchain = format!("+{version}");
    if shell::output("cargo", &[&toolchain, "--version"]).is_none() {
        return Ok(Outcome::NotRun(format!("Rust {version} is not installed; see the install step")));
    }
    // A separate folder, so that the two versions do not discard each other's builds.
    let folder = shell::target_dir().join("oldest-rust");
    let arguments = [&toolchain, "check", "--package", "roundtrip", "--target-dir"];
    shell::run(std::process::Command::new("cargo").args(arguments).arg(folder))
}

/// Checks the program of the packages for 32 bits, which only `dist` builds.
fn arm32() -> Result<Outcome> {
    let installed = shell::output("rustup", &["target", "list", "--installed"]).unwrap_or_default();
    if !installed.lines().any(|target| target == install::ARM32) {
        return Ok(Outcome::NotRun(format!(
            "the target {} is not installed; see the install step",
            install::ARM32
        )));
    }
    shell::cargo(&["check", "--quiet", "--package", "roundtrip", "--target", install::ARM32])
}

/// Checks each library that others may use without the features that the rest of the workspace
/// enables in its dependencies.
fn libraries_alone() -> Result<Outcome> {
    const LIBRARIES: [&str; 7] =
        ["latency", "tracefs", "layers", "run", "binder-driver", "binder-emulator", "binder"];
    for library in LIBRARIES {
        shell::cargo(&["check", "--quiet", "--package", &format!("roundtrip-{library}")])?;
    }
    Ok(Outcome::Passed)
}

/// Checks for known vulnerabilities if their database is available.
fn advisories() -> Result<Outcome> {
    if shell::cargo(&["deny", "fetch", "db"]).is_err() {
        return Ok(Outcome::NotRun(
            "the advisory database (github.com/RustSec/advisory-db) is out of reach".into(),
        ));
    }
    shell::cargo(&["deny", "--offline", "check", "advisories"])
}
