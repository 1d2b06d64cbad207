//! Runs steps in order and lanes beside them, and reports at the end what passed, what failed and
//! what could not run.

use std::time::{Duration, Instant};

use crate::lanes::{Lane, Running};
use crate::outcome::Outcome;
use crate::shell::say;
use crate::step::{Done, Step, carry_out};

/// Runs every step, even after a failure, and reports. True if none failed.
pub(crate) fn run(steps: &[Step]) -> bool {
    let start = Instant::now();
    summarise(&carry_out(steps, say), start, say)
}

/// Steps in order, and at the same time those of lanes.
pub(crate) struct Phase<'a> {
    pub(crate) steps: &'a [Step],
    pub(crate) beside: &'a [&'a Lane],
}

/// Runs one phase after the other, even after a failure, and reports, with further lines on where
/// the time went. True if no step failed.
pub(crate) fn run_phases(phases: &[Phase<'_>], times: impl Fn() -> Vec<String>) -> bool {
    let start = Instant::now();
    let mut results = Vec::new();
    for phase in phases {
        let lanes: Vec<_> = phase.beside.iter().map(|lane| (lane.name, Running::start(lane))).collect();
        results.extend(carry_out(phase.steps, say));
        for (name, lane) in lanes {
            results.extend(lane.map_or_else(|error| vec![Done::failed(name, &error)], Running::end));
        }
    }
    slowest(&results).iter().chain(&times()).for_each(|line| say(line));
    summarise(&results, start, say)
}

fn summarise(results: &[Done], start: Instant, say: impl Fn(&str)) -> bool {
    say("\n=== summary");
    // Failed steps last, where the end of a long log shows them.
    let (failed, others): (Vec<&Done>, Vec<&Done>) = results.iter().partition(|one| one.result.is_err());
    others.iter().chain(&failed).for_each(|one| say(&line(one)));
    for (name, tests) in results.iter().filter_map(|one| Some((&one.name, skipped(one)?))) {
        say(&format!("\nskipped in {name}, because this machine lacks something:"));
        tests.iter().for_each(|test| say(&format!("  {test}")));
    }
    let tests: usize = results.iter().filter_map(skipped).map(<[_]>::len).sum();
    let failed = failed.len();
    let not_run = results.iter().filter(|one| matches!(one.result, Ok(Outcome::NotRun(_)))).count();
    let unchanged = results.iter().filter(|one| matches!(one.result, Ok(Outcome::Unchanged { .. }))).count();
    let total = seconds(start.elapsed());
    say(&format!("{total}  in total; {failed} failed, {not_run} could not run, {tests} tests skipped"));
    if unchanged > 0 {
        say(&format!(
            "{unchanged} steps, or parts of them, were left out: they passed before with the same inputs; \
             cargo xtask test --anew runs everything"
        ));
    }
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
        Ok(Outcome::Skipped(tests) | Outcome::Unchanged { skipped: tests, .. }) if !tests.is_empty() => {
            Some(tests)
        }
        _ => None,
    }
}

/// Wall and CPU time, the result, and what was left out.
fn line(done: &Done) -> String {
    let Done { name, result, took, cpu_s } = done;
    let times = format!("{}  {cpu_s:>6.1} s CPU", seconds(*took));
    match result {
        Ok(outcome) => {
            let word = if matches!(outcome, Outcome::NotRun(_)) { "NOT RUN" } else { "passed " };
            let mut line = format!("{times}  {word}  {name}");
            match outcome {
                Outcome::NotRun(why) => line += &format!(": {why}"),
                Outcome::Unchanged { parts: 1, of: 1, .. } => line += "; before, with the same inputs",
                Outcome::Unchanged { parts, of, .. } => {
                    line += &format!("; {parts} of {of} parts before, with the same inputs");
                }
                Outcome::Passed | Outcome::Skipped(_) => {}
            }
            if let Some(tests) = skipped(done) {
                line += &format!("; {} skipped", tests.len());
            }
            line
        }
        Err(reason) => format!("{times}  FAILED   {name}: {reason}"),
    }
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
        let shown =
            |result| line(&Done { name: "x".into(), result, took: Duration::from_millis(1250), cpu_s: 2.0 });
        assert_eq!(shown(Ok(Outcome::Passed)), "    1.2 s     2.0 s CPU  passed   x");
        let unchanged = |parts, of| Ok(Outcome::Unchanged { parts, of, skipped: vec!["a: no root".into()] });
        assert!(shown(unchanged(1, 1)).ends_with("passed   x; before, with the same inputs; 1 skipped"));
        assert!(shown(unchanged(2, 3)).contains("x; 2 of 3 parts before, with the same inputs"));
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
            cpu_s: 0.0,
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
        // The failed step is listed last.
        let at = |part| text.find(part).unwrap();
        assert!(at("FAILED   a: no") > at("passed   b"), "{text}");
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
    fn a_failures_reason_follows_its_details_and_is_all_of_the_summary() {
        let (text, _) = report(&[("a", || anyhow::bail!("it ended badly:\nmuch\noutput\n"))]);
        assert!(text.contains("much\noutput\nFAILED: it ended badly\n"), "{text}");
        assert_eq!(text.matches("output").count(), 1, "{text}");
    }
}
