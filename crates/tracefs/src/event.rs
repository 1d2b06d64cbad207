//! What a kernel event says, decoded: the kinds that explanations and layers are made of, and the
//! rest by their bytes.

use crate::name::Name;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the recording's clock (CLOCK_BOOTTIME for those of an `Instance`).
    pub time_ns: u64,
    /// Where it was recorded.
    pub cpu: u32,
    /// The thread that ran there (`common_pid`); 0 is the idle thread.
    pub tid: u32,
    /// What happened.
    pub body: Body,
}

/// A thread as a scheduler event names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadRef {
    /// Thread id; 0 is an idle thread, which every CPU has.
    pub tid: u32,
    /// The kernel's priority, as `task_struct.prio`: below 0 deadline, 0 to 98 real-time (99 less
    /// `sched_priority`), 100 to 139 ordinary (120 plus nice).
    pub prio: i32,
    /// The thread's name.
    pub comm: Name,
}

/// What a thread that leaves the CPU does next (`prev_state` of `sched_switch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskState(
    /// The kernel's bits: 0 runnable, 1 `S`, 2 `D`, 4 `T`, 8 `t`, 0x10 `X`, 0x20 `Z`, 0x40 `P`,
    /// 0x80 `I`. "Preempted" is [`TaskState::PREEMPTED`] whatever bit the recording kernel uses
    /// for it.
    pub u32,
);

impl TaskState {
    /// Left the CPU although it could go on, and not by its own wish.
    pub const PREEMPTED: Self = Self(1 << 31);

    /// Whether the thread still wants the CPU.
    #[must_use]
    pub fn runnable(self) -> bool {
        self.0 == 0 || self == Self::PREEMPTED
    }

    /// How a thread that is not runnable is off the CPU, by the lowest of the bits; `None` if it is
    /// runnable, or if that bit has no meaning here.
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

    /// What `ps` and the kernel's text form show: the letter of [`OffCpu::letter`], `R` for
    /// runnable, `R+` for preempted, and `?` for any other state.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self(0) => "R",
            Self::PREEMPTED => "R+",
            other => other.off().map_or("?", OffCpu::letter),
        }
    }
}

/// How a thread is off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffCpu {
    /// It waits, and a signal would wake it.
    Interruptible,
    /// It waits, and no signal wakes it: for a device, as a rule.
    Uninterruptible,
    /// A signal stopped it.
    Stopped,
    /// A debugger stopped it.
    Traced,
    /// It has ended.
    Dead,
    /// It has ended, and its parent has not been told.
    Zombie,
    /// A thread of the kernel that is not to run for now.
    Parked,
    /// A thread of the kernel that has nothing to do.
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

/// What happened. Priorities are the kernel's, see [`ThreadRef::prio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// `sched_switch`: one thread leaves the CPU to another.
    Switch {
        /// Who leaves.
        prev: ThreadRef,
        /// And why.
        prev_state: TaskState,
        /// Who comes.
        next: ThreadRef,
    },
    /// `sched_waking`: [`Event::tid`] (or an interrupt above it) wakes a thread. Always recorded on
    /// the waker's CPU.
    Waking {
        /// Who is woken.
        thread: ThreadRef,
        /// Where it ran *before*; where it will run is [`Body::Wakeup`]'s.
        target_cpu: u32,
    },
    /// `sched_wakeup` and `sched_wakeup_new`: the thread is on a run queue.
    Wakeup {
        /// Who is woken.
        thread: ThreadRef,
        /// Whose run queue.
        target_cpu: u32,
        /// Whether it has just been made (`sched_wakeup_new`).
        new: bool,
    },
    /// `sched_migrate_task`.
    Migrate {
        /// Who moves.
        thread: ThreadRef,
        /// From this CPU.
        from_cpu: u32,
        /// To this one.
        to_cpu: u32,
    },
    /// `sched_pi_setprio`: a thread is lent a priority, or gives it back.
    PiSetprio {
        /// Whose.
        tid: u32,
        /// Before.
        old_prio: i32,
        /// After.
        new_prio: i32,
    },
    /// `sched_stat_runtime`: CPU time that the scheduler has accounted to a thread since its last
    /// account.
    StatRuntime {
        /// Whose.
        tid: u32,
        /// How much, in nanoseconds.
        runtime_ns: u64,
    },
    /// `sched_blocked_reason` (Android's kernels): where a thread in `D` state was blocked.
    BlockedReason {
        /// Who.
        tid: u32,
        /// Whether it waited for a device.
        io_wait: bool,
        /// The function, as an address or a name.
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
    /// `task_rename`: a thread's new name.
    Rename {
        /// Who.
        tid: u32,
        /// Its name from now on.
        comm: Name,
    },
    /// `irq_handler_entry`: a device's interrupt.
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
        /// Whether the handler took it for its device's; of several devices on one line only one
        /// does.
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
        /// As of [`Body::SoftirqRaise`].
        vector: u32,
    },
    /// `softirq_exit`.
    SoftirqExit {
        /// As of [`Body::SoftirqRaise`].
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
    /// `ipi_raise`, `ipi_send_cpu`, `ipi_send_cpumask`: a CPU asks others for something.
    IpiRaise {
        /// The one CPU that is asked, where the event says one.
        target_cpu: Option<u32>,
        /// What for, as far as the event says.
        reason: Name,
    },
    /// `ipi_entry` (arm, arm64).
    IpiEntry {
        /// What for.
        reason: Name,
    },
    /// `ipi_exit` (arm, arm64).
    IpiExit {
        /// What for.
        reason: Name,
    },
    /// `cpu_idle`: a CPU goes to sleep, or wakes.
    Idle {
        /// Which CPU.
        cpu: u32,
        /// The idle state that it enters; `None` when it leaves idling.
        state: Option<u32>,
    },
    /// `cpu_frequency`.
    Frequency {
        /// Which CPU.
        cpu: u32,
        /// In kHz.
        khz: u32,
    },
    /// `raw_syscalls/sys_enter`, or `syscalls/sys_enter_*`.
    SysEnter {
        /// The system call's number on the recording architecture.
        number: i64,
        /// Its first argument, a file descriptor or an address for most.
        first: u64,
        /// The lower half of its third one, and of its sixth: a size or flags for many. 0 for a
        /// call that has none.
        third: u32,
        /// As of `third`.
        sixth: u32,
    },
    /// `raw_syscalls/sys_exit`.
    SysExit {
        /// As of [`Body::SysEnter`].
        number: i64,
        /// What it returned; an error is negative.
        result: i64,
    },
    /// `contention_begin` (Linux 5.19 on): [`Event::tid`] waits for a kernel lock.
    ContentionBegin {
        /// The lock's address.
        lock: u64,
        /// `LCB_F_*` of the kernel's `lock.h`.
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
        /// As of [`Body::WorkStart`].
        work: u64,
    },
    /// `binder_transaction`, by its sender.
    BinderTransaction {
        /// Joins it with [`Body::BinderReceived`].
        debug_id: i32,
        /// The number of the node that is called; 0 for a reply.
        target_node: i32,
        /// The receiving process.
        to_proc: u32,
        /// The receiving thread, 0 when any may take it, or the event does not say which.
        to_thread: u32,
        /// Whether it is a reply.
        reply: bool,
        /// The caller's code.
        code: u32,
        /// `TF_*`.
        flags: u32,
    },
    /// `binder_transaction_received`, by its receiver.
    BinderReceived {
        /// As of [`Body::BinderTransaction`].
        debug_id: i32,
    },
    /// `binder_wait_for_work`: [`Event::tid`] begins to read from the driver, and may sleep in it.
    BinderWait {
        /// Whether it takes work of its process too, as a looper does.
        proc_work: bool,
        /// Whether it waits for a reply or serves a call.
        transaction_stack: bool,
        /// Whether something for it is there already.
        thread_todo: bool,
    },
    /// `binder_return`: what [`Event::tid`] reads from the driver.
    BinderReturn {
        /// `BR_*`.
        command: u32,
    },
    /// `binder_set_priority` (Android's kernels).
    BinderSetPriority {
        /// Whose.
        tid: u32,
        /// Before.
        old_prio: i32,
        /// After.
        new_prio: i32,
    },
    /// `print`: what user space wrote to `trace_marker`.
    Print {
        /// The text, without its line's end.
        text: Name,
    },
    /// Any other event; its fields are read by its format.
    Other {
        /// `system/event`.
        event: Name,
        /// Where its bytes begin in the trace's store.
        at: u32,
        /// How many they are.
        length: u32,
    },
}
