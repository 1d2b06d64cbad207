//! Runs one test for the test runner, and notes how long it took and how much of that it computed.
//! `cargo xtask test` reads the notes. Knows nothing about the tests.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result};
use roundtrip_skips::Quiet;
use serde_json::{Value, json};

use crate::lanes::{self, Paused};
use crate::shell::{children_cpu_s, say};

/// One run of a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timed {
    /// The file name of the test's program, as Cargo names it: with a hash.
    pub(crate) program: String,
    pub(crate) test: String,
    pub(crate) wall_s: f64,
    /// The CPU time of the test and of the processes that it waited for, in seconds. Its resolution
    /// is a tick of the kernel's clock, 10 ms.
    pub(crate) cpu_s: f64,
    pub(crate) passed: bool,
}

/// `cargo xtask timed NOTES PROGRAM ARGUMENT…`: runs a test's program, and exits with its status.
pub(crate) fn command(notes: &Path, program: &str, arguments: &[String]) -> ExitCode {
    match run(notes, program, arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("timed: {error:#}"));
            ExitCode::from(127)
        }
    }
}

fn run(notes: &Path, program: &str, arguments: &[String]) -> Result<u8> {
    let alone = needs_all_cpus();
    let _paused = alone.then(|| Paused::group(&std::env::var(lanes::IDLE).ok()?));
    let quiet = Quiet::watch();
    let begin = Instant::now();
    let status =
        Command::new(program).args(arguments).status().with_context(|| format!("start {program}"))?;
    let wall_s = begin.elapsed().as_secs_f64();
    if let Some(why) = quiet.disturbance().filter(|_| alone && !status.success()) {
        say(&format!("this test needs all CPUs, and {why}"));
    }
    // Otherwise the runner only asks for the list of tests.
    let is_test = arguments.iter().any(|argument| argument == "--exact");
    if let Some(test) = arguments.iter().find(|word| is_test && !word.starts_with('-')) {
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (cpu_s, passed) = (children_cpu_s()?, status.success());
        let timed = Timed { program, test: test.clone(), wall_s, cpu_s, passed };
        let mut file = OpenOptions::new().append(true).create(true).open(notes).context("open the notes")?;
        // One write per line, so that lines of concurrent tests do not mix.
        file.write_all(format!("{}\n", timed.to_json()).as_bytes()).context("write the notes")?;
    }
    // A signal becomes a status as shells report it.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}

/// Whether the test belongs to the group `alone` of nextest's configuration.
fn needs_all_cpus() -> bool {
    std::env::var("NEXTEST_TEST_GROUP").is_ok_and(|group| group == "alone")
}

impl Timed {
    fn to_json(&self) -> Value {
        let Self { program, test, wall_s, cpu_s, passed } = self;
        json!({"program": program, "test": test, "wall_s": wall_s, "cpu_s": cpu_s, "passed": passed})
    }

    fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            program: text("program")?,
            test: text("test")?,
            wall_s: value["wall_s"].as_f64()?,
            cpu_s: value["cpu_s"].as_f64()?,
            passed: value["passed"].as_bool()?,
        })
    }
}

/// Reads the notes. No file means that no test ran.
pub(crate) fn read(notes: &Path) -> Vec<Timed> {
    let text = std::fs::read_to_string(notes).unwrap_or_default();
    text.lines().filter_map(Timed::from_json).collect()
}

/// The tests that passed only when they were run again, as lines. Empty if there are none.
pub(crate) fn flaky(tests: &[Timed]) -> Vec<String> {
    let name = |test: &Timed| format!("  {}::{}", without_hash(&test.program), test.test);
    let of = |passed| tests.iter().filter(|test| test.passed == passed).map(name).collect::<BTreeSet<_>>();
    let (failed, passed) = (of(false), of(true));
    let both: Vec<String> = failed.intersection(&passed).cloned().collect();
    if both.is_empty() {
        return both;
    }
    let heading = "\n=== flaky: each of these failed and then passed, which is a fault (see CONTRIBUTING.md)";
    [heading.to_owned()].into_iter().chain(both).collect()
}

/// The name of a program without the hash that Cargo appends.
pub(crate) fn without_hash(program: &str) -> &str {
    program.rsplit_once('-').map_or(program, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_noted_with_its_times_and_its_status_is_passed_on() {
        let notes = std::env::temp_dir().join(format!("roundtrip-timed-{}", std::process::id()));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        // The shell takes these as its script's arguments.
        let test = ["-c", "sleep 0.3; exit 3", "--exact", "a::test"];
        assert_eq!(run(&notes, "sh", &words(&test)).unwrap(), 3);
        let [timed] = &read(&notes)[..] else { panic!("one test ran") };
        assert_eq!(timed.program, "sh");
        assert!(timed.wall_s >= 0.3 && !timed.passed, "{timed:?}");
        assert_eq!(run(&notes, "sh", &words(&["-c", "kill -9 $$"])).unwrap(), 137);
        assert_eq!(read(&notes).len(), 1, "a list of tests is no test");
        std::fs::remove_file(&notes).unwrap();
    }

    #[test]
    fn only_a_test_that_failed_and_then_passed_is_flaky() {
        let test = |name: &str, passed| Timed {
            program: "program-1".into(),
            test: name.into(),
            wall_s: 1.0,
            cpu_s: 1.0,
            passed,
        };
        let mut tests = vec![test("once", false), test("never", false), test("always", true)];
        tests.push(test("never", false));
        assert!(flaky(&tests).is_empty());
        tests.push(test("once", true));
        assert_eq!(flaky(&tests)[1..], ["  program::once"]);
    }
}
