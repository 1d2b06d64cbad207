//! Runs named steps in order, times them, and reports at the end what passed, what failed and what
//! could not run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::shell::{cargo_command, root, say, target_dir};

/// A step's name and its work.
pub(crate) type Step = (&'static str, fn() -> anyhow::Result<Outcome>);

/// The result of a step.
struct Done {
    name: String,
    /// A failure's reason is one line.
    result: std::result::Result<Outcome, String>,
    took: Duration,
}

/// Runs every step, even after a failure, and reports. True if none failed.
pub(crate) fn run(steps: &[Step]) -> bool {
    let start = Instant::now();
    summarise(&carry_out(steps, say), start, say)
}

/// Steps that run in a separate process, whose output is shown when it has ended. The task `lane`
/// runs them.
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
}

/// Steps in order, and at the same time those of a lane, if there is one.
pub(crate) struct Phase<'a> {
    pub(crate) steps: &'a [Step],
    pub(crate) beside: Option<&'a Lane>,
}

/// Runs one phase after the other, even after a failure, and reports, with further lines on where
/// the time went. True if no step failed.
pub(crate) fn run_phases(phases: &[Phase<'_>], times: impl Fn() -> Vec<String>) -> bool {
    let start = Instant::now();
    let mut results = Vec::new();
    for phase in phases {
        let lane = phase.beside.map(|lane| (lane.name, Running::start(lane.name)));
        results.extend(carry_out(phase.steps, say));
        if let Some((name, lane)) = lane {
            results.extend(lane.map_or_else(|error| vec![failed(name, &error)], Running::end));
        }
    }
    slowest(&results).iter().chain(&times()).for_each(|line| say(line));
    summarise(&results, start, say)
}

/// Runs a lane's steps, and writes their results for the process that started this one.
pub(crate) fn run_lane(lane: &Lane, results: &Path) -> bool {
    let done = carry_out(lane.steps, say);
    let lines: Vec<String> = done.iter().map(|one| one.to_json().to_string()).collect();
    let written = std::fs::write(results, lines.join("\n"));
    written.is_ok() && done.iter().all(|one| one.result.is_ok())
}

/// A lane that was started.
struct Running {
    name: String,
    child: Child,
    log: PathBuf,
    results: PathBuf,
    start: Instant,
}

impl Running {
    fn start(name: &str) -> anyhow::Result<Self> {
        let folder = target_dir().join("lanes");
        std::fs::create_dir_all(&folder)?;
        let (log, results) = (folder.join(format!("{name}.log")), folder.join(format!("{name}.json")));
        let _ = std::fs::remove_file(&results);
        let output = File::create(&log)?;
        say(&format!("\n=== in parallel with the next steps: {name}"));
        // Through Cargo: building the tests may have replaced this program's file.
        let mut command = cargo_command();
        command.args(["run", "--quiet", "--package", "xtask", "--", "lane", name]).arg(&results);
        command.current_dir(root()).stdin(Stdio::null());
        let child = command.stdout(output.try_clone()?).stderr(output).spawn()?;
        Ok(Self { name: name.to_owned(), child, log, results, start: Instant::now() })
    }

    /// Waits, shows its output, and returns the results of its steps.
    fn end(mut self) -> Vec<Done> {
        let status = self.child.wait();
        say(&format!("\n=== ran in parallel: {}", self.name));
        say(&String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()));
        let lines = std::fs::read_to_string(&self.results).unwrap_or_default();
        let mut done: Vec<Done> = lines.lines().filter_map(Done::from_json).collect();
        let bad = done.iter().any(|one| one.result.is_err());
        if !bad && !status.as_ref().is_ok_and(ExitStatus::success) {
            let error = anyhow::anyhow!("it ended with {status:?} after {:?}", self.start.elapsed());
            done.push(failed(&self.name, &error));
        }
        done
    }
}

fn failed(name: &str, error: &anyhow::Error) -> Done {
    Done { name: name.to_owned(), result: Err(reason_and_details(error).0), took: Duration::ZERO }
}

impl Done {
    fn to_json(&self) -> Value {
        let (outcome, details) = match &self.result {
            Ok(Outcome::Passed) => ("passed", Vec::new()),
            Ok(Outcome::Skipped(tests)) => ("skipped", tests.clone()),
            Ok(Outcome::NotRun(why)) => ("not run", vec![why.clone()]),
            Err(reason) => ("failed", vec![reason.clone()]),
        };
        json!({"name": self.name, "outcome": outcome, "details": details, "seconds": self.took.as_secs_f64()})
    }

    fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let details = value["details"].as_array()?.iter().filter_map(|text| text.as_str().map(str::to_owned));
        let details: Vec<String> = details.collect();
        let first = || details.first().cloned().unwrap_or_default();
        let result = match value["outcome"].as_str()? {
            "passed" => Ok(Outcome::Passed),
            "skipped" => Ok(Outcome::Skipped(details)),
            "not run" => Ok(Outcome::NotRun(first())),
            _ => Err(first()),
        };
        let took = Duration::try_from_secs_f64(value["seconds"].as_f64()?).ok()?;
        Some(Self { name: value["name"].as_str()?.to_owned(), result, took })
    }
}

fn carry_out(steps: &[Step], say: impl Fn(&str)) -> Vec<Done> {
    let mut results = Vec::new();
    for (name, work) in steps {
        say(&format!("\n=== {name}"));
        let start = Instant::now();
        let result = work().map_err(|error| {
            // The reason comes last, where it is easy to find in a long log.
            let (reason, details) = reason_and_details(&error);
            if !details.is_empty() {
                say(&details);
            }
            say(&format!("FAILED: {reason}"));
            reason
        });
        results.push(Done { name: (*name).to_owned(), result, took: start.elapsed() });
    }
    results
}

fn summarise(results: &[Done], start: Instant, say: impl Fn(&str)) -> bool {
    say("\n=== summary");
    for one in results {
        say(&line(one));
    }
    for (name, tests) in results.iter().filter_map(|one| Some((&one.name, skipped(one)?))) {
        say(&format!("\nskipped in {name}, because this machine lacks something:"));
        tests.iter().for_each(|test| say(&format!("  {test}")));
    }
    let tests: usize = results.iter().filter_map(skipped).map(<[_]>::len).sum();
    let failed = results.iter().filter(|one| one.result.is_err()).count();
    let not_run = results.iter().filter(|one| matches!(one.result, Ok(Outcome::NotRun(_)))).count();
    let total = seconds(start.elapsed());
    say(&format!("{total}  in total; {failed} failed, {not_run} could not run, {tests} tests skipped"));
    failed == 0
}

/// The steps that took the longest, as lines.
fn slowest(results: &[Done]) -> Vec<String> {
    const ROWS: usize = 8;
    let mut all: Vec<&Done> = results.iter().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.took));
    let rows = all.iter().take(ROWS).map(|one| format!("{}  {}", seconds(one.took), one.name));
    ["\n=== slowest steps".to_owned()].into_iter().chain(rows).collect()
}

/// The tests that a step skipped, if any.
fn skipped(done: &Done) -> Option<&[String]> {
    match &done.result {
        Ok(Outcome::Skipped(tests)) if !tests.is_empty() => Some(tests),
        _ => None,
    }
}

fn line(Done { name, result, took }: &Done) -> String {
    let took = seconds(*took);
    match result {
        Ok(Outcome::Skipped(tests)) if !tests.is_empty() => {
            format!("{took}  passed   {name}; {} skipped", tests.len())
        }
        Ok(Outcome::Passed | Outcome::Skipped(_)) => format!("{took}  passed   {name}"),
        Ok(Outcome::NotRun(why)) => format!("{took}  NOT RUN  {name}: {why}"),
        Err(reason) => format!("{took}  FAILED   {name}: {reason}"),
    }
}

/// An error's first line, and the rest, which may be a program's whole output.
fn reason_and_details(error: &anyhow::Error) -> (String, String) {
    let text = format!("{error:#}");
    let (reason, details) = text.split_once('\n').unwrap_or((&text, ""));
    (reason.trim_end_matches(':').to_owned(), details.trim_end().to_owned())
}

fn seconds(took: Duration) -> String {
    format!("{:>7.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_line_shows_whether_a_step_passed_failed_or_could_not_run() {
        let shown = |result| line(&Done { name: "x".into(), result, took: Duration::from_millis(1250) });
        assert_eq!(shown(Ok(Outcome::Passed)), "    1.2 s  passed   x");
        assert!(shown(Ok(Outcome::NotRun("no nightly".into()))).contains("NOT RUN  x: no nightly"));
        assert!(shown(Err("exit 1".into())).contains("FAILED   x: exit 1"));
    }

    /// The report on these steps, and whether all passed. Not printed, because FAILED in the log
    /// would be misleading.
    fn report(steps: &[Step]) -> (String, bool) {
        let text = RefCell::new(String::new());
        let say = |line: &str| text.borrow_mut().extend([line, "\n"]);
        let passed = summarise(&carry_out(steps, say), Instant::now(), say);
        (text.into_inner(), passed)
    }

    #[test]
    fn the_slowest_steps_are_listed_by_time() {
        let done = |name: &str, took: u64| Done {
            name: name.into(),
            result: Ok(Outcome::Passed),
            took: Duration::from_secs(took),
        };
        let lines = slowest(&[done("a", 1), done("b", 30), done("c", 2)]);
        assert_eq!(lines[1..], ["   30.0 s  b", "    2.0 s  c", "    1.0 s  a"]);
    }

    #[test]
    fn one_failure_fails_the_run_and_the_rest_still_runs() {
        let (text, passed) =
            report(&[("a", || Ok(Outcome::Passed)), ("b", || Ok(Outcome::NotRun("why".into())))]);
        assert!(passed && text.contains("0 failed, 1 could not run, 0 tests skipped"), "{text}");
        let (text, passed) = report(&[("a", || anyhow::bail!("no")), ("b", || Ok(Outcome::Passed))]);
        assert!(!passed && text.contains("=== b") && text.contains("1 failed, 0 could not run"), "{text}");
    }

    #[test]
    fn skipped_tests_are_counted_and_named_in_the_summary() {
        let (text, passed) = report(&[
            ("a", || Ok(Outcome::Skipped(vec!["one: no root".into(), "two: no btt".into()]))),
            ("b", || Ok(Outcome::Skipped(Vec::new()))),
        ]);
        let summary = text.split("=== summary").nth(1).unwrap();
        assert!(
            passed && summary.contains("passed   a; 2 skipped\n") && summary.contains("passed   b\n"),
            "{text}"
        );
        assert!(
            summary.contains("skipped in a, ") && summary.contains("\n  one: no root\n  two: no btt\n"),
            "{text}"
        );
        assert!(summary.contains("0 failed, 0 could not run, 2 tests skipped"), "{text}");
    }

    #[test]
    fn a_failures_reason_is_printed_after_its_details_and_the_summary_has_only_the_reason() {
        let (text, _) = report(&[("a", || anyhow::bail!("it ended badly:\nmuch\noutput\n"))]);
        assert!(text.contains("much\noutput\nFAILED: it ended badly\n"), "{text}");
        assert_eq!(text.matches("output").count(), 1, "{text}");
    }

    #[test]
    fn the_results_of_a_lanes_steps_are_passed_on_unchanged() {
        let results = [
            Ok(Outcome::Passed),
            Ok(Outcome::Skipped(vec!["one: no root".into(), "two".into()])),
            Ok(Outcome::NotRun("no QEMU".into())),
            Err("exit 1".into()),
        ];
        for result in results {
            let done = Done { name: "guest: x".into(), result, took: Duration::from_millis(1500) };
            let arrived = Done::from_json(&done.to_json().to_string()).unwrap();
            assert_eq!((arrived.name, arrived.result, arrived.took), (done.name, done.result, done.took));
        }
        assert!(Done::from_json("{\"name\": \"cut").is_none());
    }
}
