//! What is known of one slow round trip besides the kernel's events: its instants, its two threads,
//! and what counters said. Plain numbers, so that whoever measured needs nothing of this crate, and
//! this crate nothing of theirs.

/// One round trip to explain. Instants are of the recording's clock (CLOCK_BOOTTIME), in
/// nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the client began the call.
    pub start_ns: u64,
    /// When the server's handler began, by the server's stamp.
    pub received_ns: Option<u64>,
    /// When the server's handler ended, by the server's stamp.
    pub replied_ns: Option<u64>,
    /// When the client had the reply.
    pub end_ns: u64,
    /// The caller.
    pub client: Side,
    /// Who served; `None` when the call stayed in the client's process.
    pub server: Option<Side>,
    /// The deadline that was missed, in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// How long such a round trip usually takes (the median of its run), in nanoseconds: work up to
    /// this is no cause.
    pub usual_ns: Option<u64>,
    /// Whether the machine is a virtual one: then a CPU may stop without anything in the machine
    /// noticing.
    pub virtualised: bool,
}

impl RoundTrip {
    /// Whether counters were counted over this round trip and little else: what they gained is then
    /// this round trip's.
    pub(crate) fn is_counted_alone(&self, counters: &Counters) -> bool {
        let before_ns = self.start_ns.saturating_sub(counters.since_ns.unwrap_or(self.start_ns));
        before_ns <= self.duration_ns() / 10
    }

    /// Its length in nanoseconds; 0 if the clock went backwards.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// One of the two threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Its process.
    pub pid: u32,
    /// The thread; `None` where it is not known, and is then taken from the wake-ups.
    pub tid: Option<u32>,
    /// The kernel's priority while it called or served, as `task_struct.prio`: below 100 real-time.
    pub prio: Option<i32>,
    /// What counters said.
    pub counters: Counters,
}

/// What counters of a thread, and of its control group, gained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Nanoseconds on the thread's own CPU clock, between the round trip's two ends and no longer.
    pub cpu_ns: Option<u64>,
    /// From when on the figures below were counted; they end just after the round trip. `None`:
    /// since its start.
    pub since_ns: Option<u64>,
    /// Nanoseconds on a CPU (schedstat).
    pub running_ns: Option<u64>,
    /// Nanoseconds runnable without a CPU (schedstat).
    pub run_delay_ns: Option<u64>,
    /// Times that the thread gave up the CPU to wait.
    pub voluntary_switches: Option<u64>,
    /// Times that the CPU was taken from it.
    pub involuntary_switches: Option<u64>,
    /// Page faults that had to wait for a device.
    pub major_faults: Option<u64>,
    /// Periods in which the control group had used up its CPU quota (`nr_throttled` of `cpu.stat`).
    pub throttled: Option<u64>,
    /// For how long, all its CPUs together (`throttled_usec` or `throttled_time`), in nanoseconds.
    pub throttled_ns: Option<u64>,
}

impl Counters {
    /// Whether the control group is known to have been throttled meanwhile.
    #[must_use]
    pub fn was_throttled(&self) -> bool {
        self.throttled.is_some_and(|times| times > 0) || self.throttled_ns.is_some_and(|ns| ns > 0)
    }
}
