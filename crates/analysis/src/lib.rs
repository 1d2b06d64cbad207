//! Explains a run from its recording, on any machine. Nothing here measures or shows anything: the
//! output is typed data.
//!
//! - [`Analysed`] is a run with what its recordings show.
//! - [`slow_calls`] explains the slow calls that a latency test has kept: what delayed each one,
//!   from the kernel's events if they were recorded, else from the kernel's counters.
//! - [`storage`] attributes the time of a storage test's writes to layers, and [`interference`]
//!   does so for both sides of a comparison.
//! - [`compare`] decides whether one set of runs is better or worse than another, or whether the
//!   runs do not show a difference.
//! - [`figures`] lists a run's figures. Each figure is computed in only one place.
//! - [`gate`] compares the figures of a run with limits.
//! - [`refuse_damage`] distinguishes damaged recordings from those in which the kernel lost events.
//!
//! ```
//! use std::path::Path;
//!
//! use roundtrip_analysis::slow_calls::{Kept, explain};
//! use roundtrip_run::Run;
//!
//! // A run over a 6.1 kernel's own driver, with its recording.
//! let directory = Path::new("../../fixtures/runs/x86_64-6.1-binder");
//! let run = Run::read(directory)?;
//! let kept = Kept::of(&run).expect("it kept slow calls");
//!
//! // All slow calls, slowest first.
//! let explained = explain(&kept, directory, |_call| true, None)?;
//! let slowest = explained.first().expect("there were some");
//! assert!(slowest.without_events.is_none(), "it has a recording");
//! let slowest_ns = slowest.call.trip.duration_ns();
//! assert!(explained.iter().all(|call| call.call.trip.duration_ns() <= slowest_ns));
//!
//! // An explanation is a partition of the call's time.
//! let parts_ns: u64 = slowest.explanation.parts.iter().map(|part| part.end_ns - part.begin_ns).sum();
//! assert_eq!(parts_ns, slowest_ns);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysed;
pub mod causes;
pub mod compare;
mod damage;
pub mod doctor;
mod error;
pub mod figures;
pub mod gate;
pub mod interference;
pub mod live;
pub mod live_calls;
pub mod observed_writes;
mod recorded_calls;
pub mod recorded_writes;
pub mod slow_calls;
pub mod storage;
pub mod without;

pub use analysed::Analysed;
pub use damage::{Readable, refuse_damage};
pub use error::{Error, Result};
