//! Skips a test if the machine lacks what the test needs. Only tests use this crate; it must not
//! know what they test.
//!
//! Cargo reports a skipped test as passed. Therefore each skip is also written to the file that
//! [`FILE`] names, and `cargo xtask test` lists the skips in its summary. A skip is a failure if
//! the machine does offer what the test needs: it would hide the fault that the test looks for.
//!
//! ```no_run
//! # fn trace() -> Result<(), String> { Err("no tracefs".into()) }
//! use roundtrip_skips::{Need, skip};
//!
//! let Ok(trace) = trace() else { return skip(Need::Tracefs, "no tracefs") };
//! ```
#![allow(clippy::print_stderr)] // What a person who runs one test reads.

mod quiet;

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub use quiet::Quiet;

/// The environment variable that names the file to which skips are appended. Each is a line: the
/// test's binary and name, a tab, and the reason. If it is not set, skips are only printed.
pub const FILE: &str = "ROUNDTRIP_SKIPS_FILE";

/// The environment variable that is set if every program that tests use was installed. A test that
/// then lacks one needs a package that `cargo xtask setup` does not know.
pub const INSTALLED: &str = "ROUNDTRIP_PROGRAMS_INSTALLED";

/// What a test needs and the machine lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need<'a> {
    /// Root's rights: to mount, to set scheduling policies and priorities, to change the user id.
    Root,
    /// Access to tracefs, the kernel's tracing file system.
    Tracefs,
    /// A program in `PATH`.
    Program(&'a str),
    /// A device, a driver or a kernel feature. Neither root nor a package can provide it.
    Machine,
    /// A machine on which nothing else runs while the test measures, according to [`Quiet`].
    Quiet,
}

impl Need<'_> {
    /// Whether the machine offers it to this process, so that a test must not be skipped.
    #[must_use]
    pub fn is_met(self) -> bool {
        match self {
            Self::Root => has_roots_rights(),
            Self::Tracefs => has_roots_rights() && kernel_has_tracefs(),
            Self::Program(name) => find(name).is_some(),
            Self::Machine | Self::Quiet => false,
        }
    }
}

/// Reports the calling test as skipped, with the reason, to standard error and to the file that
/// [`FILE`] names. The caller then returns.
///
/// # Panics
/// If the machine offers what the test needs, or if the skip cannot be written to the file.
pub fn skip(need: Need<'_>, why: impl Display) {
    let test = test();
    assert!(
        !need.is_met(),
        "{test} was about to be skipped although this machine offers what it needs: {why}"
    );
    assert!(
        !matches!(need, Need::Program(_)) || std::env::var_os(INSTALLED).is_none(),
        "{test} needs a program that `cargo xtask setup` does not install: {why}"
    );
    // A reason is one line, as the file's readers expect.
    let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("SKIPPED {test}: {why}");
    if let Some(file) = std::env::var_os(FILE) {
        let line = format!("{test}\t{why}\n");
        let written = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            // One write per line, so that lines of concurrent tests do not mix.
            .and_then(|mut file| file.write_all(line.as_bytes()));
        written
            .unwrap_or_else(|error| panic!("cannot note a skip in {}: {error}", Path::new(&file).display()));
    }
}

/// The running test: its binary, and the test's name, which is its thread's name.
fn test() -> String {
    let binary = std::env::current_exe().unwrap_or_default();
    let stem = binary.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash to a test's binary.
    let name = stem.rsplit_once('-').map_or(&*stem, |(name, _)| name);
    let thread = std::thread::current();
    format!("{name}::{}", thread.name().unwrap_or("?"))
}

/// Whether this process is root with the capabilities that tests use: CAP_SYS_ADMIN (21) and
/// CAP_SYS_NICE (23), capabilities(7). Root in a container often lacks them.
fn has_roots_rights() -> bool {
    const NEEDED: u64 = 1 << 21 | 1 << 23;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    rustix::process::geteuid().is_root() && effective.is_some_and(|set| set & NEEDED == NEEDED)
}

fn kernel_has_tracefs() -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some("tracefs"))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "this machine offers what it needs: no shell")]
    fn a_skip_fails_if_the_machine_offers_what_the_test_needs() {
        skip(Need::Program("sh"), "no shell");
    }

    #[test]
    fn a_skip_is_recorded_as_one_line_with_the_test_and_the_reason() {
        let file = std::env::temp_dir().join(format!("roundtrip-skips-{}", std::process::id()));
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::skipped_here", "--include-ignored"])
            .env(FILE, &file)
            .env_remove(INSTALLED)
            .output()
            .unwrap();
        let noted = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(status.status.success());
        assert_eq!(noted, "roundtrip_skips::tests::skipped_here\tno such thing\n");
    }

    #[test]
    fn a_missing_program_is_no_reason_to_skip_where_all_were_installed() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::skipped_here", "--include-ignored"])
            .env(INSTALLED, "1")
            .output()
            .unwrap();
        assert!(!output.status.success());
    }

    #[test]
    #[ignore = "is run by the tests above"]
    fn skipped_here() {
        skip(Need::Program("no-such-program-anywhere"), "no such\nthing");
    }
}
