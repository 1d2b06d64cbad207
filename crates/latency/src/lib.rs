//! Durations of round trips, as plain data: samples, histograms, deadlines and comparisons.
//!
//! This crate reads no clock, makes no system call and does no I/O. All instants are CLOCK_BOOTTIME
//! nanoseconds that the caller read. All stored types implement serde's traits.
//!
//! # Example
//!
//! ```
//! use roundtrip_latency::{Deadline, Histogram, Sample};
//!
//! let mut histogram = Histogram::new();
//! let mut within = Deadline { ns: 2_000_000 }.counter();
//! for latency_ns in [21_000, 24_000, 23_000, 5_100_000] {
//!     let sample = Sample { start_ns: 1_000, end_ns: 1_000 + latency_ns, ..Sample::default() };
//!     histogram.record(sample.latency_ns());
//!     within.record(sample.latency_ns());
//! }
//! assert_eq!((histogram.count(), histogram.max_ns()), (4, Some(5_100_000)));
//! assert_eq!((within.missed, within.meet_ratio()), (1, Some(0.75)));
//! // Percentiles are within the error that the histogram states.
//! let median_ns = histogram.percentile_ns(50.0).expect("durations");
//! assert!(median_ns.abs_diff(23_000) <= 23_000 / 100);
//! ```

mod comparison;
pub mod counts;
mod deadline;
mod error;
mod histogram;
mod policy;
mod sample;
mod timeline;
pub mod two_samples;

pub use comparison::{Comparison, Interval, median_interval, quantile};
pub use deadline::{Deadline, DeadlineCount};
pub use error::Error;
pub use histogram::{Histogram, PERCENTS, Percentile, resolvable};
pub use policy::{Policy, PolicyClass};
pub use sample::{Legs, Placement, Sample};
pub use timeline::{Bin, Timeline};

/// The half width of the interval that contains 95% of a normal distribution, in standard
/// deviations.
pub const Z_95: f64 = 1.959_964;
