//! A named step and its timed result, which a lane passes on as JSON. Knows no step's work.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::shell::children_cpu_s;

/// A step's name and its work.
pub(crate) type Step = (&'static str, fn() -> anyhow::Result<Outcome>);

/// The result of a step.
pub(crate) struct Done {
    pub(crate) name: String,
    /// A failure's reason is one line.
    pub(crate) result: std::result::Result<Outcome, String>,
    pub(crate) took: Duration,
    /// The CPU time of the programs that it ran, in seconds.
    pub(crate) cpu_s: f64,
}

impl Done {
    pub(crate) fn failed(name: &str, error: &anyhow::Error) -> Self {
        let result = Err(reason_and_details(error).0);
        Self { name: name.to_owned(), result, took: Duration::ZERO, cpu_s: 0.0 }
    }

    pub(crate) fn to_json(&self) -> Value {
        let (outcome, details) = match &self.result {
            Ok(Outcome::Passed) => ("passed", Vec::new()),
            Ok(Outcome::Skipped(tests)) => ("skipped", tests.clone()),
            Ok(Outcome::NotRun(why)) => ("not run", vec![why.clone()]),
            Ok(Outcome::Unchanged { skipped, .. }) => ("unchanged", skipped.clone()),
            Err(reason) => ("failed", vec![reason.clone()]),
        };
        let (parts, of) = match self.result {
            Ok(Outcome::Unchanged { parts, of, .. }) => (parts, of),
            _ => (0, 0),
        };
        json!({
            "name": self.name,
            "parts": [parts, of],
            "outcome": outcome,
            "details": details,
            "seconds": self.took.as_secs_f64(),
            "cpu_s": self.cpu_s
        })
    }

    pub(crate) fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let details = value["details"].as_array()?.iter().filter_map(|text| text.as_str().map(str::to_owned));
        let details: Vec<String> = details.collect();
        let first = || details.first().cloned().unwrap_or_default();
        let result = match value["outcome"].as_str()? {
            "passed" => Ok(Outcome::Passed),
            "skipped" => Ok(Outcome::Skipped(details)),
            "not run" => Ok(Outcome::NotRun(first())),
            "unchanged" => {
                let part = |at: usize| usize::try_from(value["parts"][at].as_u64()?).ok();
                Ok(Outcome::Unchanged { parts: part(0)?, of: part(1)?, skipped: details })
            }
            _ => Err(first()),
        };
        let took = Duration::try_from_secs_f64(value["seconds"].as_f64()?).ok()?;
        let cpu_s = value["cpu_s"].as_f64()?;
        Some(Self { name: value["name"].as_str()?.to_owned(), result, took, cpu_s })
    }
}

/// Carries out steps, even after a failure, and says what it does.
pub(crate) fn carry_out(steps: &[Step], say: impl Fn(&str)) -> Vec<Done> {
    let mut results = Vec::new();
    for (name, work) in steps {
        say(&format!("\n=== {name}"));
        let (start, spent_s) = (Instant::now(), children_cpu_s().unwrap_or(0.0));
        let result = work().map_err(|error| {
            // The reason comes last, where it is easy to find in a long log.
            let (reason, details) = reason_and_details(&error);
            if !details.is_empty() {
                say(&details);
            }
            say(&format!("FAILED: {reason}"));
            reason
        });
        let cpu_s = children_cpu_s().unwrap_or(0.0) - spent_s;
        results.push(Done { name: (*name).to_owned(), result, took: start.elapsed(), cpu_s });
    }
    results
}

/// An error's first line, and the rest, which may be a program's whole output.
fn reason_and_details(error: &anyhow::Error) -> (String, String) {
    let text = format!("{error:#}");
    let (reason, details) = text.split_once('\n').unwrap_or((&text, ""));
    (reason.trim_end_matches(':').to_owned(), details.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_a_lanes_steps_are_passed_on_unchanged() {
        let results = [
            Ok(Outcome::Passed),
            Ok(Outcome::Skipped(vec!["one: no root".into(), "two".into()])),
            Ok(Outcome::NotRun("no QEMU".into())),
            Ok(Outcome::Unchanged { parts: 2, of: 3, skipped: vec!["a: b".into()] }),
            Err("exit 1".into()),
        ];
        for result in results {
            let took = Duration::from_millis(1500);
            let done = Done { name: "guest: x".into(), result, took, cpu_s: 0.25 };
            let arrived = Done::from_json(&done.to_json().to_string()).unwrap();
            assert_eq!((arrived.name, arrived.result), (done.name, done.result));
            assert_eq!((arrived.took, arrived.cpu_s), (done.took, done.cpu_s));
        }
        assert!(Done::from_json("{\"name\": \"cut").is_none());
    }
}
