//! Explanations as JSON: one object, versioned, with every part of every slow call. Pure: explanations in, text out.

use layers::Explanation;
use serde::Serialize;

use crate::explained::Explained;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    slow_calls: Vec<SlowCall<'a>>,
}

#[derive(Serialize)]
struct SlowCall<'a> {
    number: usize,
    what: &'a str,
    latency_ns: u64,
    deadline_ns: u64,
    usual_ns: Option<u64>,
    snapshot: Option<u32>,
    without_events: Option<&'a str>,
    explanation: &'a Explanation,
}

/// One line.
///
/// # Errors
/// When it cannot be written as JSON.
pub(crate) fn json(explained: &[Explained<'_>]) -> anyhow::Result<String> {
    let slow_calls = explained.iter().map(|one| SlowCall {
        number: one.number,
        what: &one.what,
        latency_ns: one.explanation.duration_ns(),
        deadline_ns: one.deadline_ns,
        usual_ns: one.usual_ns,
        snapshot: one.miss.snapshot,
        without_events: one.without_events.as_deref(),
        explanation: &one.explanation,
    });
    let document = Document { schema: "roundtrip.explanation", version: 1, slow_calls: slow_calls.collect() };
    Ok(serde_json::to_string(&document)? + "\n")
}
