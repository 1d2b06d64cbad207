//! A stretch of time: its owner, its state, and what ended it. Only data. Must not know what is to
//! blame, nor the words that describe it.

use roundtrip_tracefs::OffCpu;
use serde::Serialize;

use crate::system_calls::SystemCall;

/// Which of the two threads a stretch of time belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    /// The caller.
    Client,
    /// The thread that served.
    Server,
}

/// A thread as shown to a reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// Its name; empty if no event contains it.
    pub comm: String,
    /// The kernel's priority at that time, as in `task_struct.prio`: below 0 deadline, 0 to 98
    /// real-time, 100 to 139 ordinary.
    pub prio: Option<i32>,
}

/// The kind of interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// The timer interrupt.
    Timer,
    /// A device's interrupt.
    Device {
        /// Its number.
        irq: u32,
        /// The name of its handler.
        name: String,
    },
    /// A softirq.
    Softirq(Softirq),
    /// Another interrupt vector of the CPU, or an inter-processor interrupt (`reschedule`,
    /// `call_function`).
    Vector {
        /// Its name or purpose.
        name: String,
    },
    /// An interrupt that no event names.
    Unnamed,
}

/// The number of a softirq (`include/linux/interrupt.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Softirq(
    /// 0 to 9. Later kernels may add more.
    pub u32,
);

impl Softirq {
    /// Timer wheel timers.
    pub const TIMER: Self = Self(1);
    /// Completions of the block layer.
    pub const BLOCK: Self = Self(4);
    /// High-resolution timers.
    pub const HRTIMER: Self = Self(8);

    /// Whether timers expire in it.
    pub(crate) fn is_timer(self) -> bool {
        self == Self::TIMER || self == Self::HRTIMER
    }
}

/// What ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Waker {
    /// A thread.
    Thread {
        /// The thread.
        thread: Thread,
    },
    /// An interrupt.
    Interrupt {
        /// The interrupt.
        interrupt: Interrupt,
        /// Whether it completed a block request.
        completed_io: bool,
    },
    /// Perhaps another CPU, on whose behalf an interrupt woke the thread: `sched_waking`, which
    /// shows that, was not recorded.
    OtherCpu,
    /// The recording does not contain it.
    Unknown,
}

/// How a thread was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// By a signal, or a tracer.
    Signal,
    /// By the freezer.
    Frozen,
}

/// One leg of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leg {
    /// From the call's start to the server's handler.
    Request,
    /// The server's handler.
    Handling,
    /// From the end of the handler to the end of the call.
    Reply,
    /// All of it, because the server recorded no timestamps.
    WholeCall,
}

/// Why something is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// It is unknown which thread served.
    Server,
    /// It is unknown for which CPU a runnable thread waited.
    Queue,
    /// The thread did not exist.
    NoThread,
    /// Events were lost.
    EventsLost,
    /// It was before the recording began, or after it ended.
    OutsideRecording,
    /// No event shows what the thread did.
    NoEvent,
    /// No event shows which thread had the CPU.
    CpuOwner,
    /// The events contradict each other.
    Contradiction,
    /// A thread waited behind others, or its control group had exhausted its CPU quota.
    BehindOrThrottled,
    /// It was not recorded what ended a wait.
    Waker,
    /// The thread had waited in a long queue, in which each thread ended the wait of the next.
    Queued,
    /// Another CPU, or an interrupt, ended a wait; wakings were not recorded.
    OtherCpu,
    /// An interrupt of a timer or a device, which was not recorded, ended a wait.
    WakingInterrupt,
    /// Since before the recording, the owner had waited for something that this thread ended.
    SinceBefore {
        /// The owner that waited.
        owner: Owner,
        /// The thread that ended the wait.
        thread: Thread,
    },
    /// A write's request stayed in its queue, although its device had no earlier request.
    RequestQueue,
    /// A call has more parts than are told apart.
    TooManyParts,
    /// A thread was runnable while its CPU was idle: because of a CPU quota, or a hypervisor that
    /// did not run the CPU.
    RunnableOnIdle,
    /// There are no kernel events for this leg.
    NoEventsFor(Leg),
}

/// The state of a part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// On a CPU in user code.
    User,
    /// On a CPU; system calls were not recorded.
    Running,
    /// On a CPU in a system call.
    SystemCall {
        /// The system call.
        call: SystemCall,
    },
    /// On a CPU, spinning for a kernel lock.
    Spinning,
    /// An interrupt took the CPU on which the thread ran or for which it waited.
    Stolen {
        /// The interrupt.
        interrupt: Interrupt,
    },
    /// Woken, but not yet on a run queue: the target CPU has not yet handled the inter-processor
    /// interrupt.
    WakeUpPending,
    /// Runnable, while its CPU left an idle state.
    IdleExit {
        /// The kernel's number of the idle state, if recorded. Higher numbers are deeper.
        state: Option<u32>,
    },
    /// Runnable behind the peer that woke it and was about to leave the CPU.
    HandOver {
        /// The peer.
        thread: Thread,
    },
    /// Woken and runnable, but another thread had the CPU.
    Behind {
        /// The other thread.
        thread: Thread,
    },
    /// Preempted by another thread.
    Preempted {
        /// The other thread.
        thread: Thread,
    },
    /// Waiting. The part's `because` contains what the awaited thread did.
    Blocked {
        /// Why it was off the CPU; `None` if the start was not recorded.
        off: Option<OffCpu>,
        /// The system call in which it waited, if known.
        system_call: Option<SystemCall>,
        /// The function in which it waited, if the kernel reports it.
        function: Option<String>,
        /// Whether the kernel says that it waited for a device.
        io_wait: bool,
        /// What ended the wait.
        waker: Waker,
    },
    /// Stopped by a signal, or frozen.
    Stopped {
        /// Which of them.
        how: Stop,
        /// The thread that froze it, if recorded.
        by: Option<Thread>,
        /// What continued or thawed it.
        waker: Waker,
    },
    /// Runnable although its CPU was idle.
    RunnableOnIdle,
    /// Runnable, but its control group had exhausted its CPU quota.
    Throttled,
    /// On a CPU that did not run: the hypervisor used it, or interrupts were off.
    Gap,
    /// One leg of the round trip, from the programs' own timestamps, without kernel events.
    Leg {
        /// The leg.
        leg: Leg,
    },
    /// Unknown.
    Unknown {
        /// The reason.
        reason: Unknown,
    },
}

/// A stretch of time with one owner and one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its start, in nanoseconds of the recording's clock.
    pub begin_ns: u64,
    /// Its end, which is the start of the next part.
    pub end_ns: u64,
    /// Whose time it is.
    pub owner: Owner,
    /// The thread: the owner or, within [`Part::because`], the thread that it waited for.
    pub thread: Option<Thread>,
    /// The CPU that it ran on or waited for, if meaningful.
    pub cpu: Option<u32>,
    /// Its state.
    pub state: State,
    /// For a wait that a thread ended: what that thread did, in parts that cover the same stretch.
    pub because: Vec<Self>,
}

impl Part {
    /// Its duration in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}
