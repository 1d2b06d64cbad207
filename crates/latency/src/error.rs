//! Everything that can be wrong with data that this crate is handed. Knows no files and no
//! processes.

/// Why data was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A frame of encoded samples does not hold a whole number of them.
    #[error("sample frame of {bytes} bytes is not a multiple of {sample} bytes: the frame was cut short")]
    SampleFrame {
        /// Length of the frame, in bytes.
        bytes: usize,
        /// Length of one encoded sample, in bytes.
        sample: usize,
    },
    /// A stored histogram has a form that this version does not read.
    #[error(
        "stored histogram: {field} is {found}, this version reads {expected}; use the version that wrote it"
    )]
    HistogramForm {
        /// The field that differs.
        field: &'static str,
        /// What the stored form says.
        found: String,
        /// What this version reads.
        expected: String,
    },
    /// A stored histogram contradicts itself.
    #[error("stored histogram contradicts itself: {0}")]
    HistogramContent(&'static str),
    /// A stored timeline contradicts itself.
    #[error("stored timeline contradicts itself: {0}")]
    TimelineContent(&'static str),
    /// A policy's name is not one that this crate writes.
    #[error("unknown scheduling policy '{0}': expected a name like SCHED_FIFO")]
    PolicyName(String),
    /// Two series that should be compared round by round have different lengths.
    #[error("comparison: the subject has {subject} rounds and the baseline {baseline}")]
    Rounds {
        /// Rounds of the series that is judged.
        subject: usize,
        /// Rounds of the series that it is judged against.
        baseline: usize,
    },
    /// There is nothing to compare.
    #[error("comparison: no rounds were measured")]
    NoRounds,
    /// A ratio needs positive, finite durations.
    #[error("comparison: round {round} took {value_ns} ns, a ratio needs a positive, finite duration")]
    NotPositive {
        /// Index of the round, from 0.
        round: usize,
        /// The offending duration in nanoseconds.
        value_ns: f64,
    },
}
