//! Runs one test for the test runner, and notes how long it took and how much of that it computed.
//! `cargo xtask test` reads the notes. Knows nothing about the tests.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::shell::say;

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
    let begin = Instant::now();
    let status =
        Command::new(program).args(arguments).status().with_context(|| format!("start {program}"))?;
    let wall_s = begin.elapsed().as_secs_f64();
    // Otherwise the runner only asks for the list of tests.
    let is_test = arguments.iter().any(|argument| argument == "--exact");
    if let Some(test) = arguments.iter().find(|word| is_test && !word.starts_with('-')) {
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let timed = Timed { program, test: test.clone(), wall_s, cpu_s: children_cpu_s()? };
        let mut file = OpenOptions::new().append(true).create(true).open(notes).context("open the notes")?;
        // One write per line, so that lines of concurrent tests do not mix.
        file.write_all(format!("{}\n", timed.to_json()).as_bytes()).context("write the notes")?;
    }
    // A signal becomes a status as shells report it.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}

/// The CPU time of all processes that this one has waited for (`cutime` and `cstime`, proc(5)).
fn children_cpu_s() -> Result<f64> {
    /// Ticks per second, which the kernel reports the same on all machines (USER_HZ).
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(") ").context("/proc/self/stat has no name")?;
    let ticks = |field: usize| fields.split(' ').nth(field - 3)?.parse::<f64>().ok();
    Ok((ticks(16).context("no cutime")? + ticks(17).context("no cstime")?) / TICKS)
}

impl Timed {
    fn to_json(&self) -> Value {
        let Self { program, test, wall_s, cpu_s } = self;
        json!({"program": program, "test": test, "wall_s": wall_s, "cpu_s": cpu_s})
    }

    fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            program: text("program")?,
            test: text("test")?,
            wall_s: value["wall_s"].as_f64()?,
            cpu_s: value["cpu_s"].as_f64()?,
        })
    }
}

/// Reads the notes. No file means that no test ran.
pub(crate) fn read(notes: &Path) -> Vec<Timed> {
    let text = std::fs::read_to_string(notes).unwrap_or_default();
    text.lines().filter_map(Timed::from_json).collect()
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
        assert!(timed.wall_s >= 0.3, "{timed:?}");
        assert_eq!(run(&notes, "sh", &words(&["-c", "kill -9 $$"])).unwrap(), 137);
        assert_eq!(read(&notes).len(), 1, "a list of tests is no test");
        std::fs::remove_file(&notes).unwrap();
    }

    #[test]
    fn the_cpu_time_of_a_child_counts_and_its_sleep_does_not() {
        let before = children_cpu_s().unwrap();
        let script = "sleep 0.5; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times";
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        let spent = children_cpu_s().unwrap() - before;
        // The shell's own time, as minutes and seconds of user and system time.
        let said = String::from_utf8(output.stdout).unwrap();
        let seconds = |text: &str| -> f64 {
            let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
            minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
        };
        let own: f64 = said.lines().next().unwrap().split(' ').map(seconds).sum();
        assert!((spent - own).abs() < 0.1, "{spent} s, and the shell says {own} s");
    }
}
