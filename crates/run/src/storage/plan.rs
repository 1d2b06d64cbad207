//! The plan of a storage measurement, and the check whether it is possible. Must not carry out
//! anything.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::java::Java;
use super::mode::{Api, Durability, Position};
use crate::error::Result;
use crate::plan_fault::PlanFault;
use crate::scheduling::Scheduling;

/// The prefix of a test file's default name, before the process id and the time.
pub const OWN_PREFIX: &str = "roundtrip-";

/// The suffix of a test file's default name.
pub const OWN_SUFFIX: &str = ".test";

/// How many events to record during writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteEvents {
    /// Only system calls, requests, context switches, wakeups, and devices' interrupts.
    Least,
    /// All events that separate layers.
    #[default]
    Usual,
    /// In addition, events that help to investigate a cause.
    Diagnosis,
}

/// The maximum size of a write, in bytes.
pub const MAX_SIZE_BYTES: u64 = 64 << 20;

/// The maximum number of calls of each size and writer.
pub const MAX_CALLS: u32 = 1_000_000;

/// A storage measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoragePlan {
    /// The file to write to. It is created, and removed afterwards.
    pub file: PathBuf,
    /// The length of a file that is overwritten, in bytes.
    pub file_bytes: u64,
    /// Bytes per call. Each size makes one series.
    pub sizes_bytes: Vec<u64>,
    /// The APIs. Each combination of an API with a durability makes one writer.
    pub apis: Vec<Api>,
    /// Whether all APIs are required. Otherwise those that the machine lacks are reported and left
    /// out. Not stored.
    #[serde(skip)]
    pub all_apis: bool,
    /// How writes are made durable.
    pub durabilities: Vec<Durability>,
    /// Where in the file to write.
    pub position: Position,
    /// Timed calls of each writer and size, over all rounds.
    pub calls: u32,
    /// The number of rounds. Each round runs every writer and size, in shuffled order, so that
    /// drift of the machine affects all alike.
    pub rounds: u32,
    /// The number of untimed calls before each block. A Java virtual machine compiles code only
    /// after it was executed often.
    pub warm_up: u32,
    /// How the writing thread is scheduled; `None` means like this process.
    pub scheduling: Option<Scheduling>,
    /// The allowed CPUs; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// The Java to run.
    pub java: Java,
    /// The new folder for recordings of kernel events; `None` if calls are only timed.
    pub record: Option<PathBuf>,
    /// The size of each CPU's trace buffer, in kilobytes. It must hold a block's events.
    pub buffer_kilobytes: u64,
    /// Which kernel events to record.
    pub events: WriteEvents,
    /// Whether to also make the same calls under `strace`, in separate blocks.
    pub strace: bool,
}

impl Default for StoragePlan {
    fn default() -> Self {
        Self {
            file: own_name(),
            file_bytes: 16 << 20,
            sizes_bytes: vec![4 << 10, 16 << 10, 64 << 10, 256 << 10],
            apis: vec![Api::Native, Api::JavaFile],
            all_apis: false,
            durabilities: vec![Durability::Dsync],
            position: Position::Overwrite,
            calls: 100,
            rounds: 5,
            warm_up: 20,
            scheduling: None,
            cpus: None,
            java: Java::default(),
            record: None,
            buffer_kilobytes: 8192,
            events: WriteEvents::Usual,
            strace: false,
        }
    }
}

impl StoragePlan {
    /// Rejects a plan that no machine can carry out.
    ///
    /// # Errors
    /// [`crate::Error::Plan`] if the plan is invalid. The error gives the reason.
    pub fn check(&self) -> Result<()> {
        if self.sizes_bytes.is_empty() || self.apis.is_empty() || self.durabilities.is_empty() {
            return Err(PlanFault::EmptyStorage.into());
        }
        for &size in &self.sizes_bytes {
            if !(1..=MAX_SIZE_BYTES).contains(&size) {
                return Err(PlanFault::Write { bytes: size, most: MAX_SIZE_BYTES }.into());
            }
            if self.position == Position::Overwrite && size > self.file_bytes {
                return Err(PlanFault::WriteBeyondFile { bytes: size, file_bytes: self.file_bytes }.into());
            }
        }
        if self.rounds == 0 || !(self.rounds..=MAX_CALLS).contains(&self.calls) {
            let (calls, rounds) = (self.calls, self.rounds);
            return Err(PlanFault::CallsPerRound { calls, rounds, most: MAX_CALLS }.into());
        }
        Ok(())
    }

    /// The number of timed calls in a round, counted from 0. The calls are distributed evenly.
    #[must_use]
    pub fn calls_in(&self, round: u32) -> u32 {
        self.calls / self.rounds + u32::from(round < self.calls % self.rounds)
    }
}

/// The default name of a test file. It contains the time because process ids are not unique among
/// containers that share a directory.
fn own_name() -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{OWN_PREFIX}{}-{}{OWN_SUFFIX}", std::process::id(), since.as_nanos()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_plans_are_refused_with_the_reason() {
        let plan = StoragePlan::default;
        assert!(plan().check().is_ok());
        for (plan, reason) in [
            (StoragePlan { sizes_bytes: vec![], ..plan() }, "nothing to measure"),
            (StoragePlan { sizes_bytes: vec![0], ..plan() }, "0 bytes is not possible"),
            (StoragePlan { sizes_bytes: vec![32 << 20], ..plan() }, "--file-size"),
            (StoragePlan { calls: 3, ..plan() }, "divided among 5 rounds"),
            (StoragePlan { rounds: 0, ..plan() }, "divided among 0 rounds"),
        ] {
            let error = plan.check().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn calls_are_divided_without_losing_one() {
        let plan = StoragePlan { calls: 13, rounds: 5, ..StoragePlan::default() };
        assert_eq!((0..5).map(|round| plan.calls_in(round)).collect::<Vec<_>>(), [3, 3, 3, 2, 2]);
    }
}
