//! The kernel that a run was made on, as far as it bears on latency.

use serde::{Deserialize, Serialize};

/// What is known of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// "6.18.2", uname(2).
    pub release: String,
    /// "#1 SMP PREEMPT_DYNAMIC …", uname(2).
    pub version: String,
    /// "x86_64", uname(2).
    pub machine: String,
    /// How kernel code is preempted: "rt", "full", "lazy", "voluntary" or "none".
    pub preemption: Option<String>,
    /// Whether that can be changed at run time (PREEMPT_DYNAMIC).
    pub preemption_dynamic: bool,
    /// Timer interrupts per second on a busy CPU (CONFIG_HZ).
    pub hz: Option<u32>,
    /// Microseconds out of `sched_rt_period_us` that real-time threads get, all together; -1 is no
    /// limit.
    pub sched_rt_runtime_us: Option<i64>,
    /// The period that goes with it, in microseconds.
    pub sched_rt_period_us: Option<i64>,
    /// Whether each session is a scheduling group of its own (sched_autogroup_enabled, sched(7)).
    pub autogroup: Option<bool>,
    /// Whether /proc/PID/schedstat exists, which run-queue delays are read from.
    pub schedstat: bool,
    /// How many nanoseconds a fair thread runs before another gets its turn (base_slice_ns; needs
    /// debugfs).
    pub base_slice_ns: Option<u64>,
}
