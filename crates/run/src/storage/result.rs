//! What came of a storage measurement. Must not know how it was measured, nor how a call's time is
//! divided.

use latency::Histogram;
use serde::{Deserialize, Serialize};

use super::mode::{Api, Durability};
use super::path::StoragePath;
use super::plan::StoragePlan;
use crate::recorder::RecorderInfo;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageResult {
    /// What was asked for.
    pub plan: StoragePlan,
    /// Where the writes went.
    pub path: StoragePath,
    /// What a reading of the clock costs, in nanoseconds; each call contains about one.
    pub clock_read_cost_ns: f64,
    /// Who wrote, in the order of the plan.
    pub writers: Vec<WriterResult>,
    /// One for each writer and size.
    pub series: Vec<StorageSeries>,
    /// What the kernel's events were recorded with; `None` where they were not.
    pub recorder: Option<RecorderInfo>,
    /// Why not everything was recorded that was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording_ended: Option<String>,
    /// What this machine could not do.
    pub not_possible: Vec<String>,
    /// What else is to be said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterResult {
    /// Through what it wrote.
    pub api: Api,
    /// How it made writes durable.
    pub durability: Durability,
    /// Its threads and its virtual machine.
    pub opened: Opened,
}

/// A writer's calls of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageSeries {
    /// The writer, by its place in [`StorageResult::writers`].
    pub writer: usize,
    /// How much each call wrote, in bytes.
    pub size_bytes: u64,
    /// How long the application waited for each call.
    pub latency: Histogram,
    /// The calls, round by round.
    pub blocks: Vec<BlockResult>,
    /// As many calls under `strace`, round by round, if the plan asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strace: Vec<StraceBlock>,
}

/// What came of one block under `strace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StraceBlock {
    /// Its calls, in their order.
    pub calls: Vec<Call>,
    /// How long the system calls of each took by what `strace -T` says, in nanoseconds; `None`
    /// where it shows none.
    pub system_ns: Vec<Option<u64>>,
}

/// What came of one block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockResult {
    /// Its calls, in their order.
    pub calls: Vec<Call>,
    /// The snapshot of the recording that holds what the kernel did meanwhile.
    pub snapshot: Option<u32>,
}

/// One timed call, in nanoseconds of CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Just before it.
    pub start_ns: u64,
    /// Just after it.
    pub end_ns: u64,
}

impl Call {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// What a writer says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The process that the writing thread belongs to: a Java writer's is not the worker.
    pub pid: u32,
    /// The writing thread.
    pub tid: u32,
    /// The virtual machine's name and version.
    pub runtime: Option<String>,
}
