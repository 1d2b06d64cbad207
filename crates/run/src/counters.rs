//! The scheduler's counters of one thread. Must not know where they are read from.

use serde::{Deserialize, Serialize};

/// The scheduler's counters of one thread since its start, or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// How often the thread gave up the CPU to wait for something (proc_pid_status(5)).
    pub voluntary_switches: u64,
    /// How often the thread was preempted.
    pub involuntary_switches: u64,
    /// How often the thread migrated to another CPU (/proc/PID/sched); `None` if the kernel does
    /// not report it. In that case, use the CPUs in the samples instead.
    pub migrations: Option<u64>,
    /// Nanoseconds on a CPU; `None` without schedstat.
    pub running_ns: Option<u64>,
    /// Nanoseconds runnable but waiting for a CPU; `None` without schedstat.
    pub run_delay_ns: Option<u64>,
}

impl ThreadCounters {
    /// The difference between this reading and an earlier one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let both = |later: Option<u64>, earlier: Option<u64>| Some(later?.saturating_sub(earlier?));
        Self {
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            migrations: both(self.migrations, earlier.migrations),
            running_ns: both(self.running_ns, earlier.running_ns),
            run_delay_ns: both(self.run_delay_ns, earlier.run_delay_ns),
        }
    }

    /// The sum of both threads' counters. A counter that either thread lacks is `None`.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            migrations: both(self.migrations, other.migrations),
            running_ns: both(self.running_ns, other.running_ns),
            run_delay_ns: both(self.run_delay_ns, other.run_delay_ns),
        }
    }
}
