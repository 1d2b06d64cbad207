//! The errors of this crate: what can be wrong with its input data. Knows no files and no
//! processes.

/// Why data was rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The length of a frame is not a multiple of an encoded sample's.
    #[error("sample frame of {bytes} bytes is not a multiple of {sample} bytes: the frame was cut short")]
    SampleFrame {
        /// Length of the frame, in bytes.
        bytes: usize,
        /// Length of one encoded sample, in bytes.
        sample: usize,
    },
    /// This version cannot read the form of a stored histogram.
    #[error(
        "stored histogram: {field} is {found}, this version reads {expected}; use the version that wrote it"
    )]
    HistogramForm {
        /// The field that differs.
        field: &'static str,
        /// The field's value in the stored form.
        found: String,
        /// The value that this version expects.
        expected: String,
    },
    /// A stored histogram is inconsistent.
    #[error("stored histogram contradicts itself: {0}")]
    HistogramContent(&'static str),
    /// A stored timeline is inconsistent.
    #[error("stored timeline contradicts itself: {0}")]
    TimelineContent(&'static str),
    /// The name of an unknown scheduling policy.
    #[error("unknown scheduling policy '{0}': expected a name like SCHED_FIFO")]
    PolicyName(String),
    /// The two series of a comparison have different lengths.
    #[error("comparison: the subject has {subject} rounds and the baseline {baseline}")]
    Rounds {
        /// The number of rounds of the subject.
        subject: usize,
        /// The number of rounds of the baseline.
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
