//! Fixture trees and the facts read from them.

use roundtrip_run::environment::Facts;

use super::*;
use crate::kernel::root::{Fixture, fixture};

fn facts(root: &Root, config: Option<&str>) -> Facts {
    read(root, config)
}

/// A line of /proc/PID/task/TID/stat.
fn stat(comm: &str, rt_priority: u32, policy: u32) -> String {
    format!("1 ({comm}) S{} {rt_priority} {policy} 0 0\n", " 7".repeat(36))
}

/// A phone: two kinds of cores, schedutil, deep idle states, thermal throttling.
fn phone() -> Fixture {
    fixture(&[
        (
            "system/build.prop",
            "ro.build.type=userdebug\nro.build.version.release=16\nro.build.version.sdk=36\n",
        ),
        ("proc/1/comm", "init\n"),
        ("proc/1234/comm", "system_server\n"),
        ("proc/1234/task/1234/stat", &stat("system_server", 0, 0)),
        ("proc/1234/task/1240/stat", &stat("Binder:1234_1", 0, 0)),
        ("proc/1234/task/1241/stat", &stat("HwBinder:1234_(2)", 0, 0)),
        ("proc/500/comm", "surfaceflinger\n"),
        ("proc/500/task/500/stat", &stat("surfaceflinger", 2, 1)),
        ("proc/500/task/501/stat", &stat("Binder:500_1", 2, 1)),
        ("proc/500/task/502/stat", &stat("RenderEngine", 1, 2)),
        ("proc/self/timerslack_ns", "40000000\n"),
        ("proc/sys/kernel/sched_energy_aware", "1\n"),
        ("proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:   500 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"),
        ("sys/devices/system/cpu/present", "0-7\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "300000\n"),
        ("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "1800000\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "WFI\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "1\n"),
        ("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state1/name", "big-rail-off\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state1/latency", "900\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state1/disable", "0\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state2/name", "off\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state2/latency", "5000\n"),
        ("sys/devices/system/cpu/cpu7/cpuidle/state2/disable", "1\n"),
        ("sys/devices/system/cpu/cpu0/core_ctl/enable", "1\n"),
        ("sys/class/thermal/cooling_device0/type", "thermal-cpufreq-0\n"),
        ("sys/class/thermal/cooling_device0/cur_state", "2\n"),
        ("sys/class/thermal/cooling_device0/max_state", "10\n"),
        ("sys/class/thermal/cooling_device1/type", "thermal-cpufreq-4\n"),
        ("sys/class/thermal/cooling_device1/cur_state", "0\n"),
        ("sys/class/thermal/cooling_device1/max_state", "10\n"),
    ])
}

#[test]
fn facts_of_a_phone_include_android_frequencies_idle_states_and_thermal_limits() {
    let facts = facts(&phone(), None);
    assert_eq!(facts.text("android_build_type"), Ok("userdebug"));
    assert_eq!(facts.text("android_version"), Ok("16"));
    assert_eq!(facts.flag("android_framework"), Ok(true));
    let threads = [
        "system_server: 2 binder threads, real-time: none".to_owned(),
        "surfaceflinger: 1 binder threads, real-time: SCHED_FIFO 2 (2 threads), SCHED_RR 1 (1 threads)"
            .to_owned(),
    ];
    assert_eq!(facts.names("android_framework_threads"), Ok(&threads[..]));
    assert_eq!(facts.whole("timer_slack_ns"), Ok(40_000_000));
    assert_eq!(facts.flag("energy_aware"), Ok(true));
    assert_eq!(facts.whole("memory_available_bytes"), Ok(512_000));
    assert_eq!(facts.whole("cpufreq.policy0.max_khz"), Ok(1_200_000));
    assert_eq!(facts.whole("cpufreq.policy0.hardware_max_khz"), Ok(1_800_000));
    // The deepest enabled state of any CPU.
    assert_eq!(facts.whole("idle_exit_latency_us"), Ok(900));
    assert_eq!(facts.text("idle_deepest_state"), Ok("big-rail-off"));
    assert_eq!(facts.names("core_control"), Ok(&["cpu0".to_owned()][..]));
    assert_eq!(facts.names("thermal_limits"), Ok(&["thermal-cpufreq-0 (2 of 10)".to_owned()][..]));
}

#[test]
fn the_driver_is_known_by_its_events_and_by_what_the_boot_chose() {
    let found = |files: &[(&str, &str)]| {
        let facts = facts(&fixture(files), None);
        let text = |name: &str| facts.text(name).map(str::to_owned).unwrap_or_default();
        [text("binder_driver"), text("binder_locking")]
    };
    let one_lock = [
        ("sys/kernel/tracing/events/binder/binder_transaction/id", "1"),
        ("sys/kernel/tracing/events/binder/binder_lock/id", "2"),
    ];
    assert_eq!(found(&one_lock), ["C", "one lock"]);
    // Newer drivers have the event, too, but nothing emits it.
    let left_over = ("sys/kernel/tracing/events/binder/binder_alloc_lru_start/id", "3");
    assert_eq!(found(&[one_lock[0], one_lock[1], left_over]), ["C", "fine-grained"]);
    assert_eq!(found(&one_lock[..1]), ["C", "fine-grained"]);
    let rust = ("sys/kernel/debug/tracing/events/rust_binder/rust_binder_ioctl/id", "4");
    assert_eq!(found(&[rust]), ["Rust", "fine-grained"]);
    let both = [one_lock[0], one_lock[1], rust];
    assert_eq!(found(&both), ["C", "one lock"]);
    let chosen = ("proc/cmdline", "quiet binder.impl=rust\n");
    assert_eq!(found(&[both[0], both[1], both[2], chosen]), ["Rust", "fine-grained"]);
    // A module without visible events says nothing about locks.
    assert_eq!(found(&[("sys/module/binder/parameters/debug_mask", "7")]), ["C", ""]);
    let facts = facts(&fixture(&[("sys/kernel/tracing/events/sched/enable", "0")]), None);
    assert!(facts.text("binder_driver").unwrap_err().ends_with("no binder driver is loaded"));
    assert!(facts.flag("binder_sets_priority").is_err());
}

#[test]
fn debugging_options_are_read_from_the_kernels_configuration() {
    let config = "CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN_GENERIC=y\n# CONFIG_LOCK_STAT is not set\n\
                  CONFIG_DEBUG_SPINLOCK=n\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_DEBUG_VM_PGFLAGS=y\n";
    let names = |facts: &Facts, name: &str| facts.names(name).map(<[String]>::to_vec);
    let debug = facts(&fixture(&[]), Some(config));
    assert_eq!(names(&debug, "lock_debug_options"), Ok(vec!["PROVE_LOCKING".to_owned()]));
    assert_eq!(names(&debug, "debug_options"), Ok(vec!["KASAN_GENERIC".to_owned()]));
    assert_eq!(debug.flag("rt_group_scheduling"), Ok(true));
    let plain = facts(&fixture(&[]), Some("CONFIG_HZ=250\n"));
    assert_eq!(names(&plain, "lock_debug_options"), Ok(vec![]));
    assert_eq!(plain.flag("rt_group_scheduling"), Ok(false));
    // Without a configuration nothing is claimed, but lockdep is still detected.
    let silent = facts(&fixture(&[]), None);
    assert!(names(&silent, "lock_debug_options").unwrap_err().ends_with("does not show its configuration"));
    let lockdep = facts(&fixture(&[("proc/lockdep_stats", "x\n")]), None);
    assert_eq!(names(&lockdep, "lock_debug_options"), Ok(vec!["PROVE_LOCKING".to_owned()]));
}

#[test]
fn debugfs_is_mounted_only_at_its_place_and_as_itself() {
    for (line, expected) in [
        ("29 24 0:7 / /sys/kernel/debug rw,nosuid - debugfs debugfs rw\n", "mounted"),
        ("29 24 0:7 / /mnt/debug rw,nosuid - debugfs debugfs rw\n", "not mounted"),
        ("29 24 0:7 / /sys/kernel/debug ro - tmpfs none rw\n", "not mounted"),
    ] {
        let facts = facts(&fixture(&[("proc/self/mountinfo", line)]), None);
        assert_eq!(facts.text("debugfs"), Ok(expected), "{line}");
    }
}

#[test]
fn root_of_a_user_namespace_is_not_root() {
    for (uid, map, expected) in [
        ("0", "         0          0 4294967295", "yes"),
        ("0", "         0       1000          1", "in a user namespace"),
        ("1000", "         0          0 4294967295", "no"),
    ] {
        let status = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        let facts = facts(&fixture(&[("proc/self/status", &status), ("proc/self/uid_map", map)]), None);
        assert_eq!(facts.text("root"), Ok(expected), "{uid} {map}");
    }
}

#[test]
fn each_missing_setting_has_a_reason() {
    let nothing = facts(&fixture(&[]), None);
    let everything = facts(&phone(), Some("CONFIG_HZ=250\n"));
    for (name, fact) in nothing.iter().filter(|(name, _)| *name != "tracefs" && *name != "core_control") {
        assert!(fact.value.is_none() && fact.unknown.is_some(), "{name}: {fact:?}");
    }
    // Settings that are missing are still listed.
    let names = |facts: &Facts| facts.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    let of_phone = names(&everything);
    let per_policy: Vec<_> = of_phone.into_iter().filter(|name| !name.starts_with("cpufreq.")).collect();
    assert_eq!(names(&nothing), per_policy);
}

#[test]
fn hostile_files_are_read_in_bounded_time_and_stored_with_bounded_size() {
    let long = "x".repeat(100_000);
    let root = fixture(&[
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", &long),
        ("sys/devices/system/cpu/isolated", "\x1b[2J\x1b]0;gone\x07\n"),
        ("sys/devices/system/cpu/present", &"0-1048576,".repeat(100_000)),
        ("proc/self/timerslack_ns", "99999999999999999999999\n"),
        ("proc/meminfo", "MemTotal: 99999999999999999 kB\nMemAvailable: -5 kB\n"),
        ("proc/stat", "cpu 18446744073709551615 18446744073709551615 0 0 0 0 0 1\n"),
        ("proc/self/status", "CapEff:\tzzz\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always\n"),
        ("proc/sys/kernel/sched_energy_aware", "maybe\n"),
        ("system/build.prop/here", "a directory in the place of a file\n"),
    ]);
    let fifo = root.path("proc/sys/kernel/perf_event_paranoid");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let begin = std::time::Instant::now();
    let facts = facts(&root, None);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    for (name, reason) in [
        ("clocksource", "not a setting: the file has 100000 bytes"),
        ("timer_slack_ns", "is not a whole number"),
        ("memory_bytes", "no MemTotal:"),
        ("stolen_since_boot", "unexpected format"),
        ("capabilities", "no CapEff"),
        ("transparent_hugepages", "is not a choice in brackets"),
        ("energy_aware", "'maybe' is not 0 or 1"),
        ("perf_event_paranoid", "not a regular file"),
        ("android_version", "a directory, not a file"),
    ] {
        let found = facts.value(name).unwrap_err();
        assert!(found.contains(reason), "{name}: {found}");
    }
    // Text is stored unchanged. Whatever shows it must escape it.
    assert_eq!(facts.text("cpus_isolated"), Ok("\x1b[2J\x1b]0;gone\x07"));
    assert!(serde_json::to_string(&facts).unwrap().len() < 20_000);
}

#[test]
fn the_disk_of_a_directory_names_its_scheduler_and_the_cpus_of_its_interrupts() {
    let root = fixture(&[
        ("proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/root rw\n"),
        ("proc/interrupts", " CPU0 CPU1\n 36: 0 851447 PCI-MSIX 1-edge virtio1-req.0\n"),
        ("proc/irq/36/effective_affinity_list", "1\n"),
        ("sys/devices/pci0/virtio1/block/vda/dev", "254:0\n"),
        ("sys/devices/pci0/virtio1/block/vda/queue/scheduler", "none [mq-deadline] kyber\n"),
        ("sys/dev/block/x", ""),
    ]);
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(root.path(to), root.path(from)).unwrap();
    link("sys/dev/block/254:0", "sys/devices/pci0/virtio1/block/vda");
    link("sys/devices/pci0/virtio1/block/vda/device", "sys/devices/pci0/virtio1");
    let mut facts = Facts::default();
    disk::of(&root, std::path::Path::new("/data"), (254, 0), &mut facts);
    assert_eq!(facts.names("disk"), Ok(&["vda".to_owned()][..]));
    assert_eq!(facts.names("disk.vda.interrupts"), Ok(&["36".to_owned()][..]));
    assert_eq!(facts.text("disk.vda.scheduler"), Ok("mq-deadline"));
    assert_eq!(facts.names("disk.vda.interrupt_cpus"), Ok(&["1".to_owned()][..]));
    let mut facts = Facts::default();
    disk::of(&fixture(&[]), std::path::Path::new("/data"), (254, 0), &mut facts);
    assert!(facts.value("disk").unwrap_err().contains("mountinfo does not name it"));
}
