//! Slow calls, and what is kept to explain them: what a plan asks for, and what came of it. Must
//! not know how anything is recorded, nor what the recordings say.

use std::path::PathBuf;

use latency::Sample;
use serde::{Deserialize, Serialize};

use crate::recorder::{DEFAULT_KILOBYTES, RecorderInfo};
use crate::scheduling::Scheduling;

/// The name of the file beside a snapshot that holds the calls that lie in it, as
/// [`Sample::encode_all`] writes them.
pub const CALLS: &str = "calls";

/// Which calls are to be explained, and where what was recorded is put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainPlan {
    /// The recording's folder, which is made when the run ends well. Not stored: runs are of
    /// one plan wherever they are put.
    #[serde(skip)]
    pub directory: PathBuf,
    /// Which calls are slow.
    pub trigger: Trigger,
    /// How many calls that miss are kept, the slowest of those that are recorded; the rest is
    /// counted.
    pub limit: u32,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// Also record the system calls of clients and servers, which makes every call slower.
    pub system_calls: bool,
}

/// Which calls are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Those that miss the deadline.
    Deadline,
    /// That many of the run, the slowest.
    Slowest(u32),
}

impl ExplainPlan {
    /// How many slow calls are kept unless something else is asked for.
    pub const DEFAULT_LIMIT: u32 = 20;

    /// For calls that miss the deadline, at most [`ExplainPlan::DEFAULT_LIMIT`] of them.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            trigger: Trigger::Deadline,
            limit: Self::DEFAULT_LIMIT,
            kilobytes: DEFAULT_KILOBYTES,
            system_calls: false,
        }
    }

    /// The most calls that are kept.
    #[must_use]
    pub fn most(&self) -> usize {
        match self.trigger {
            Trigger::Deadline => self.limit as usize,
            Trigger::Slowest(count) => count as usize,
        }
    }
}

/// What was kept of slow calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// What the recorder recorded; `None` where there was none.
    pub recorder: Option<RecorderInfo>,
    /// Why there was no recorder, or why it ended before the run did.
    pub not_recorded: Option<String>,
    /// The slow calls that were kept, in the order of time.
    pub misses: Vec<Miss>,
    /// Slow calls that were not kept, because there were too many.
    pub over_limit: u64,
    /// Slow calls that are kept without a recording, because that of another one was just being
    /// taken.
    pub while_busy: u64,
    /// Whose calls are stored beside each snapshot, in that order.
    #[serde(default)]
    pub recorded: Vec<RecordedCalls>,
    /// Calls that are among the slowest and were made before there was anything to compare them
    /// with. They are not kept.
    pub before_comparison: u64,
}

impl Explained {
    /// What a reader must know of what was not kept.
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
                "{} of the slowest calls were not kept: they came before there were others to compare them \
                 with",
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

/// How many calls of one caller lie in one snapshot, in whole or in part. Their samples are stored
/// beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCalls {
    /// Which snapshot of the recording.
    pub snapshot: u32,
    /// In which series, counted from 0.
    pub series: usize,
    /// Of which pair, counted from 0.
    pub pair: usize,
    /// How the caller was scheduled.
    pub caller: Scheduling,
    /// How many.
    pub calls: u64,
    /// Whether these are all. They are not when a client forgot some before it knew that they were
    /// recorded.
    pub complete: bool,
}

/// Calls of one caller in the order of time, and whose they are.
pub type CallsOf = (RecordedCalls, Vec<Sample>);

/// One slow call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// In which series, counted from 0.
    pub series: usize,
    /// Of which pair, counted from 0.
    pub pair: usize,
    /// How its caller was scheduled.
    pub caller: Scheduling,
    /// The call.
    pub sample: Sample,
    /// The caller's thread.
    pub client: ThreadId,
    /// The thread that served; `None` in passthrough mode.
    pub server: Option<ThreadId>,
    /// What the kernel counted of the caller's thread.
    pub client_counters: CallCounters,
    /// What it counted of the serving thread; `None` when that thread was not known before the
    /// call.
    pub server_counters: Option<CallCounters>,
    /// Which snapshot of the recording holds it; `None` when none does.
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

/// What the kernel counted of a thread between a moment just before a call and one just after it.
/// `None` is what it did not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounters {
    /// From when on all but `cpu_ns` was counted, in nanoseconds.
    pub since_ns: u64,
    /// The thread's own CPU clock (CLOCK_THREAD_CPUTIME_ID) over the call, in nanoseconds; only its
    /// own thread can read it.
    pub cpu_ns: Option<u64>,
    /// Nanoseconds on a CPU (/proc/PID/schedstat).
    pub running_ns: Option<u64>,
    /// Nanoseconds runnable without a CPU (/proc/PID/schedstat).
    pub run_delay_ns: Option<u64>,
    /// Times that it gave up the CPU to wait (getrusage(2)).
    pub voluntary_switches: Option<u64>,
    /// Times that the CPU was taken from it.
    pub involuntary_switches: Option<u64>,
    /// Page faults that had to wait for a device.
    pub major_faults: Option<u64>,
    /// Periods in which its control groups had used up a CPU quota (`nr_throttled` in cpu.stat); 0
    /// where there is no quota.
    pub throttled: Option<u64>,
    /// For how long, all CPUs of the groups together, in nanoseconds.
    pub throttled_ns: Option<u64>,
}
