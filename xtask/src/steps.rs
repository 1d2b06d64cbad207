//! Runs named steps in order, times them, and says at the end what passed, what failed and what
//! could not run.

use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::shell::say;

/// A step's name and its work.
pub(crate) type Step = (&'static str, fn() -> anyhow::Result<Outcome>);

/// Runs every step, also behind one that failed, and reports. True if none failed.
pub(crate) fn run(steps: &[Step]) -> bool {
    run_and_tell(steps, say)
}

fn run_and_tell(steps: &[Step], say: impl Fn(&str)) -> bool {
    let mut results = Vec::new();
    for (name, work) in steps {
        say(&format!("\n=== {name}"));
        let start = Instant::now();
        let result = work();
        if let Err(error) = &result {
            // The reason stands below what it was drawn from, where a reader of a long log finds
            // it.
            let (reason, details) = reason_and_details(error);
            if !details.is_empty() {
                say(&details);
            }
            say(&format!("FAILED: {reason}"));
        }
        results.push((*name, result, start.elapsed()));
    }
    say("\n=== summary");
    for (name, result, took) in &results {
        say(&line(name, result, *took));
    }
    for (name, tests) in results.iter().filter_map(|(name, result, _)| Some((name, skipped(result)?))) {
        say(&format!("\nskipped in {name}, for want of what this machine does not offer:"));
        tests.iter().for_each(|test| say(&format!("  {test}")));
    }
    let tests: usize = results.iter().filter_map(|(_, result, _)| skipped(result)).map(<[_]>::len).sum();
    let failed = results.iter().filter(|(_, result, _)| result.is_err()).count();
    let not_run = results.iter().filter(|(_, result, _)| matches!(result, Ok(Outcome::NotRun(_)))).count();
    let total = seconds(results.iter().map(|(.., took)| *took).sum());
    say(&format!("{total}  in total; {failed} failed, {not_run} could not run, {tests} tests skipped"));
    failed == 0
}

/// The tests that a step skipped, if it did skip any.
fn skipped(result: &anyhow::Result<Outcome>) -> Option<&[String]> {
    match result {
        Ok(Outcome::Skipped(tests)) if !tests.is_empty() => Some(tests),
        _ => None,
    }
}

fn line(name: &str, result: &anyhow::Result<Outcome>, took: Duration) -> String {
    let took = seconds(took);
    match result {
        Ok(Outcome::Skipped(tests)) if !tests.is_empty() => {
            format!("{took}  passed   {name}; {} skipped", tests.len())
        }
        Ok(Outcome::Passed | Outcome::Skipped(_)) => format!("{took}  passed   {name}"),
        Ok(Outcome::NotRun(why)) => format!("{took}  NOT RUN  {name}: {why}"),
        Err(error) => format!("{took}  FAILED   {name}: {}", reason_and_details(error).0),
    }
}

/// An error's first line, and what follows it: a program's whole output, at times.
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
    fn a_step_that_could_not_run_is_told_from_one_that_passed_and_one_that_failed() {
        assert_eq!(line("x", &Ok(Outcome::Passed), Duration::from_millis(1250)), "    1.2 s  passed   x");
        let not_run = Ok(Outcome::NotRun("no nightly".into()));
        assert!(line("x", &not_run, Duration::ZERO).contains("NOT RUN  x: no nightly"));
        assert!(line("x", &Err(anyhow::anyhow!("exit 1")), Duration::ZERO).contains("FAILED   x: exit 1"));
    }

    /// What is told of these steps, and whether all passed. Kept from the terminal: a log that said
    /// FAILED here would mislead its readers.
    fn told(steps: &[Step]) -> (String, bool) {
        let told = RefCell::new(String::new());
        let passed = run_and_tell(steps, |line| told.borrow_mut().extend([line, "\n"]));
        (told.into_inner(), passed)
    }

    #[test]
    fn one_failure_fails_the_run_and_the_rest_still_runs() {
        let (text, passed) =
            told(&[("a", || Ok(Outcome::Passed)), ("b", || Ok(Outcome::NotRun("why".into())))]);
        assert!(passed && text.contains("0 failed, 1 could not run, 0 tests skipped"), "{text}");
        let (text, passed) = told(&[("a", || anyhow::bail!("no")), ("b", || Ok(Outcome::Passed))]);
        assert!(!passed && text.contains("=== b") && text.contains("1 failed, 0 could not run"), "{text}");
    }

    #[test]
    fn skipped_tests_are_counted_and_named_in_the_summary() {
        let (text, passed) = told(&[
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
    fn a_failures_reason_stands_below_its_details_and_alone_in_the_summary() {
        let (text, _) = told(&[("a", || anyhow::bail!("it ended badly:\nmuch\noutput\n"))]);
        assert!(text.contains("much\noutput\nFAILED: it ended badly\n"), "{text}");
        assert_eq!(text.matches("output").count(), 1, "{text}");
    }
}
