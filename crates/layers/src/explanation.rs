//! The data of an explanation. It means the same without the trace: names are those in the trace,
//! and everything else is typed. Must not know the words that describe it.

use serde::Serialize;

pub use crate::parts::{Interrupt, Leg, Owner, Part, Softirq, State, Stop, Thread, Unknown, Waker};
use crate::reasons::Reasons;
use crate::system_calls::SystemCall;

/// Up to this many tenths of the usual time, a call counts as undisturbed.
const ORDINARY_TENTHS: u64 = 15;

/// How a boundary between client and server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// One thread woke the other.
    WakeUp,
    /// Binder's own event.
    Binder,
    /// The thread went to sleep without having woken the other thread, which was still awake.
    Sleep,
    /// The server's own timestamp.
    Stamp,
    /// Nothing shows it.
    Unknown,
}

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing took longer than usual.
    Ordinary,
    /// The client's or the server's thread ran longer than usual.
    Work,
    /// The client's or the server's thread ran longer because its CPU's frequency was low.
    SlowCpu,
    /// Another thread had the CPU.
    Competitor,
    /// An interrupt or softirq had the CPU.
    Interrupt,
    /// The server's threads were busy with other calls.
    BusyPool,
    /// The client's or the server's thread slept until a timer expired.
    Sleep,
    /// The client's or the server's thread waited for a device.
    Io,
    /// The client's or the server's thread waited for another thread, for example the holder of a
    /// lock.
    WaitedFor,
    /// A signal stopped the client's or the server's thread.
    Stopped,
    /// Waking up took long: inter-processor interrupts, idle exit, or waiting for the waker to
    /// leave the CPU.
    WakeUp,
    /// A control group's CPU quota.
    Throttled,
    /// The CPU did not run: the hypervisor used it, or interrupts were off.
    Gap,
    /// The recording does not show it.
    CannotTell,
}

/// What is to blame, or what hides the cause, if it is not a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// An interrupt.
    Interrupt(Interrupt),
    /// Too many softirqs, which the kernel thread of this name handled.
    SoftirqThread(String),
    /// The system call in which a thread slept.
    SystemCall(SystemCall),
    /// A timer, without a known system call.
    Timer,
    /// A block device.
    BlockDevice,
    /// The thread to blame slept while others waited for it.
    Slept,
    /// The thread of this name was stopped.
    Stopped(String),
    /// The freezer, which stops the processes of applications in the background, stopped the thread
    /// of this name.
    Frozen(String),
    /// Unknown, for this reason.
    Unknown(Unknown),
}

/// A cause: what is to blame for some of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The kind of the cause.
    pub kind: Kind,
    /// The delay beyond the usual time, in nanoseconds.
    pub excess_ns: u64,
    /// The thread that lost most of the time.
    pub owner: Owner,
    /// The thread to blame, if a thread is to blame.
    pub thread: Option<Thread>,
    /// What else is to blame, or why it is unknown.
    pub what: Option<What>,
    /// The chain of threads from the owner to the thread to blame, nearest first. Each waited for
    /// the next.
    pub via: Vec<Thread>,
    /// The CPU where it happened, if there is one.
    pub cpu: Option<u32>,
    /// The kernel function in which the last thread of the chain waited, if recorded.
    pub function: Option<String>,
}

/// Circumstances of a delay that the user should know.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "flag", rename_all = "snake_case")]
pub enum Flag {
    /// The client is a real-time thread, and its call waited for threads of lower priority.
    PriorityInversion {
        /// The thread that had the CPU longest.
        thread: Thread,
        /// The number of other such threads.
        others: u64,
        /// How long the call waited for all of them.
        sum_ns: u64,
    },
    /// A real-time thread was runnable while one of lower priority continued to run. The reason may
    /// be kernel code that is not preemptible, real-time throttling, or the deadline server that
    /// reserves a share for ordinary threads (since Linux 6.12).
    RealTimeHeldOff {
        /// The thread that waited longest.
        waited: Thread,
        /// The thread that it waited for.
        thread: Thread,
        /// The number of other such pairs.
        others: u64,
        /// How long all of them waited.
        sum_ns: u64,
    },
    /// The control group exhausted its quota.
    Throttled,
    /// A CPU did not run for a while.
    Gap,
    /// Events were lost.
    EventsLost,
    /// The recording covers only a part of the call: it began later, or ended earlier.
    OutsideRecording,
    /// The kernel did not record some context switches although it lost no events, as on some
    /// virtual machines.
    SwitchesUnrecorded {
        /// The least number of such switches that may have happened during the call, on any CPU.
        count: u64,
    },
    /// Work took longer because its CPU ran far below the highest frequency that it had in the
    /// recording.
    SlowCpu {
        /// The CPU that cost most of this time.
        cpu: u32,
        /// Its frequency then, in kHz.
        khz: u32,
        /// Its highest frequency in the recording, in kHz.
        most_khz: u32,
        /// How much less time the work would have taken at the highest frequencies.
        lost_ns: u64,
    },
    /// A thread of the call, or the main thread of its process, was moved to a control group.
    /// Either the call waited for a CPU afterwards, or the move was during the call and the thread
    /// ran afterwards. The new group may allow other CPUs (a cpuset), or a different share of them.
    Moved {
        /// The thread that was moved: a main thread perhaps with all others of its process.
        thread: Thread,
        /// The group's path.
        group: String,
        /// The thread that moved it.
        by: Thread,
        /// When it was moved, in nanoseconds from the start of the call; negative if before it.
        after_ns: i64,
    },
    /// There were no kernel events at all.
    NoEvents,
}

/// Why a round trip took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// When it started, in nanoseconds of the recording's clock.
    pub start_ns: u64,
    /// When it passed from the client to the server.
    pub request_ns: u64,
    /// How that instant was found.
    pub request_by: Boundary,
    /// When it passed back to the client.
    pub reply_ns: u64,
    /// How that instant was found.
    pub reply_by: Boundary,
    /// When it ended.
    pub end_ns: u64,
    /// The caller.
    pub client: Thread,
    /// The thread that served, if known.
    pub server: Option<Thread>,
    /// Contiguous parts from start to end.
    pub parts: Vec<Part>,
    /// Circumstances that the user should know.
    pub flags: Vec<Flag>,
    /// Why it did not move, with the sums of each reason.
    pub reasons: Reasons,
    /// The reasons thread by thread, in the order of [`Self::reasons`]. The first one is the main
    /// cause.
    pub causes: Vec<Cause>,
    /// The usual duration of such a round trip, in nanoseconds, if known. Work is a cause only if
    /// it exceeds this.
    pub usual_ns: Option<u64>,
    /// Whether the machine is virtual. If so, time that looks like work may be time that the
    /// hypervisor took.
    pub virtualised: bool,
}

impl Explanation {
    /// The main cause.
    #[must_use]
    pub fn main(&self) -> Option<&Cause> {
        self.causes.first()
    }

    /// Whether it took about as long as usual.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        let usual = |ns| self.duration_ns() * 10 <= ns * ORDINARY_TENTHS;
        self.reasons.delay_ns() == 0 || self.usual_ns.is_some_and(usual)
    }

    /// Its duration in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
