//! What the scheduler did to one thread. Counts only; must not know where they are read from.

use serde::{Deserialize, Serialize};

/// Counts of one thread since it began, or between two looks at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// Times that it gave up the CPU because it waited for something (proc_pid_status(5)).
    pub voluntary_switches: u64,
    /// Times that the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Times that it was moved to another CPU (/proc/PID/sched); `None` where the kernel does not
    /// tell. Then count the CPUs that the samples name.
    pub migrations: Option<u64>,
    /// Nanoseconds on a CPU; `None` without schedstat.
    pub running_ns: Option<u64>,
    /// Nanoseconds that it was runnable and waited for a CPU; `None` without schedstat.
    pub run_delay_ns: Option<u64>,
}

impl ThreadCounters {
    /// What was added since an earlier look.
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

    /// Both threads' counts together; what one of them does not tell is not told of both.
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
