//! The result of a step that did not fail.

/// The result of a step that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was completed.
    Passed,
    /// It was completed, except for these tests, which could not run here: names and reasons. May
    /// be empty.
    Skipped(Vec<String>),
    /// It could not run: why. Shown prominently, so that silence is not taken for success.
    NotRun(String),
    /// Some of its parts, or all, were left out, because they passed before with the same inputs.
    Unchanged {
        /// How many were left out.
        parts: usize,
        of: usize,
        /// Tests of all parts that could not run here: names and reasons.
        skipped: Vec<String>,
    },
}
