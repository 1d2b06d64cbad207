//! Frequencies and idle states (Documentation/admin-guide/pm/cpufreq.rst, cpuidle.rst). Must not
//! judge any of them.

use roundtrip_run::cpus::cpu_list;
use roundtrip_run::environment::{Facts, Value};

use super::{Kind, one};
use crate::kernel::root::Root;

const CPU: &str = "sys/devices/system/cpu";

/// What to read for each group of CPUs that change frequency together.
const POLICY: [(&str, Kind, &str); 7] = [
    ("cpus", Kind::Text, "related_cpus"),
    ("driver", Kind::Text, "scaling_driver"),
    ("governor", Kind::Text, "scaling_governor"),
    ("hardware_max_khz", Kind::Whole, "cpuinfo_max_freq"),
    ("hardware_min_khz", Kind::Whole, "cpuinfo_min_freq"),
    ("max_khz", Kind::Whole, "scaling_max_freq"),
    ("min_khz", Kind::Whole, "scaling_min_freq"),
];

pub(super) fn read(root: &Root, facts: &mut Facts) {
    let policies = root.names(format!("{CPU}/cpufreq"));
    let policies: Vec<_> = policies.iter().filter(|name| name.starts_with("policy")).take(1024).collect();
    for policy in &policies {
        for (name, kind, file) in POLICY {
            let path = format!("{CPU}/cpufreq/{policy}/{file}");
            facts.note(&format!("cpufreq.{policy}.{name}"), &format!("/{path}"), one(root, kind, &path));
        }
    }
    let number = match policies.len() {
        0 => Err("no cpufreq driver: the hardware or the host chooses frequencies".to_owned()),
        number => Ok(Value::Whole(number as i64)),
    };
    facts.note("cpufreq_policies", "", number);
    // On a machine with different kinds of CPUs, the CPUs with the lowest and the highest number
    // are of different kinds.
    let present = root.read(format!("{CPU}/present")).and_then(|list| cpu_list(&list)).unwrap_or_default();
    let mut ends: Vec<u32> = present.first().into_iter().chain(present.last()).copied().collect();
    ends.dedup();
    idle(root, &ends, facts);
    core_control(root, &present, facts);
}

/// The deepest enabled idle state, and its exit latency.
fn idle(root: &Root, cpus: &[u32], facts: &mut Facts) {
    let mut deepest: Option<(i64, String)> = None;
    let mut from = format!("/{CPU}/cpu*/cpuidle");
    for cpu in cpus {
        let directory = format!("{CPU}/cpu{cpu}/cpuidle");
        for state in root.names(&directory).iter().filter(|name| name.starts_with("state")).take(32) {
            let at = format!("{directory}/{state}");
            if root.read(format!("{at}/disable")).is_some_and(|text| text != "0") {
                continue;
            }
            let Some(latency_us) = root.number::<i64>(format!("{at}/latency")) else { continue };
            if deepest.as_ref().is_none_or(|(most, _)| latency_us > *most) {
                from = format!("/{at}");
                deepest =
                    Some((latency_us, root.read(format!("{at}/name")).unwrap_or_else(|| state.clone())));
            }
        }
    }
    let none = || "no idle states: no cpuidle driver, or the hypervisor controls idling".to_owned();
    let latency = deepest.as_ref().map(|(latency_us, _)| Value::Whole(*latency_us)).ok_or_else(none);
    facts.note("idle_exit_latency_us", &from, latency);
    facts.note(
        "idle_deepest_state",
        &from,
        deepest.ok_or_else(none).and_then(|(_, name)| super::short(name)),
    );
}

/// Core control: the kernels of phone vendors take cores offline and online, depending on load.
fn core_control(root: &Root, cpus: &[u32], facts: &mut Facts) {
    let is_on =
        |cpu: &&u32| root.read(format!("{CPU}/cpu{cpu}/core_ctl/enable")).is_some_and(|text| text != "0");
    let on: Vec<String> = cpus.iter().filter(is_on).map(|cpu| format!("cpu{cpu}")).collect();
    let found = if cpus.is_empty() { Err("no list of CPUs".to_owned()) } else { Ok(Value::Names(on)) };
    facts.note("core_control", &format!("/{CPU}/cpu*/core_ctl/enable"), found);
}
