//! A decoded kernel event. The kinds that explanations and layers need are decoded; the others are
//! kept as bytes.

use serde::{Deserialize, Serialize};

use crate::context::EventContext;
use crate::name::Name;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in nanoseconds of the recording's clock (CLOCK_BOOTTIME for those of an `Instance`).
    pub time_ns: u64,
    /// The CPU on which it was recorded.
    pub cpu: u32,
    /// The current thread on that CPU (`common_pid`); 0 is the idle thread.
    pub tid: u32,
    /// What happened.
    pub body: Body,
}

/// A thread in the form of scheduler events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRef {
    /// Thread id; 0 is an idle thread, which every CPU has.
    pub tid: u32,
    /// The kernel's priority as in `task_struct.prio`: below 0 deadline, 0 to 98 real-time (99 -
    /// `sched_priority`), 100 to 139 ordinary (120 + nice).
    pub prio: i32,
    /// The thread's name.
    pub comm: Name,
}

/// What a thread that leaves the CPU does next (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskState(
    /// The kernel's bits: 0 runnable, 1 `S`, 2 `D`, 4 `T`, 8 `t`, 0x10 `X`, 0x20 `Z`, 0x40 `P`,
    /// 0x80 `I`. "Preempted" is [`TaskState::PREEMPTED`], whatever bit the recording kernel uses
    /// for it.
    pub u32,
);

impl TaskState {
    /// The thread is still runnable, but was preempted.
    pub const PREEMPTED: Self = Self(1 << 31);

    /// The recording has a state that this crate does not know: the thread may still be runnable.
    pub const UNKNOWN: Self = Self(1 << 30);

    /// Whether the thread is still runnable.
    #[must_use]
    pub fn runnable(self) -> bool {
        self.0 == 0 || self == Self::PREEMPTED
    }

    /// Why a thread that is not runnable is off the CPU; the lowest bit decides. `None` if it is
    /// runnable, or if that bit is unknown.
    #[must_use]
    pub fn off(self) -> Option<OffCpu> {
        const STATES: [OffCpu; 8] = [
            OffCpu::Interruptible,
            OffCpu::Uninterruptible,
            OffCpu::Stopped,
            OffCpu::Traced,
            OffCpu::Dead,
            OffCpu::Zombie,
            OffCpu::Parked,
            OffCpu::Idle,
        ];
        STATES.get(self.0.trailing_zeros() as usize).copied()
    }

    /// The state as `ps` and the kernel's text form show it: the letter of [`OffCpu::letter`], `R`
    /// for runnable, `R+` for preempted, and `?` for any other state.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self(0) => "R",
            Self::PREEMPTED => "R+",
            other => other.off().map_or("?", OffCpu::letter),
        }
    }
}

/// Why a thread is off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffCpu {
    /// It sleeps, and a signal can wake it.
    Interruptible,
    /// It sleeps, and no signal can wake it. Usually it waits for a device.
    Uninterruptible,
    /// A signal stopped it.
    Stopped,
    /// A debugger stopped it.
    Traced,
    /// It has ended.
    Dead,
    /// It has ended, but its parent has not waited for it.
    Zombie,
    /// A kernel thread that is parked.
    Parked,
    /// A kernel thread that has nothing to do.
    Idle,
}

impl OffCpu {
    /// The letter that `ps` and the kernel's text form show.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Interruptible => "S",
            Self::Uninterruptible => "D",
            Self::Stopped => "T",
            Self::Traced => "t",
            Self::Dead => "X",
            Self::Zombie => "Z",
            Self::Parked => "P",
            Self::Idle => "I",
        }
    }
}

/// What happened. Priorities are as in [`ThreadRef::prio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Body {
    /// `sched_switch`: one thread replaces another on the CPU.
    Switch {
        /// The thread that leaves the CPU.
        prev: ThreadRef,
        /// Its state.
        prev_state: TaskState,
        /// The thread that runs next.
        next: ThreadRef,
    },
    /// `sched_waking`: [`Event::tid`], or an interrupt on top of it, wakes a thread. Always
    /// recorded on the waker's CPU.
    Waking {
        /// The woken thread.
        thread: ThreadRef,
        /// The CPU that it ran on *before*. [`Body::Wakeup`] has the CPU that it will run on.
        target_cpu: u32,
        /// What woke it: the current thread, or an interrupt.
        context: EventContext,
    },
    /// `sched_wakeup` and `sched_wakeup_new`: the thread is on a run queue.
    Wakeup {
        /// The woken thread.
        thread: ThreadRef,
        /// The CPU of the run queue.
        target_cpu: u32,
        /// Whether the thread is new (`sched_wakeup_new`).
        new: bool,
        /// As in [`Body::Waking`]. An interrupt on the CPU of the run queue may also act for
        /// another CPU, which requested the wakeup.
        context: EventContext,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// The thread that migrates.
        thread: ThreadRef,
        /// The old CPU.
        from_cpu: u32,
        /// The new CPU.
        to_cpu: u32,
    },
    /// `sched_pi_setprio`: a thread inherits a priority through a PI futex or rt_mutex, or loses it
    /// again.
    PiSetprio {
        /// The thread.
        tid: u32,
        /// The old priority.
        old_prio: i32,
        /// The new priority.
        new_prio: i32,
    },
    /// `sched_stat_runtime`: the CPU time that the scheduler accounts to a thread since the last
    /// such event.
    StatRuntime {
        /// The thread.
        tid: u32,
        /// The CPU time in nanoseconds.
        runtime_ns: u64,
    },
    /// `sched_blocked_reason` (Android's kernels): where a thread in state `D` was blocked.
    BlockedReason {
        /// The thread.
        tid: u32,
        /// Whether it waited for a device.
        io_wait: bool,
        /// The blocking function, as an address or a name.
        caller: Name,
    },
    /// `sched_process_fork`.
    Fork {
        /// The new thread; its parent is [`Event::tid`].
        child: u32,
        /// The child's name.
        comm: Name,
    },
    /// `sched_process_exit` of [`Event::tid`].
    Exit,
    /// `task_rename`: a thread changes its name.
    Rename {
        /// The thread.
        tid: u32,
        /// The new name.
        comm: Name,
    },
    /// `irq_handler_entry`: a device's interrupt handler starts.
    IrqEntry {
        /// Its number.
        irq: u32,
        /// Its handler's name.
        name: Name,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// Its number.
        irq: u32,
        /// Whether the handler recognised its device's interrupt. On a shared line, only one
        /// handler does.
        handled: bool,
    },
    /// `softirq_raise`.
    SoftirqRaise {
        /// 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9
        /// RCU.
        vector: u32,
    },
    /// `softirq_entry`.
    SoftirqEntry {
        /// As in [`Body::SoftirqRaise`].
        vector: u32,
    },
    /// `softirq_exit`.
    SoftirqExit {
        /// As in [`Body::SoftirqRaise`].
        vector: u32,
    },
    /// x86's `irq_vectors/*_entry`: timer, reschedule, call_function and the like.
    VectorEntry {
        /// The event's name without `_entry`: `local_timer`, `reschedule`.
        kind: Name,
    },
    /// x86's `irq_vectors/*_exit`.
    VectorExit {
        /// The event's name without `_exit`.
        kind: Name,
    },
    /// `ipi_raise`, `ipi_send_cpu`, `ipi_send_cpumask`: a CPU interrupts others.
    IpiRaise {
        /// The target, if the event names exactly one.
        target_cpu: Option<u32>,
        /// The reason, as far as the event has one.
        reason: Name,
    },
    /// `ipi_entry` (arm, arm64).
    IpiEntry {
        /// The reason.
        reason: Name,
    },
    /// `ipi_exit` (arm, arm64).
    IpiExit {
        /// The reason.
        reason: Name,
    },
    /// `cpu_idle`: a CPU enters or leaves an idle state.
    Idle {
        /// The CPU.
        cpu: u32,
        /// The idle state that it enters; `None` if it leaves one.
        state: Option<u32>,
    },
    /// `cpu_frequency`.
    Frequency {
        /// The CPU.
        cpu: u32,
        /// The new frequency in kHz.
        khz: u32,
    },
    /// `raw_syscalls/sys_enter`, or `syscalls/sys_enter_*`.
    SysEnter {
        /// The system call's number on the recording architecture.
        number: i64,
        /// The first argument: for most calls, a file descriptor or an address.
        first: u64,
        /// The lower half of the third argument: for many calls, a size or flags. 0 if there is
        /// none.
        third: u32,
        /// The lower half of the sixth argument, likewise.
        sixth: u32,
    },
    /// `raw_syscalls/sys_exit`.
    SysExit {
        /// As in [`Body::SysEnter`].
        number: i64,
        /// The return value; errors are negative.
        result: i64,
    },
    /// `contention_begin` (since Linux 5.19): [`Event::tid`] waits for a kernel lock.
    ContentionBegin {
        /// The lock's address.
        lock: u64,
        /// `LCB_F_*` from the kernel's `lock.h`.
        flags: u32,
    },
    /// `contention_end`.
    ContentionEnd {
        /// The lock's address.
        lock: u64,
    },
    /// `workqueue_execute_start`.
    WorkStart {
        /// The work's address.
        work: u64,
        /// The function.
        function: Name,
    },
    /// `workqueue_execute_end`.
    WorkEnd {
        /// As in [`Body::WorkStart`].
        work: u64,
    },
    /// `binder_transaction`, recorded by the sender.
    BinderTransaction {
        /// Matches that of [`Body::BinderReceived`].
        debug_id: i32,
        /// The number of the target node; 0 for a reply.
        target_node: i32,
        /// The receiving process.
        to_proc: u32,
        /// The receiving thread; 0 if any thread may receive it, or if the event does not name it.
        to_thread: u32,
        /// Whether it is a reply.
        reply: bool,
        /// The transaction code.
        code: u32,
        /// `TF_*`.
        flags: u32,
    },
    /// `binder_transaction_received`, recorded by the receiver.
    BinderReceived {
        /// As in [`Body::BinderTransaction`].
        debug_id: i32,
    },
    /// `binder_wait_for_work`: [`Event::tid`] starts to read from the driver, and may sleep there.
    BinderWait {
        /// Whether it also takes work that is queued for its process, as a looper does.
        proc_work: bool,
        /// Whether it waits for a reply or serves a call.
        transaction_stack: bool,
        /// Whether work for the thread is already queued.
        thread_todo: bool,
    },
    /// `binder_return`: what [`Event::tid`] reads from the driver.
    BinderReturn {
        /// `BR_*`.
        command: u32,
    },
    /// `binder_set_priority` (Android's kernels).
    BinderSetPriority {
        /// The thread.
        tid: u32,
        /// The old priority.
        old_prio: i32,
        /// The new priority.
        new_prio: i32,
    },
    /// `print`: text that user space wrote to `trace_marker`.
    Print {
        /// The text without its line break.
        text: Name,
    },
    /// Any other event. Its fields can be read with its format.
    Other {
        /// `system/event`.
        event: Name,
        /// Where its bytes start in the trace's store.
        at: u32,
        /// The number of bytes.
        length: u32,
    },
}
