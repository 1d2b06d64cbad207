//! The machine's processors: model, number, frequency, idle states, caches. Reads /proc/cpuinfo and
//! sysfs (Documentation/ABI/testing/sysfs-devices-system-cpu). Must not know what runs on them.

use std::collections::BTreeMap;

use roundtrip_run::cpus::cpu_list;
use roundtrip_run::environment::{Cache, Cpus};
use roundtrip_sorting::SmallSort as _;

use crate::kernel::root::Root;

const CPU: &str = "sys/devices/system/cpu";

/// Reads the processors. `usable` are the CPUs that this process may use.
pub(super) fn read(root: &Root, usable: Vec<u32>) -> Cpus {
    let info = root.read("proc/cpuinfo").unwrap_or_default();
    let list = |name: &str| cpu_list(&root.read(format!("{CPU}/{name}"))?);
    let present = list("present");
    let numbers = present.clone().unwrap_or_default();
    let idle = |name: &str| root.read(format!("{CPU}/cpuidle/{name}")).filter(|text| text != "none");
    let idle_driver = idle("current_driver");
    Cpus {
        model: model(&info),
        online: list("online").map(|cpus| cpus.len() as u32),
        usable,
        mhz: mhz(root, &info),
        governors: governors(root, &numbers),
        idle_governor: idle_driver
            .as_ref()
            .and_then(|_| idle("current_governor").or_else(|| idle("current_governor_ro"))),
        idle_driver,
        smt: root.number(format!("{CPU}/smt/active")).map(|active: u8| active != 0),
        capacities: capacities(root, &numbers),
        virtualised: virtualised(root, &info),
        caches: caches(root),
        present: present.map(|cpus| cpus.len() as u32),
    }
}

/// A field of the first CPU in /proc/cpuinfo.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
        .filter(|value| !value.is_empty())
}

fn model(info: &str) -> Option<String> {
    if let Some(name) = field(info, "model name").or_else(|| field(info, "Hardware")) {
        return Some(name.to_owned());
    }
    let (implementer, part) = (field(info, "CPU implementer")?, field(info, "CPU part")?);
    Some(format!("implementer {implementer}, part {part}"))
}

fn mhz(root: &Root, info: &str) -> Option<f64> {
    let max_khz: Option<f64> = root.number(format!("{CPU}/cpu0/cpufreq/cpuinfo_max_freq"));
    max_khz.map(|khz| khz / 1000.0).or_else(|| field(info, "cpu MHz")?.parse().ok())
}

fn governors(root: &Root, cpus: &[u32]) -> Option<BTreeMap<String, Vec<u32>>> {
    let mut governors = BTreeMap::<String, Vec<u32>>::new();
    for &cpu in cpus {
        if let Some(governor) = root.read(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")) {
            governors.entry(governor).or_default().push(cpu);
        }
    }
    (!governors.is_empty()).then_some(governors)
}

fn capacities(root: &Root, cpus: &[u32]) -> Option<Vec<u32>> {
    let capacities: Option<Vec<u32>> =
        cpus.iter().map(|cpu| root.number(format!("{CPU}/cpu{cpu}/cpu_capacity"))).collect();
    capacities.filter(|all| all.iter().any(|capacity| Some(capacity) != all.first()))
}

fn virtualised(root: &Root, info: &str) -> Option<bool> {
    if root.has("sys/hypervisor/type") || root.has("proc/device-tree/hypervisor") {
        return Some(true);
    }
    // Only x86 has this flag, so only x86 can say no.
    Some(field(info, "flags")?.split(' ').any(|flag| flag == "hypervisor"))
}

fn caches(root: &Root) -> Vec<Cache> {
    let directory = format!("{CPU}/cpu0/cache");
    let mut caches: Vec<Cache> = root
        .names(&directory)
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| {
            let read = |file: &str| root.read(format!("{directory}/{name}/{file}"));
            Some(Cache {
                kind: read("type")?,
                level: read("level")?.parse().ok()?,
                size_bytes: size(&read("size")?)?,
                sharing_cpus: cpu_list(&read("shared_cpu_list")?)?.len() as u32,
            })
        })
        .collect();
    caches.small_sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

/// Parses sysfs sizes such as "512K" and "8M".
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    Some(digits.parse::<u64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    #[test]
    fn a_virtual_pc_without_frequency_scaling_has_no_governors() {
        let root = fixture(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2596.122\nflags\t\t: fpu hypervisor avx\n\n\
                 processor\t: 1\nmodel name\t: AMD EPYC\n",
            ),
            ("sys/devices/system/cpu/present", "0-1\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpuidle/current_driver", "none\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpu0/cache/index3/level", "3\n"),
            ("sys/devices/system/cpu/cpu0/cache/index3/type", "Unified\n"),
            ("sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n"),
            ("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
            ("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0\n"),
        ]);
        let cache = |kind: &str, level, size_bytes, sharing_cpus| Cache {
            kind: kind.into(),
            level,
            size_bytes,
            sharing_cpus,
        };
        let expected = Cpus {
            model: Some("AMD EPYC".into()),
            present: Some(2),
            online: Some(2),
            usable: vec![1],
            mhz: Some(2596.122),
            smt: Some(false),
            virtualised: Some(true),
            caches: vec![cache("Data", 1, 48 << 10, 1), cache("Unified", 3, 32 << 20, 2)],
            ..Cpus::default()
        };
        assert_eq!(read(&root, vec![1]), expected);
    }

    #[test]
    fn a_phone_with_two_kinds_of_cores_shows_governors_idling_and_capacities() {
        let root = fixture(&[
            ("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n"),
            ("sys/devices/system/cpu/present", "0-1\n"),
            ("sys/devices/system/cpu/online", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "1785600\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "462\n"),
            ("sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpuidle/current_driver", "psci_idle\n"),
            ("sys/devices/system/cpu/cpuidle/current_governor", "menu\n"),
        ]);
        let cpus = read(&root, vec![0]);
        assert_eq!(cpus.model.as_deref(), Some("implementer 0x41, part 0xd05"));
        assert_eq!((cpus.present, cpus.online, cpus.mhz), (Some(2), Some(1), Some(1785.6)));
        assert_eq!(cpus.scaling_enabled(), Some(true));
        assert_eq!(cpus.capacities, Some(vec![462, 1024]));
        assert_eq!(cpus.idle_driver.as_deref(), Some("psci_idle"));
        assert_eq!(cpus.idle_governor.as_deref(), Some("menu"));
        assert_eq!(cpus.virtualised, None);
    }

    #[test]
    fn on_a_machine_without_any_files_all_facts_are_none() {
        assert_eq!(read(&fixture(&[]), vec![]), Cpus::default());
        assert_eq!(Cpus::default().scaling_enabled(), None);
    }
}
