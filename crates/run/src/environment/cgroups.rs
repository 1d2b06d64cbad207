//! The control group limits of a run.

use serde::{Deserialize, Serialize};

/// Limits of this process's control groups. A field is `None` if there is no such limit or file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroups {
    /// How many CPUs' worth of time the group may use (v1 cpu.cfs_quota_us / cpu.cfs_period_us, v2
    /// cpu.max): the lowest limit on the path to the root.
    pub cpu_quota_cpus: Option<f64>,
    /// How long the group's real-time threads may run per period, in microseconds (v1
    /// cpu.rt_runtime_us); exists only with CONFIG_RT_GROUP_SCHED.
    pub rt_runtime_us: Option<i64>,
    /// The cpuset's CPUs (v1 cpuset.effective_cpus or cpuset.cpus, v2 cpuset.cpus.effective), in
    /// list format.
    pub cpuset_cpus: Option<String>,
}
