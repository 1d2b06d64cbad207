//! The environment of a run: everything about the machine that can lengthen a round trip, read once
//! and stored with the result. Facts that cannot be determined are `None` and listed, never
//! guessed. Must not change or judge anything.

mod cpus;
mod date;
mod facts;
mod kernel;
mod share;

pub use date::now;
pub use share::CpuTimes;

use roundtrip_run::RealtimePermission;
use roundtrip_run::environment::Environment;

use crate::clock;
use crate::kernel::cgroup;
use crate::kernel::root::Root;
use crate::sched::{allowed_cpus, realtime_permission};

/// Reads the running machine's environment. Takes a few milliseconds, mostly to measure the cost of
/// a clock reading and to try SCHED_FIFO.
#[must_use]
pub fn collect() -> Environment {
    let root = Root::real();
    let usable = allowed_cpus(0).unwrap_or_default();
    let mut environment = of(&root, usable, realtime_permission(), clock::read_cost_ns());
    facts::disk::read(&root, std::env::current_dir(), &mut environment.facts);
    environment
        .missing
        .extend(roundtrip_tracefs::foreign_clock().map(|why| format!("the machine's clock: {why}")));
    environment
}

/// Reads the environment of the machine whose files are below `root`: the real one, or a fixture.
/// The kernel's name is always that of the running kernel. `usable` are the CPUs that this process
/// may use. `clock_read_cost_ns` is the cost of one clock reading.
#[must_use]
pub fn of(
    root: &Root,
    usable: Vec<u32>,
    realtime: RealtimePermission,
    clock_read_cost_ns: f64,
) -> Environment {
    let config = kernel::own_config(root);
    let mut environment = Environment {
        date: date::now(),
        roundtrip_version: env!("CARGO_PKG_VERSION").into(),
        build_profile: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
        host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        kernel: kernel::read(root, config.as_deref().unwrap_or_default()),
        cpus: cpus::read(root, usable),
        load_average: load_average(root),
        cgroups: cgroup::limits(root),
        realtime,
        clock_read_cost_ns,
        binder_devices: binder_devices(root),
        driver: None,
        cpu_shares: None,
        changes: Vec::new(),
        facts: facts::read(root, config.as_deref()),
        missing: Vec::new(),
    };
    environment.missing = missing(&environment, root.has("proc/self/stat"));
    environment
}

fn load_average(root: &Root) -> Option<[f64; 3]> {
    let text = root.read("proc/loadavg")?;
    let mut numbers = text.split(' ').map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// Binder devices under Android's names, directly in /dev and in a binderfs at the usual mount
/// points.
fn binder_devices(root: &Root) -> Vec<String> {
    ["/dev", "/dev/binderfs"]
        .iter()
        .flat_map(|directory| ["binder", "hwbinder", "vndbinder"].map(|name| format!("{directory}/{name}")))
        .filter(|path| root.has(path))
        .collect()
}

fn missing(environment: &Environment, has_proc: bool) -> Vec<String> {
    let Environment { kernel, cpus, .. } = environment;
    let facts = [
        (cpus.model.is_none(), "CPU model: /proc/cpuinfo names none"),
        (cpus.mhz.is_none(), "CPU frequency: neither cpufreq nor /proc/cpuinfo shows it"),
        (cpus.governors.is_none(), "frequency governor: no cpufreq driver"),
        (cpus.idle_driver.is_none(), "idle states: no cpuidle driver"),
        (cpus.virtualised.is_none(), "virtual machine or not: this architecture does not show it"),
        (
            kernel.preemption.is_none(),
            "preemption mode: not in the version, debugfs, boot parameters or configuration",
        ),
        (kernel.hz.is_none(), "tick rate: no /proc/config.gz and no /boot/config-*"),
        (!kernel.schedstat && has_proc, "run-queue delay: the kernel has no schedstat (CONFIG_SCHED_INFO)"),
        (
            !kernel.schedstat && !has_proc,
            "run-queue delay: /proc is not mounted, or does not show this process",
        ),
        (environment.load_average.is_none(), "load average: no /proc/loadavg"),
        (environment.binder_devices.is_empty(), "binder device: none in /dev or /dev/binderfs"),
    ];
    facts.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, text)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    fn of(root: &Root) -> Environment {
        super::of(root, vec![0], RealtimePermission::Allowed { max_priority: 99 }, 25.0)
    }

    #[test]
    fn missing_facts_are_listed() {
        let environment = of(&fixture(&[]));
        assert_eq!(environment.cpus.mhz, None);
        assert_eq!(environment.missing.len(), 10, "{:?}", environment.missing);
    }

    #[test]
    fn known_facts_are_not_listed_as_missing() {
        let environment = of(&fixture(&[
            ("proc/loadavg", "0.50 0.25 0.10 1/200 4711\n"),
            ("dev/binderfs/binder", ""),
            ("dev/vndbinder", ""),
            ("proc/self/schedstat", "1 2 3\n"),
        ]));
        assert_eq!(environment.load_average, Some([0.5, 0.25, 0.1]));
        assert_eq!(environment.binder_devices, ["/dev/vndbinder", "/dev/binderfs/binder"]);
        assert_eq!(environment.missing.len(), 7, "{:?}", environment.missing);
    }

    #[test]
    fn the_environment_of_this_machine_is_read_back_as_stored() {
        let environment = collect();
        assert!(!environment.cpus.usable.is_empty());
        let stored = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&stored).unwrap(), environment);
    }
}
