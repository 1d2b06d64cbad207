//! The machine's CPUs: model, number, frequency, idle states, caches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts about the CPUs. `None` means unknown or absent. If that matters,
/// [`super::Environment::missing`] says so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpus {
    /// The model name, or implementer and part if the kernel knows no name (arm64).
    pub model: Option<String>,
    /// How many CPUs the machine has, including offline ones.
    pub present: Option<u32>,
    /// How many CPUs are online.
    pub online: Option<u32>,
    /// The CPUs that this process may use, considering affinity and cpuset.
    pub usable: Vec<u32>,
    /// Maximum frequency of CPU 0 in MHz; without cpufreq, the frequency in /proc/cpuinfo.
    pub mhz: Option<f64>,
    /// CPUs by frequency governor; `None` without a cpufreq driver.
    pub governors: Option<BTreeMap<String, Vec<u32>>>,
    /// The cpuidle driver; `None` if there is none.
    pub idle_driver: Option<String>,
    /// The cpuidle governor; `None` without a driver.
    pub idle_governor: Option<String>,
    /// Whether CPUs share cores (simultaneous multi-threading).
    pub smt: Option<bool>,
    /// The relative capacity of each CPU, if CPUs differ (big.LITTLE). The fastest CPUs have 1024.
    pub capacities: Option<Vec<u32>>,
    /// Whether the machine is virtual; `None` if unknown.
    pub virtualised: Option<bool>,
    /// Caches of CPU 0, closest first.
    pub caches: Vec<Cache>,
}

/// A cache of CPU 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// "Data", "Instruction" or "Unified".
    pub kind: String,
    /// 1 is the closest.
    pub level: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// How many CPUs share it.
    pub sharing_cpus: u32,
}

impl Cpus {
    /// Whether frequencies can change during a measurement, that is, some governor is not
    /// "performance". `None` without cpufreq.
    #[must_use]
    pub fn scaling_enabled(&self) -> Option<bool> {
        Some(self.governors.as_ref()?.keys().any(|governor| governor != "performance"))
    }
}
