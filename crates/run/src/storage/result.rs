//! The result of a storage measurement. Must not know how it was measured, nor how a call's time is
//! divided.

use roundtrip_latency::Histogram;
use serde::{Deserialize, Serialize};

use super::mode::{Api, Durability};
use super::path::StoragePath;
use super::plan::StoragePlan;
use crate::recorder::RecorderInfo;

/// The measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageResult {
    /// The plan.
    pub plan: StoragePlan,
    /// Where the writes went.
    pub path: StoragePath,
    /// The cost of one clock reading, in nanoseconds. Each call includes about one.
    pub clock_read_cost_ns: f64,
    /// The writers, in the order of the plan.
    pub writers: Vec<WriterResult>,
    /// One series for each writer and size.
    pub series: Vec<StorageSeries>,
    /// The settings of the recording; `None` if nothing was recorded.
    pub recorder: Option<RecorderInfo>,
    /// Why the recording is incomplete, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording_ended: Option<String>,
    /// What was not possible on this machine.
    pub not_possible: Vec<String>,
    /// Other things that a reader must know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterResult {
    /// The API it wrote with.
    pub api: Api,
    /// How it made writes durable.
    pub durability: Durability,
    /// Its thread and its virtual machine.
    pub opened: Opened,
}

/// A writer's calls with one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageSeries {
    /// The writer: an index into [`StorageResult::writers`].
    pub writer: usize,
    /// Bytes per call.
    pub size_bytes: u64,
    /// The latencies of the application's calls.
    pub latency: Histogram,
    /// The calls of each round.
    pub blocks: Vec<BlockResult>,
    /// The same number of calls under `strace`, by round, if the plan requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strace: Vec<StraceBlock>,
}

/// The measurements of one block under `strace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StraceBlock {
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// How long the system calls within each call took according to `strace -T`, in nanoseconds;
    /// `None` if strace shows no system call.
    pub system_ns: Vec<Option<u64>>,
}

/// The measurements of one block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockResult {
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// The snapshot of the recording that covers the block.
    pub snapshot: Option<u32>,
}

/// One timed call, in nanoseconds of CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The clock just before the call.
    pub start_ns: u64,
    /// The clock just after the call.
    pub end_ns: u64,
}

impl Call {
    /// The duration of the call, in nanoseconds.
    #[must_use]
    pub fn latency_ns(self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// A writer's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The process id of the writing thread. For Java, this is not the worker process.
    pub pid: u32,
    /// The id of the writing thread.
    pub tid: u32,
    /// The virtual machine's name and version.
    pub runtime: Option<String>,
}
