//! A run as data: plans, the environment, results, warnings, and the directory that stores all of
//! them. Nothing here measures, prints or reads arguments.
//!
//! Measuring turns plans into results and stores a [`Run`]. Explaining and showing read a stored
//! run, on any machine:
//!
//! - A plan is a value with defaults. Its `check` rejects a plan that no machine can carry out, and
//!   says what is possible instead: [`ipc::latency::LatencyPlan`],
//!   [`ipc::throughput::ThroughputPlan`], [`storage::StoragePlan`] and others.
//! - A result contains its plan, and its parts can be merged: [`ipc::latency::LatencyResult`] and
//!   others.
//! - [`Results`] contains the results of a run, and [`Run`] adds their [`environment::Environment`]
//!   and warnings.
//! - [`Run::write`] and [`Run::read`] store a run in a directory, in one versioned JSON file that
//!   is written completely or not at all. [`Run::merge`] adds the calls of another run of the same
//!   plan.
//!
//! [`TESTS`] describes each test once, and [`Tested`] is what its result can do: its groups of
//! calls with their [`figures`], what identifies its plan, how it merges. A new test adds its plan
//! and result as a module, a file in `kinds`, and a line to the list in `results.rs`.
//!
//! ```
//! use roundtrip_run::ipc::latency::LatencyPlan;
//! use roundtrip_run::ipc::traits::{TraitsPlan, TraitsResult};
//! use roundtrip_run::ipc::{Backend, Profile};
//! use roundtrip_run::{Results, Run};
//!
//! // An invalid plan says what is possible.
//! let plan = LatencyPlan { pairs: 1000, ..LatencyPlan::default() };
//! assert_eq!(plan.check().unwrap_err().to_string(), "1 to 256 pairs are possible, not 1000");
//!
//! // A run is stored in a directory, and can be read on any machine.
//! let backend = Backend::Emulated { profile: Profile::Ack };
//! let result = TraitsResult { plan: TraitsPlan::default(), backend, rows: vec![] };
//! let run = Run::new(Default::default(), Results::from(result), None);
//! let directory = std::env::temp_dir().join(format!("a-run-{}", std::process::id()));
//! run.write(&directory)?;
//! assert_eq!(Run::read(&directory)?, run);
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok::<(), roundtrip_run::Error>(())
//! ```

pub mod baseline;
mod causes;
mod counters;
pub mod cpus;
mod directory;
pub mod environment;
mod error;
pub mod figures;
pub mod heaviest;
pub mod injection;
pub mod ipc;
mod kinds;
mod label_fault;
mod labels;
mod load;
mod merge;
pub mod observe;
mod plan_fault;
mod recorder;
mod results;
mod scheduling;
pub mod storage;
pub mod survey;
mod test;

pub use causes::{Cause, Causes, OverTime, Timed, Without};
pub use counters::ThreadCounters;
pub use cpus::CpuPlacement;
pub use directory::{FILE_NAME, FILES, INJECTED, Partial, RECORDING, Run, SAMPLES};
pub use error::{Error, MergeFault, Result};
pub use label_fault::{LONGEST_KEY, LONGEST_VALUE, LabelFault, MOST_LABELS};
pub use labels::Labels;
pub use load::Load;
pub use plan_fault::{Counted, PlanFault, TextFault, Unknown};
pub use recorder::{DEFAULT_KILOBYTES, RecorderInfo};
pub use results::{NAMES, Results, TESTS};
pub use roundtrip_vocabulary::OTHERS;
pub use scheduling::{RealtimePermission, Scheduling};
pub use test::{Recording, TIMES, Test, Tested};
