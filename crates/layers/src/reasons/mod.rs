//! Why an operation, a call or a write, did not move: reasons, their sums, and what a sentence says
//! about them. The same for both. Must not know how a reason was found, nor any words.
//!
//! [`Reasons::of`] adds up stretches of time in a tree: kind of reason, process, thread.
//! [`Reasons::answer`] chooses what a sentence names. [`Across`] adds up many operations.

mod across;
mod answer;
mod class;
mod left;
mod tree;

#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};

pub use crate::explanation::Stop;
use crate::explanation::{Interrupt, Leg, Thread, Unknown};
use crate::system_calls::SystemCall;

pub use across::{Across, Row, Subject};
pub use answer::{Alike, Answer, Most, Named};
pub use class::Class;
pub use left::{Operation, OverTime, Timed, Without};
pub use tree::{OfKind, OfProcess, OfThread, Reasons};

/// The kind of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonKind {
    /// The thread that the operation was with ran.
    OwnWork,
    /// It ran, but its CPU's frequency was low: what it took longer than at the highest one.
    SlowCpu,
    /// It was runnable, but another thread had the CPU.
    Cpu,
    /// An interrupt, a softirq, or a thread that handles them had the CPU.
    Interrupted,
    /// It waited until another thread acted.
    Thread,
    /// The request was queued, and the server's threads were busy with other calls.
    BusyPool,
    /// A device worked on its own request.
    Device,
    /// Its request or commit waited for those of others.
    BehindIo,
    /// A limit held it back.
    Throttled,
    /// It slept until a timer expired.
    Sleep,
    /// It was stopped or frozen.
    Stopped,
    /// It was woken, but did not run yet.
    WakeUp,
    /// Its CPU ran nobody.
    CpuGone,
    /// No event shows it.
    Unknown,
}

impl ReasonKind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::OwnWork,
        Self::SlowCpu,
        Self::Cpu,
        Self::Interrupted,
        Self::Thread,
        Self::BusyPool,
        Self::Device,
        Self::BehindIo,
        Self::Throttled,
        Self::Sleep,
        Self::Stopped,
        Self::WakeUp,
        Self::CpuGone,
        Self::Unknown,
    ];

    /// The kind of this name; unknown for the names of later versions.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(Self::Unknown)
    }

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnWork => "own_work",
            Self::SlowCpu => "slow_cpu",
            Self::Cpu => "cpu",
            Self::Interrupted => "interrupted",
            Self::Thread => "thread",
            Self::BusyPool => "busy_pool",
            Self::Device => "device",
            Self::BehindIo => "behind_io",
            Self::Throttled => "throttled",
            Self::Sleep => "sleep",
            Self::Stopped => "stopped",
            Self::WakeUp => "wake_up",
            Self::CpuGone => "cpu_gone",
            Self::Unknown => "unknown",
        }
    }

    /// Whether undisturbed operations also spend time on it. Only from such a kind is the usual
    /// time subtracted.
    #[must_use]
    pub fn is_usual(self) -> bool {
        matches!(self, Self::OwnWork | Self::SlowCpu | Self::WakeUp)
    }
}

impl Serialize for ReasonKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A reason, with what names it besides a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The thread that the operation was with ran.
    OwnWork,
    /// It ran, but this CPU's frequency was low: what it took longer than at the highest one.
    SlowCpu {
        /// The CPU.
        cpu: u32,
    },
    /// Another thread had the CPU for which it was runnable.
    Cpu,
    /// An interrupt had the CPU.
    Interrupted {
        /// The interrupt.
        by: Interrupt,
    },
    /// The kernel thread of this name handled softirqs on the CPU.
    SoftirqThread {
        /// Its name.
        name: String,
    },
    /// It waited for another thread, which ran, was being woken, or whose wait is unknown.
    Thread {
        /// Why it is unknown what the other thread waited for, if it waited.
        but: Option<Unknown>,
    },
    /// The server's threads were busy with another process's calls.
    BusyPool {
        /// The code of those calls, if recorded.
        code: Option<u32>,
        /// How long such a call took, in nanoseconds; `None` if its start was not recorded.
        call_ns: Option<u64>,
    },
    /// A device worked on its own request.
    Device {
        /// The device, if known.
        device: Option<String>,
        /// What it did: "write", "flush"; `None` if unknown.
        operation: Option<&'static str>,
        /// The interrupt that ended the wait, if it names the device.
        interrupt: Option<Interrupt>,
    },
    /// Its request waited behind requests of others, or its commit for another's.
    BehindIo {
        /// The device, if known.
        device: Option<String>,
        /// What it waited for.
        what: Io,
    },
    /// A limit held it back.
    Throttled {
        /// Which.
        limit: Limit,
        /// The control group, if known.
        cgroup: Option<String>,
    },
    /// It slept.
    Sleep {
        /// The system call, if known.
        call: Option<SystemCall>,
    },
    /// It was stopped.
    Stopped {
        /// How.
        how: Stop,
    },
    /// It was woken, but did not run yet.
    WakeUp {
        /// Why not.
        step: WakeUpStep,
    },
    /// Its CPU ran nobody: the hypervisor or firmware had it, or interrupts were off.
    CpuGone,
    /// No event shows it.
    Unknown {
        /// Why.
        why: Unknown,
    },
}

impl Reason {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ReasonKind {
        match self {
            Self::OwnWork => ReasonKind::OwnWork,
            Self::SlowCpu { .. } => ReasonKind::SlowCpu,
            Self::Cpu => ReasonKind::Cpu,
            Self::Interrupted { .. } | Self::SoftirqThread { .. } => ReasonKind::Interrupted,
            Self::Thread { .. } => ReasonKind::Thread,
            Self::BusyPool { .. } => ReasonKind::BusyPool,
            Self::Device { .. } => ReasonKind::Device,
            Self::BehindIo { .. } => ReasonKind::BehindIo,
            Self::Throttled { .. } => ReasonKind::Throttled,
            Self::Sleep { .. } => ReasonKind::Sleep,
            Self::Stopped { .. } => ReasonKind::Stopped,
            Self::WakeUp { .. } => ReasonKind::WakeUp,
            Self::CpuGone => ReasonKind::CpuGone,
            Self::Unknown { .. } => ReasonKind::Unknown,
        }
    }
}

/// Whose I/O an operation waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// Others' requests were before its own, in the queue or in the device.
    Requests,
    /// Another's commit had to end first.
    Commit,
}

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A control group's CPU quota.
    CpuQuota,
    /// The limit on dirty pages.
    Dirty,
    /// A control group's I/O limit.
    Io,
    /// Writeback throttling.
    Writeback,
}

/// A step between the waking of a thread and its first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeUpStep {
    /// Its CPU had not handled the interrupt of the waking CPU yet.
    Interrupt,
    /// Its CPU left an idle state: this one, if recorded. Higher numbers are deeper.
    IdleExit {
        /// The kernel's number of the idle state.
        state: Option<u32>,
    },
    /// The thread that woke it was about to leave the CPU.
    HandOver,
}

/// A process at one time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Its id, or that of the thread if only that is known.
    pub pid: u32,
    /// Its name then; empty if no event contains it.
    pub name: String,
    /// How its thread was scheduled.
    pub class: Class,
}

/// The role of the thread that an operation was with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It made the call.
    Client,
    /// It served the call.
    Server,
    /// It made the write.
    Writer,
    /// It worked for the write: a kernel worker, or the journal's thread.
    Worker,
}

/// Where an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On this leg of a call.
    Leg(Leg),
    /// In this layer of a write.
    Layer(&'static str),
}

/// Why an operation did not move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Why {
    /// The reason.
    pub reason: Reason,
    /// The process that names the reason: who had the CPU, was waited for, ran or slept, kept the
    /// pool busy, or whose I/O was before it. `None` if none does, or it is not known.
    pub process: Option<Process>,
    /// Its thread.
    pub thread: Option<Thread>,
    /// The role of the thread that did not move.
    pub role: Role,
    /// That thread, if known.
    pub delayed: Option<Thread>,
    /// The threads from that one to where the reason is, nearest first. Each waited for the next.
    pub chain: Vec<Thread>,
    /// The kernel function in which the last of them waited, if recorded.
    pub function: Option<String>,
    /// The CPU where it happened, if there is one.
    pub cpu: Option<u32>,
    /// Where the operation was.
    pub place: Option<Place>,
}

impl Why {
    /// A reason of a thread with this role, of which nothing else is known.
    #[must_use]
    pub fn of(reason: Reason, role: Role) -> Self {
        Self {
            reason,
            process: None,
            thread: None,
            role,
            delayed: None,
            chain: Vec::new(),
            function: None,
            cpu: None,
            place: None,
        }
    }
}

/// A stretch of an operation's time with one reason. Its end does not belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its start, in nanoseconds of the recording's clock.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The reason.
    pub why: Why,
}

impl Stretch {
    /// Its duration in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}
