//! What an explanation consists of. Only data, which means the same without the trace: names are
//! those that the trace has, and everything else is a type. Must not know the words that it is
//! shown in.

use serde::Serialize;

pub use crate::parts::{Interrupt, Leg, Owner, Part, Softirq, State, Thread, Unknown, Waker};
use crate::system_calls::SystemCall;

/// How a boundary between client and server was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// One thread woke the other.
    WakeUp,
    /// Binder's own event.
    Binder,
    /// The thread went to sleep without having woken the other, which was still awake.
    Sleep,
    /// The server's own stamp.
    Stamp,
    /// Nothing marks it.
    Unknown,
}

/// What a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing took longer than it usually does.
    Ordinary,
    /// A thread of the two had more to do than usual.
    Work,
    /// Another thread had the CPU.
    Competitor,
    /// An interrupt or softirq had it.
    Interrupt,
    /// A thread of the two slept until a timer.
    Sleep,
    /// A device.
    Io,
    /// Another thread, which it waited for: the holder of a lock, say.
    WaitedFor,
    /// A signal stopped it.
    Stopped,
    /// Waking up took long: inter-processor interrupts, idle exit, hand-over.
    WakeUp,
    /// The CPU quota of a control group.
    Throttled,
    /// The CPU did not run: the hypervisor had it, or interrupts were off.
    Gap,
    /// It cannot be told from what was recorded.
    CannotTell,
}

/// What is to blame, or what hides it, where that is no thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// An interrupt.
    Interrupt(Interrupt),
    /// Softirqs that were too many, in the kernel's thread of this name.
    SoftirqThread(String),
    /// The system call in which a thread slept.
    SystemCall(SystemCall),
    /// A timer, of which no system call tells.
    Timer,
    /// A block device.
    BlockDevice,
    /// The thread to blame slept while others waited for it.
    Slept,
    /// The thread of this name was stopped.
    Stopped(String),
    /// It is not known, for this reason.
    Unknown(Unknown),
}

/// What is to blame for some of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What it is.
    pub kind: Kind,
    /// Nanoseconds beyond what is usual.
    pub excess_ns: u64,
    /// Whose time it cost most.
    pub owner: Owner,
    /// The thread to blame, where it is one.
    pub thread: Option<Thread>,
    /// What else is to blame, or why nothing can be.
    pub what: Option<What>,
    /// Through whom: threads that the owner waited for and that were held up themselves, nearest
    /// first.
    pub via: Vec<Thread>,
    /// The CPU where it happened, where there is one.
    pub cpu: Option<u32>,
}

/// What a reader should know about how it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "flag", rename_all = "snake_case")]
pub enum Flag {
    /// The client is a real-time thread, and its call waited for one of lower priority that was in
    /// nobody's way else.
    PriorityInversion {
        /// The one that had the CPU.
        thread: Thread,
    },
    /// A real-time thread was runnable and one of lower priority went on: code of the kernel that
    /// cannot be preempted, real-time throttling, or the deadline server that keeps a share for
    /// ordinary threads (Linux 6.12 on).
    RealTimeHeldOff {
        /// The one that waited.
        waited: Thread,
        /// The one that went on.
        thread: Thread,
    },
    /// The control group's quota was used up meanwhile.
    Throttled,
    /// A CPU did not run for a while.
    Gap,
    /// Events were lost.
    EventsLost,
    /// The kernel left switches out of the recording although it lost nothing, as some virtual
    /// machines' do.
    SwitchesUnrecorded {
        /// How many may have happened during the call, on any CPU, at least.
        count: u64,
    },
    /// There were no kernel events at all.
    NoEvents,
}

/// Why a round trip took so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// When it began, in nanoseconds of the recording's clock.
    pub start_ns: u64,
    /// When the client handed over to the server.
    pub request_ns: u64,
    /// How that instant was found.
    pub request_by: Boundary,
    /// When the server handed back.
    pub reply_ns: u64,
    /// How that instant was found.
    pub reply_by: Boundary,
    /// When it ended.
    pub end_ns: u64,
    /// The caller.
    pub client: Thread,
    /// The thread that served, where one is known.
    pub server: Option<Thread>,
    /// The parts: contiguous, from the start to the end.
    pub parts: Vec<Part>,
    /// What to know besides.
    pub flags: Vec<Flag>,
    /// What took the time, the largest excess first; the first one is the answer.
    pub causes: Vec<Cause>,
    /// How long such a round trip usually takes, in nanoseconds, where that was known: causes of
    /// work count beyond it only.
    pub usual_ns: Option<u64>,
    /// Whether the machine is a virtual one: what looks like work may then be the hypervisor's
    /// time.
    pub virtualised: bool,
}

impl Explanation {
    /// The answer.
    #[must_use]
    pub fn main(&self) -> Option<&Cause> {
        self.causes.first()
    }

    /// Its length in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
