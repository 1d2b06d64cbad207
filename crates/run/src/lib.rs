//! A run as data: what was to be measured (plans), on what machine (the environment), what came of
//! it (results), what a reader must know (warnings), and the directory that keeps all of it.
//! Nothing here measures, prints or reads arguments.
//!
//! Whoever measures makes plans into results and stores a [`Run`]; whoever explains or shows reads
//! one, on any machine:
//!
//! - a plan is a value with defaults, and `check` refuses what no machine can carry out, with what
//!   there is instead: [`ipc::latency::LatencyPlan`], [`ipc::throughput::ThroughputPlan`],
//!   [`storage::StoragePlan`] and their siblings;
//! - a result stands beside its plan, and its parts can be merged: [`ipc::latency::LatencyResult`]
//!   and its siblings;
//! - [`Results`] holds those of a run, and [`Run`] the results with their
//!   [`environment::Environment`] and warnings;
//! - [`Run::write`] and [`Run::read`] keep a run in a directory, in one versioned JSON file that is
//!   written whole or not at all; [`Run::merge`] adds the calls of another run of the same plan.
//!
//! A further test adds its plan and result as a module here, and a field to [`Results`].
//!
//! ```
//! use run::ipc::latency::LatencyPlan;
//! use run::ipc::traits::{TraitsPlan, TraitsResult};
//! use run::ipc::{Backend, Profile};
//! use run::{Results, Run};
//!
//! // A plan that cannot be carried out says what is possible.
//! let plan = LatencyPlan { pairs: 1000, ..LatencyPlan::default() };
//! assert_eq!(plan.check().unwrap_err().to_string(), "1 to 256 pairs are possible, not 1000");
//!
//! // A run is stored in a directory, and read back on any machine.
//! let backend = Backend::Emulated { profile: Profile::Ack };
//! let result = TraitsResult { plan: TraitsPlan::default(), backend, rows: vec![] };
//! let run = Run::new(Default::default(), Results::from(result), None);
//! let directory = std::env::temp_dir().join(format!("a-run-{}", std::process::id()));
//! run.write(&directory)?;
//! assert_eq!(Run::read(&directory)?, run);
//! # std::fs::remove_dir_all(&directory).unwrap();
//! # Ok::<(), run::Error>(())
//! ```

pub mod baseline;
mod counters;
pub mod cpus;
mod directory;
pub mod environment;
mod error;
pub mod injection;
pub mod ipc;
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

pub use counters::ThreadCounters;
pub use cpus::CpuPlacement;
pub use directory::{FILE_NAME, FILES, INJECTED, Partial, RECORDING, Run, SAMPLES};
pub use error::{Error, MergeFault, Result};
pub use label_fault::{LONGEST_KEY, LONGEST_VALUE, LabelFault, MOST_LABELS};
pub use labels::Labels;
pub use load::Load;
pub use plan_fault::{Counted, PlanFault, TextFault, Unknown};
pub use recorder::{DEFAULT_KILOBYTES, RecorderInfo};
pub use results::Results;
pub use scheduling::{RealtimePermission, Scheduling};
