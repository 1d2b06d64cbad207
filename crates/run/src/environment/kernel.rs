//! The properties of a run's kernel that affect latency.

use serde::{Deserialize, Serialize};

/// Facts about the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The release from uname(2), for example "6.18.2".
    pub release: String,
    /// The version from uname(2), for example "#1 SMP PREEMPT_DYNAMIC …".
    pub version: String,
    /// The machine from uname(2), for example "x86_64".
    pub machine: String,
    /// How kernel code is preempted: "rt", "full", "lazy", "voluntary" or "none".
    pub preemption: Option<String>,
    /// Whether the mode can be changed at run time (PREEMPT_DYNAMIC).
    pub preemption_dynamic: bool,
    /// Timer interrupts per second on a busy CPU (CONFIG_HZ).
    pub hz: Option<u32>,
    /// How long all real-time threads together may run per `sched_rt_period_us`, in microseconds;
    /// -1 for no limit.
    pub sched_rt_runtime_us: Option<i64>,
    /// The period to which `sched_rt_runtime_us` applies, in microseconds.
    pub sched_rt_period_us: Option<i64>,
    /// Whether each session has its own scheduling group (sched_autogroup_enabled, sched(7)).
    pub autogroup: Option<bool>,
    /// Whether /proc/PID/schedstat exists, which provides run-queue delays.
    pub schedstat: bool,
    /// The time slice of a fair thread in nanoseconds (base_slice_ns; needs debugfs).
    pub base_slice_ns: Option<u64>,
}
