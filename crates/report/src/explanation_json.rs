//! Explanations as JSON: one object, versioned, with every part of every slow call, and how many are not kept. Pure: explanations in, text out.

use layers::Explanation;
use run::ipc::latency::LatencyResult;
use serde::Serialize;

use crate::Error;
use analysis::slow_calls::Explained;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    /// Slow calls that are not among these: there were more than the limit.
    over_limit: u64,
    /// The same: they were made before there were others to compare them with.
    before_comparison: u64,
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
pub fn json(explained: &[Explained<'_>], of: &LatencyResult) -> Result<String, Error> {
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
    let kept = of.explained.as_ref();
    let document = Document {
        schema: "roundtrip.explanation",
        version: 1,
        over_limit: kept.map_or(0, |kept| kept.over_limit),
        before_comparison: kept.map_or(0, |kept| kept.before_comparison),
        slow_calls: slow_calls.collect(),
    };
    Ok(stored::to_text(&document)? + "\n")
}
