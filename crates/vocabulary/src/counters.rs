//! What the kernel counted during one call.

use serde::{Deserialize, Serialize};

/// The kernel's counters of a thread, from just before a call until just after it. A counter is
/// `None` if the kernel did not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounters {
    /// When counting started, for all but `cpu_ns`, in nanoseconds (CLOCK_BOOTTIME). `None` if at
    /// the start of the call.
    pub since_ns: Option<u64>,
    /// CPU time of the thread in the call (CLOCK_THREAD_CPUTIME_ID), in nanoseconds. Only the
    /// thread itself can read it.
    pub cpu_ns: Option<u64>,
    /// Nanoseconds on a CPU (/proc/PID/schedstat).
    pub running_ns: Option<u64>,
    /// Nanoseconds runnable but waiting for a CPU (/proc/PID/schedstat).
    pub run_delay_ns: Option<u64>,
    /// How often the thread gave up the CPU to wait (getrusage(2)).
    pub voluntary_switches: Option<u64>,
    /// How often the thread was preempted.
    pub involuntary_switches: Option<u64>,
    /// Page faults that waited for a device.
    pub major_faults: Option<u64>,
    /// Periods in which the thread's control groups exhausted a CPU quota (`nr_throttled` in
    /// cpu.stat); 0 without a quota.
    pub throttled: Option<u64>,
    /// How long the groups were throttled, summed over the groups' CPUs, in nanoseconds.
    pub throttled_ns: Option<u64>,
}

impl CallCounters {
    /// Whether a control group was certainly throttled.
    #[must_use]
    pub fn was_throttled(&self) -> bool {
        self.throttled.is_some_and(|times| times > 0) || self.throttled_ns.is_some_and(|ns| ns > 0)
    }
}
