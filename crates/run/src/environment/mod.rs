//! The environment of a run: everything about the machine that can lengthen a round trip. A fact
//! that could not be determined is `None` and listed in [`Environment::missing`], never guessed.
//! Must not know how facts are found.

mod cgroups;
mod changes;
mod cpus;
mod facts;
mod kernel;
mod share;

pub use cgroups::Cgroups;
pub use changes::Change;
pub use cpus::{Cache, Cpus};
pub use facts::{Fact, Facts, Value};
pub use kernel::Kernel;
pub use share::CpuShares;

use serde::{Deserialize, Serialize};

use crate::scheduling::RealtimePermission;

/// The machine and the program at the time of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// When the run was made: RFC 3339, UTC.
    pub date: String,
    /// Roundtrip's own version.
    pub roundtrip_version: String,
    /// "release" or "debug". A debug build's figures must not be compared with others.
    pub build_profile: String,
    /// The machine's host name.
    pub host_name: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The processors.
    pub cpus: Cpus,
    /// Load averages over 1, 5 and 15 minutes (proc_loadavg(5)).
    pub load_average: Option<[f64; 3]>,
    /// Limits of this process's control groups.
    pub cgroups: Cgroups,
    /// Whether SCHED_FIFO is permitted.
    pub realtime: RealtimePermission,
    /// The cost of one clock reading, in nanoseconds.
    pub clock_read_cost_ns: f64,
    /// Existing binder devices, usable or not: "/dev/binder", "/dev/binderfs/hwbinder".
    pub binder_devices: Vec<String>,
    /// The driver that was measured: "emulated", or the kernel's with its device. `None` if no
    /// driver was involved.
    pub driver: Option<String>,
    /// Which processes used the CPUs during the run; set at its end.
    pub cpu_shares: Option<CpuShares>,
    /// What changed on the machine during the run, by time; set at its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Settings of the kernel and the system that affect latency, and memory sizes, by name.
    pub facts: Facts,
    /// What could not be determined, and why that matters.
    pub missing: Vec<String>,
}

/// If other processes, or the hypervisor, use at least this share of the CPU time, the run gets a
/// warning. Less is usual on virtual machines, and slow calls say how much of it was theirs.
const LARGE_SHARE: f64 = 0.05;

impl Environment {
    /// Warnings about the environment, which make all figures of a run doubtful. If other programs
    /// were `observed`, there is no warning about this program's build or the CPUs' load: this
    /// program was not measured, and the load is what was observed.
    pub(crate) fn warnings(&self, observed: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.build_profile != "release" && !observed {
            warnings.push(
                "this is a debug build, whose figures are too high: measure with a release build".to_owned(),
            );
        }
        let mut said = Vec::new();
        if let Some(shares) = self.cpu_shares {
            if shares.foreign >= LARGE_SHARE && !observed {
                said.push(Change::FOREIGN_TIME);
                let percent = shares.foreign * 100.0;
                warnings.push(format!(
                    "other processes used {percent:.0}% of all CPU time during the run: repeat it on a quieter machine"
                ));
            }
            if shares.stolen >= LARGE_SHARE {
                said.push(Change::STOLEN_TIME);
                let percent = shares.stolen * 100.0;
                warnings.push(format!("the hypervisor took {percent:.0}% of all CPU time during the run"));
            }
        }
        warnings.extend(changes::warnings(&self.changes, &said));
        if let Some(quota) = self.cgroups.cpu_quota_cpus {
            warnings.push(format!(
                "the control group allows only {quota} CPUs' time: the kernel may pause the run"
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbances_of_a_run_are_warnings() {
        let mut environment = Environment { build_profile: "release".into(), ..Environment::default() };
        environment.cgroups.cpu_quota_cpus = None;
        environment.cpu_shares = Some(CpuShares { own: 0.9, foreign: 0.04, stolen: 0.04 });
        assert_eq!(environment.warnings(false), Vec::<String>::new());
        environment.build_profile = "debug".into();
        environment.cgroups.cpu_quota_cpus = Some(0.5);
        environment.cpu_shares = Some(CpuShares { own: 0.5, foreign: 0.12, stolen: 0.07 });
        let warnings = environment.warnings(false).join("\n");
        for hint in ["debug build", "12%", "hypervisor took 7%", "0.5 CPUs"] {
            assert!(warnings.contains(hint), "{warnings}");
        }
    }
}
