//! Slow calls that are kept to be explained: plan and result. Must not know how anything is
//! recorded, nor what the recordings show.

use std::path::PathBuf;

use roundtrip_latency::Sample;
use roundtrip_vocabulary::CallCounters;
use serde::{Deserialize, Serialize};

use crate::causes::Causes;
use crate::recorder::{DEFAULT_KILOBYTES, RecorderInfo};
use crate::scheduling::Scheduling;

/// The name of the file beside a snapshot with the calls in its window, encoded by
/// [`Sample::encode_all`].
pub const CALLS: &str = "calls";

/// Which calls to keep, and where to put the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainPlan {
    /// The recording's folder, which is created when the run succeeds. Not stored, because runs of
    /// one plan can be in different directories.
    #[serde(skip)]
    pub directory: PathBuf,
    /// Which calls are slow.
    pub trigger: Trigger,
    /// The maximum number of calls that are kept because they missed the deadline: the slowest
    /// recorded ones. Of the others only the causes are kept.
    pub limit: u32,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// Whether to also record system calls of clients and servers. This slows down every call.
    pub system_calls: bool,
}

/// Which calls are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Calls that miss the deadline.
    Deadline,
    /// This many of the run's slowest calls.
    Slowest(u32),
}

impl ExplainPlan {
    /// The default limit of kept calls.
    pub const DEFAULT_LIMIT: u32 = 20;

    /// A plan for calls that miss the deadline, at most [`ExplainPlan::DEFAULT_LIMIT`] of them.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            trigger: Trigger::Deadline,
            limit: Self::DEFAULT_LIMIT,
            kilobytes: DEFAULT_KILOBYTES,
            system_calls: false,
        }
    }

    /// The maximum number of calls to keep.
    #[must_use]
    pub fn most(&self) -> usize {
        match self.trigger {
            Trigger::Deadline => self.limit as usize,
            Trigger::Slowest(count) => count as usize,
        }
    }
}

/// The slow calls that were kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// What was recorded; `None` without a recorder.
    pub recorder: Option<RecorderInfo>,
    /// Why there was no recorder, or why it ended before the run did.
    pub not_recorded: Option<String>,
    /// The slow calls that were kept, in chronological order. If none of the slowest was recorded,
    /// there is one more than requested: the slowest recorded call.
    pub misses: Vec<Miss>,
    /// Slow calls that were dropped because there were too many.
    pub over_limit: u64,
    /// What delayed those of them that were recorded; `None` if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes_of_others: Option<Causes>,
    /// Those of them that are still recorded. Not stored: once their causes are known, their
    /// recordings are removed.
    #[serde(skip)]
    pub others: Vec<Miss>,
    /// Slow calls that were kept without a recording, because the recording of another call was
    /// being collected.
    pub while_busy: u64,
    /// For each snapshot, in order, the calls whose samples are stored with it.
    pub recorded: Vec<RecordedCalls>,
    /// Calls that are among the slowest but were not kept, because they were made before there was
    /// anything to compare them with.
    pub before_comparison: u64,
}

impl Explained {
    /// What a reader must know about calls that were not kept.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(why) = &self.not_recorded {
            warnings.push(format!("slow calls were not recorded: {why}"));
        }
        if self.while_busy > 0 {
            warnings.push(format!(
                "{} slow calls have no recording: Roundtrip was still storing that of another call",
                self.while_busy
            ));
        }
        if self.before_comparison > 0 {
            warnings.push(format!(
                "{} of the slowest calls were not kept: they were made before there were enough calls \
                 to compare them with",
                self.before_comparison
            ));
        }
        if let Some(recorder) = self.recorder.as_ref().filter(|recorder| !recorder.missing.is_empty()) {
            warnings.push(format!(
                "explanations are coarser, because this kernel has no events {}",
                recorder.missing.join(", ")
            ));
        }
        warnings
    }
}

/// How many calls of one caller lie fully or partly in a snapshot's window. Their samples are
/// stored beside the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCalls {
    /// The snapshot of the recording.
    pub snapshot: u32,
    /// The series, counted from 0.
    pub series: usize,
    /// The pair, counted from 0.
    pub pair: usize,
    /// How the caller was scheduled.
    pub caller: Scheduling,
    /// The number of calls.
    pub calls: u64,
    /// Whether these are all such calls. They are not if a client discarded some before it knew
    /// that they were recorded.
    pub complete: bool,
}

/// Calls of one caller in chronological order, with the caller's data.
pub type CallsOf = (RecordedCalls, Vec<Sample>);

/// One slow call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// The series, counted from 0.
    pub series: usize,
    /// The pair, counted from 0.
    pub pair: usize,
    /// How its caller was scheduled.
    pub caller: Scheduling,
    /// The call.
    pub sample: Sample,
    /// The caller's thread.
    pub client: ThreadId,
    /// The thread that served; `None` in passthrough mode.
    pub server: Option<ThreadId>,
    /// The kernel's counters of the caller's thread.
    pub client_counters: CallCounters,
    /// The kernel's counters of the serving thread; `None` if that thread was not known before the
    /// call.
    pub server_counters: Option<CallCounters>,
    /// The snapshot that contains the call; `None` if there is none.
    pub snapshot: Option<u32>,
}

/// A thread and its process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadId {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}
