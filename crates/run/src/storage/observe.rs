//! The plan and the result of observing other programs' synchronous writes: plain data, stored in
//! run directories. Must not know how anything is recorded or divided.

mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;

use roundtrip_latency::{Deadline, Histogram};
use serde::{Deserialize, Serialize};

use super::Device;
use crate::causes::Causes;
use crate::observe::{Process, Subject, is_zero};
use crate::recorder::RecorderInfo;

pub use rows::{Counted, RowKey, Rows};

/// The maximum number of rows in the table, those with the most time. One further row is the sum of
/// all others.
pub const MAX_ROWS: usize = 500;

/// What to observe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveWritesPlan {
    /// The programs to observe.
    pub subject: Subject,
    /// The file whose writes are counted. `None`: all files.
    pub file: Option<PathBuf>,
    /// How long to observe, in nanoseconds. `None` means until a signal arrives, or until the
    /// command exits.
    pub duration_ns: Option<u64>,
    /// How long a write may take.
    pub deadline: Deadline,
    /// How many of the slowest writes are kept with their recordings. Of the others only the causes
    /// are kept.
    pub limit: u32,
    /// The recording's folder. Not stored, because runs of one plan can be in different places.
    #[serde(skip)]
    pub directory: PathBuf,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
}

impl Default for ObserveWritesPlan {
    fn default() -> Self {
        Self {
            subject: Subject::Everyone,
            file: None,
            duration_ns: Some(10_000_000_000),
            deadline: Deadline { ns: 20_000_000 },
            limit: 20,
            directory: PathBuf::new(),
            kilobytes: 8 << 10,
        }
    }
}

/// Why a write waited for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// The system call itself, such as fsync(2).
    Call,
    /// A flag of the call or of the open file, such as `O_DSYNC`.
    Flag,
    /// A buffered write that was throttled because too many pages were dirty, or had to read first.
    No,
    /// A direct write of io_uring to a file of which it is not known how it was opened: without
    /// `O_DSYNC`, the device may still hold the data in its cache.
    Unknown,
}

/// The writes of one thread to one file by one system call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteRow {
    /// The process that wrote.
    pub process: Process,
    /// The id of the writing thread.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// The system call: "fdatasync", "pwrite64", "io_uring fsync", "aio write".
    pub call: String,
    /// Why it waits for the device.
    pub durable: Durable,
    /// The file's path from /proc; "inode N of 254:0" if it could not be looked up; empty for calls
    /// without a file.
    pub file: String,
    /// The durations of the calls.
    pub latency: Histogram,
    /// The number of bytes that the calls wrote.
    pub bytes: u64,
    /// Calls that took longer than the deadline.
    pub missed: u64,
    /// Calls that returned an error.
    pub failed: u64,
    /// Calls that the kernel throttled because too many pages were dirty.
    pub throttled: u64,
    /// How their time is divided among the layers.
    pub divided: Option<Divided>,
    /// How many rows this one is the sum of: the last row, which has no thread, call or file. 0 for
    /// all others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stands_for: u64,
    /// None of these had more time than this, in nanoseconds. A row of its own that was one of
    /// them before lacks at most as much.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beyond_ns: u64,
}

/// Calls divided among the layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Divided {
    /// The number of calls.
    pub calls: u64,
    /// Their total time, in nanoseconds: the sum over the layers.
    pub sum_ns: u64,
    /// By the layer's name; layers without time are missing.
    pub layers: BTreeMap<String, LayerTime>,
    /// Requests to the devices, flushes not counted.
    pub requests: u64,
    /// How many of these requests are reads.
    pub reads: u64,
    /// Flushes of the devices.
    pub flushes: u64,
    /// The number of calls for which events were lost.
    pub lost_calls: u64,
    /// The number of calls that the recording does not cover as a whole, although no event was
    /// lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncovered_calls: u64,
    /// Time that is unexplained because the kernel did not record context switches, in nanoseconds.
    pub unexplained_for_switches_ns: u64,
    /// How long a call usually ran and was being woken, in nanoseconds: the median; 0 if it is not
    /// known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub usual_ns: u64,
    /// Journal commits that other threads had started and that these calls had to wait for.
    pub others_commits: Vec<OthersCommits>,
}

/// The time in one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerTime {
    /// The total over all calls, in nanoseconds.
    pub sum_ns: u64,
    /// How much of it the call, or a thread that worked for it, waited for a CPU that another
    /// thread had, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub behind_ns: u64,
    /// The time in each call that spent any in this layer.
    pub calls: Histogram,
}

/// The waits for commits that one other thread had started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OthersCommits {
    /// The thread that started the commits; 0 if it is unknown, or if the journal started them
    /// after its commit interval.
    pub tid: u32,
    /// The thread's name at that time.
    pub thread: String,
    /// The number of waits.
    pub waits: u64,
    /// The total time of these waits, in nanoseconds.
    pub waited_ns: u64,
}

/// A write that missed the deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowWrite {
    /// The index of its row in [`ObserveWritesResult::rows`].
    pub row: usize,
    /// The thread.
    pub tid: u32,
    /// When the system call started, in nanoseconds of CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// Its snapshot in the recording; `None` if it could not be stored.
    pub snapshot: Option<u32>,
}

impl SlowWrite {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// How much could not be observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenWrites {
    /// Events that the kernel dropped.
    pub lost_events: u64,
    /// Calls that started before the recording.
    pub begun_before: u64,
    /// Calls that had not returned when the recording stopped, or whose return was lost.
    pub not_ended: u64,
    /// Calls dropped because too many were in flight.
    pub forgotten: u64,
}

/// The writes that were observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveWritesResult {
    /// What was requested.
    pub plan: ObserveWritesPlan,
    /// How long the run observed, in nanoseconds.
    pub elapsed_ns: u64,
    /// The machine's disks.
    pub devices: Vec<Device>,
    /// The rows, sorted by total time, the longest first.
    pub rows: Vec<WriteRow>,
    /// The slowest writes that missed the deadline, the slowest first, up to the plan's limit.
    pub slow_writes: Vec<SlowWrite>,
    /// The number of further writes that missed the deadline.
    pub over_limit: u64,
    /// What delayed all writes that missed the deadline, kept or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Causes>,
    /// What could not be observed.
    pub unseen: UnseenWrites,
    /// What was recorded.
    pub recorder: RecorderInfo,
    /// Why the recordings of later slow writes could not be stored; `None` if they could.
    pub not_recorded: Option<String>,
}

impl ObserveWritesResult {
    /// The number of all writes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.rows.iter().map(|row| row.latency.count()).sum()
    }

    /// How many of them missed the deadline.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.rows.iter().map(|row| row.missed).sum()
    }
}
