//! How a step that did not fail ended.

/// How a step that did not fail ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did its work.
    Passed,
    /// It did its work, but for these tests, which found nothing to test here: names and reasons.
    /// May be empty.
    Skipped(Vec<String>),
    /// It could not: why. Shown loudly, so that nobody takes silence for success.
    NotRun(String),
}
