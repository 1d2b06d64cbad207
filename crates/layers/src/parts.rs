//! What a stretch of time was, whose it was, and who ended it. Only data. Must not know what is to
//! blame, nor the words that it is shown in.

use serde::Serialize;
use tracefs::OffCpu;

use crate::system_calls::SystemCall;

/// Whose time it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The caller.
    Client,
    /// The thread that served.
    Server,
}

/// A thread as it is named to a reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its process, where known.
    pub pid: Option<u32>,
    /// Its name; empty where no event said it.
    pub comm: String,
    /// The kernel's priority then, as `task_struct.prio`: below 0 deadline, 0 to 98 real-time, 100
    /// to 139 ordinary.
    pub prio: Option<i32>,
}

/// What kind of interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// The timer's.
    Timer,
    /// A device's: its number and its handler's name.
    Device {
        /// The number.
        irq: u32,
        /// The handler.
        name: String,
    },
    /// A softirq.
    Softirq(Softirq),
    /// Another of the CPU's vectors, or an inter-processor interrupt (`reschedule`,
    /// `call_function`).
    Vector {
        /// What for.
        name: String,
    },
    /// One that no event named.
    Unnamed,
}

/// The number of a softirq (`include/linux/interrupt.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softirq(
    /// 0 to 9; any other number is one that this kernel's successors have added.
    pub u32,
);

impl Softirq {
    /// Timers of the timer wheel.
    pub const TIMER: Self = Self(1);
    /// The block layer's completions.
    pub const BLOCK: Self = Self(4);
    /// High-resolution timers.
    pub const HRTIMER: Self = Self(8);

    /// Whether timers go off in it.
    pub(crate) fn is_timer(self) -> bool {
        self == Self::TIMER || self == Self::HRTIMER
    }
}

/// Who ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waker {
    /// A thread.
    Thread {
        /// Which.
        thread: Thread,
    },
    /// An interrupt.
    Interrupt {
        /// Which.
        interrupt: Interrupt,
        /// Whether a block device's request was completed in it.
        completed_io: bool,
    },
    /// It is not in the recording.
    Unknown,
}

/// One leg of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leg {
    /// From the call's start to the server's handler.
    Request,
    /// The server's handler.
    Handling,
    /// From the handler's end to the call's.
    Reply,
    /// All of it: the server stamped nothing.
    WholeCall,
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// Which thread served.
    Server,
    /// On which CPU a runnable thread waited.
    Queue,
    /// The thread did not exist.
    NoThread,
    /// Events were lost.
    EventsLost,
    /// No event tells what the thread did.
    NoEvent,
    /// No event tells who had the CPU.
    CpuOwner,
    /// The events contradict each other.
    Contradiction,
    /// A thread waited behind others, or its control group had used up its CPU quota.
    BehindOrThrottled,
    /// Who ended a wait is not recorded.
    Waker,
    /// An interrupt that is not recorded ended a wait: a timer's, or a device's.
    WakingInterrupt,
    /// The owner waited since before the recording began, for whatever this thread ended.
    SinceBefore {
        /// Who waited.
        owner: Owner,
        /// Who ended it.
        thread: Thread,
    },
    /// A thread was runnable while its CPU idled: a CPU quota, or a hypervisor that did not run the
    /// CPU.
    RunnableOnIdle,
    /// There are no kernel events for this leg.
    NoEventsFor(Leg),
    /// A thread of this owner waited for a CPU, and only kernel events tell behind whom.
    WaitedForCpu(Owner),
    /// This leg took longest, and only kernel events tell why.
    LongestLeg(Leg),
}

/// What a part of the time was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// On a CPU in user code.
    User,
    /// On a CPU; system calls were not recorded.
    Running,
    /// On a CPU in a system call.
    SystemCall {
        /// Which.
        call: SystemCall,
    },
    /// On a CPU, spinning for a kernel lock.
    Spinning,
    /// An interrupt had the CPU that the thread ran on or waited for.
    Stolen {
        /// Which.
        interrupt: Interrupt,
    },
    /// Woken, but not yet on a run queue: the other CPU has still to take the inter-processor
    /// interrupt.
    WakeUpPending,
    /// Runnable, while its CPU came out of idling.
    IdleExit,
    /// Runnable behind the peer that had woken it and was about to leave the CPU.
    HandOver {
        /// The peer.
        thread: Thread,
    },
    /// Woken and runnable, but another thread had the CPU.
    Behind {
        /// Which.
        thread: Thread,
    },
    /// Put off the CPU by another thread.
    Preempted {
        /// Which had the CPU.
        thread: Thread,
    },
    /// Waiting for something; `because` of the part says what that something did meanwhile.
    Blocked {
        /// How it was off the CPU; `None` if its begin is not recorded.
        off: Option<OffCpu>,
        /// The system call that it waited in, where known.
        system_call: Option<SystemCall>,
        /// The function that it waited in, where the kernel says so.
        function: Option<String>,
        /// Who ended it.
        waker: Waker,
    },
    /// Stopped by a signal.
    Stopped {
        /// Who made it go on.
        waker: Waker,
    },
    /// Runnable although its CPU idled.
    RunnableOnIdle,
    /// Runnable, but its control group had used up its CPU quota.
    Throttled,
    /// On a CPU that did not run: the hypervisor had it, or interrupts were off.
    Gap,
    /// One leg of the round trip by the two programs' own stamps, without kernel events.
    Leg {
        /// Which.
        leg: Leg,
    },
    /// Not known.
    Unknown {
        /// Why not.
        reason: Unknown,
    },
}

/// A stretch of time with one owner and one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its begin, in nanoseconds of the recording's clock.
    pub begin_ns: u64,
    /// Its end, which is the next part's begin.
    pub end_ns: u64,
    /// Whose time.
    pub owner: Owner,
    /// The thread that is meant: the owner, or within [`Part::because`] the one that it waited for.
    pub thread: Option<Thread>,
    /// Which CPU it was on or waited for, where that means something.
    pub cpu: Option<u32>,
    /// What it was.
    pub state: State,
    /// For a wait that a thread ended: what that thread did meanwhile, in parts that cover the same
    /// stretch.
    pub because: Vec<Self>,
}

impl Part {
    /// Its length in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}
