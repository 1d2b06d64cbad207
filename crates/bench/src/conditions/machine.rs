//! The conditions of the machine and of this process. Must not know what they were before.

use super::Reading;
use crate::kernel::cgroup;
use crate::kernel::root::Root;

const CPU: &str = "sys/devices/system/cpu";

/// What can be read in some microseconds.
pub(super) fn glimpse(root: &Root) -> Option<Reading> {
    Some(Reading { what: "online CPUs".to_owned(), pid: 0, value: root.read(format!("{CPU}/online"))? })
}

/// All conditions that can be read.
pub(super) fn read(root: &Root) -> Vec<Reading> {
    let limits = cgroup::limits(root);
    let status = root.read("proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let quota = limits.cpu_quota_cpus.map_or("none".to_owned(), |cpus| format!("{cpus} CPUs"));
    let mut all: Vec<(String, Option<String>)> = [
        ("CPUs of this process", allowed.map(|cpus| cpus.trim().to_owned())),
        ("CPUs of the control group", limits.cpuset_cpus),
        ("CPU quota", Some(quota)),
        ("clock source", root.read("sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("thermal throttling", throttling(root)),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .into();
    for policy in root.names(format!("{CPU}/cpufreq")).iter().filter(|name| name.starts_with("policy")) {
        let file = |name: &str| root.read(format!("{CPU}/cpufreq/{policy}/{name}"));
        all.push((format!("governor of {policy}"), file("scaling_governor")));
        let limit = file("scaling_max_freq").map(|khz| format!("{khz} kHz"));
        all.push((format!("frequency limit of {policy}"), limit));
    }
    let known = all.into_iter().filter_map(|(what, value)| Some(Reading { what, pid: 0, value: value? }));
    glimpse(root).into_iter().chain(known).collect()
}

/// Whether any device that cools by slowing down CPUs does so; `None` without such a device
/// (Documentation/driver-api/thermal/sysfs-api.rst).
fn throttling(root: &Root) -> Option<String> {
    const THERMAL: &str = "sys/class/thermal";
    let devices = root.names(THERMAL).into_iter().filter(|name| name.starts_with("cooling_device"));
    let slows = devices.filter(|device| {
        let kind = root.read(format!("{THERMAL}/{device}/type")).unwrap_or_default();
        ["Processor", "thermal-cpufreq", "cpufreq-cpu"].iter().any(|one| kind.starts_with(one))
    });
    let mut states = slows.filter_map(|device| root.number::<u64>(format!("{THERMAL}/{device}/cur_state")));
    let first = states.next()?;
    Some(if first > 0 || states.any(|state| state > 0) { "on" } else { "off" }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    #[test]
    fn conditions_are_those_of_the_machine() {
        let root = fixture(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1800000\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/class/thermal/cooling_device0/type", "Processor\n"),
            ("sys/class/thermal/cooling_device0/cur_state", "0\n"),
            ("sys/class/thermal/cooling_device1/type", "Processor\n"),
            ("sys/class/thermal/cooling_device1/cur_state", "3\n"),
            ("sys/class/thermal/cooling_device2/type", "Fan\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\n"),
        ]);
        assert_eq!(glimpse(&root).unwrap(), read(&root)[0]);
        let mut found: Vec<_> = read(&root).into_iter().map(|one| (one.what, one.value)).collect();
        found.sort();
        let expected = [
            ("CPU quota", "none"),
            ("CPUs of this process", "0-1"),
            ("clock source", "tsc"),
            ("frequency limit of policy0", "1800000 kHz"),
            ("governor of policy0", "schedutil"),
            ("online CPUs", "0-3"),
            ("thermal throttling", "on"),
        ];
        assert_eq!(found, expected.map(|(what, value)| (what.to_owned(), value.to_owned())));
    }
}
