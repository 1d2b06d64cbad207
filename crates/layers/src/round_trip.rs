//! What is known about one slow round trip besides the kernel's events: timestamps, the two
//! threads, and counters. Plain numbers, so that neither the measuring code nor this crate needs
//! the other.

use roundtrip_vocabulary::CallCounters;

/// One round trip to explain. Times are in nanoseconds of the recording's clock (CLOCK_BOOTTIME).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the client started the call.
    pub start_ns: u64,
    /// When the server's handler started, by the server's timestamp.
    pub received_ns: Option<u64>,
    /// When the server's handler ended, by the server's timestamp.
    pub replied_ns: Option<u64>,
    /// When the client had the reply.
    pub end_ns: u64,
    /// The caller.
    pub client: Side,
    /// The server; `None` if the call stayed in the client's process.
    pub server: Option<Side>,
    /// The deadline that was missed, in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// The usual duration of such a round trip (the median of its run), in nanoseconds. Work up to
    /// this duration is not a cause.
    pub usual_ns: Option<u64>,
    /// Whether the machine is virtual. If so, the hypervisor may stop a CPU unnoticed.
    pub virtualised: bool,
}

impl RoundTrip {
    /// Whether counters cover this round trip and little else. Then any increase belongs to it.
    pub(crate) fn is_counted_alone(&self, counters: &CallCounters) -> bool {
        let before_ns = self.start_ns.saturating_sub(counters.since_ns.unwrap_or(self.start_ns));
        before_ns <= self.duration_ns() / 10
    }

    /// Its duration in nanoseconds; 0 if the clock went backwards.
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
    /// The thread; `None` if unknown. Then it is derived from wakeups.
    pub tid: Option<u32>,
    /// The kernel's priority while it called or served, as `task_struct.prio`: below 100 real-time.
    pub prio: Option<i32>,
    /// Its counters.
    pub counters: CallCounters,
}
