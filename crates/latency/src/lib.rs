//! What one round trip took, and what many took together.
//!
//! Pure data: samples, histograms, deadlines, summaries and comparisons of durations. This crate reads no
//! clock, makes no system call and does no I/O; every instant it holds is a number of CLOCK_BOOTTIME
//! nanoseconds that somebody else read. Everything that is stored has a serde form.

mod comparison;
mod deadline;
mod error;
mod histogram;
mod policy;
mod sample;
mod summary;
pub mod two_samples;

pub use comparison::{Comparison, Interval, median_interval, quantile};
pub use deadline::{Deadline, DeadlineCount};
pub use error::Error;
pub use histogram::{Histogram, PERCENTS, Percentile};
pub use policy::{Policy, PolicyClass};
pub use sample::{Legs, Placement, Sample};
pub use summary::{Summary, resolvable};
