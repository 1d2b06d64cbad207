//! Findings for machines that differ in one setting.

use std::collections::BTreeSet;

use roundtrip_run::RealtimePermission;
use roundtrip_run::environment::{Environment, Value};

use super::*;

/// A machine on which all settings are known and good.
fn good() -> Environment {
    let mut machine = Environment { load_average: Some([0.0; 3]), ..Environment::default() };
    machine.realtime = RealtimePermission::Allowed { max_priority: 99 };
    machine.kernel.release = "6.6.30-android15".into();
    machine.kernel.preemption = Some("full".into());
    machine.kernel.hz = Some(250);
    machine.kernel.sched_rt_runtime_us = Some(-1);
    machine.kernel.sched_rt_period_us = Some(1_000_000);
    machine.cpus.governors = Some([("performance".to_owned(), vec![0, 1])].into());
    machine.cpus.usable = vec![0, 1];
    (machine.cpus.present, machine.cpus.online) = (Some(2), Some(2));
    (machine.cpus.smt, machine.cpus.virtualised) = (Some(false), Some(false));
    let names = |names: &[&str]| Value::Names(names.iter().map(|&name| name.to_owned()).collect());
    let text = |text: &str| Value::Text(text.to_owned());
    for (name, value) in [
        ("lock_debug_options", names(&[])),
        ("debug_options", names(&[])),
        ("rt_group_scheduling", Value::Flag(false)),
        ("tracer", text("nop")),
        ("android_build_type", text("userdebug")),
        ("android_framework", Value::Flag(false)),
        ("android_framework_threads", names(&["system_server: 31 binder threads, real-time: none"])),
        ("cpufreq_policies", Value::Whole(1)),
        ("cpufreq.policy0.min_khz", Value::Whole(1_800_000)),
        ("cpufreq.policy0.max_khz", Value::Whole(1_800_000)),
        ("cpufreq.policy0.hardware_max_khz", Value::Whole(1_800_000)),
        ("thermal_limits", names(&[])),
        ("idle_exit_latency_us", Value::Whole(1)),
        ("idle_deepest_state", text("WFI")),
        ("stolen_since_boot", Value::Number(0.0)),
        ("left_behind", names(&[])),
        ("clocksource", text("arch_sys_counter")),
        ("energy_aware", Value::Flag(false)),
        ("core_control", names(&[])),
        ("binder_usable", names(&["/dev/binder"])),
        ("binder_features", names(&["extended_error"])),
        ("binder_driver", text("C")),
        ("binder_locking", text("fine-grained")),
        ("memory_bytes", Value::Whole(8 << 30)),
        ("memory_available_bytes", Value::Whole(4 << 30)),
        ("transparent_hugepages", text("madvise")),
        ("transparent_hugepages_defrag", text("madvise")),
        ("timer_slack_ns", Value::Whole(50_000)),
        ("disk", names(&["vda"])),
        ("disk.vda.scheduler", text("none")),
        ("disk.vda.interrupt_cpus", names(&["0", "1"])),
        ("tracefs", text("mounted")),
        ("capabilities", names(&["CAP_SYS_NICE", "CAP_SYS_ADMIN"])),
    ] {
        machine.facts.note(name, "", Ok(value));
    }
    machine
}

fn finding(machine: &Environment, check: &str) -> Finding {
    judge(machine).into_iter().find(|finding| finding.check == check).expect("is a check")
}

#[test]
fn a_machine_without_a_bad_setting_is_good_in_every_check() {
    for finding in judge(&good()) {
        assert_eq!(finding.state, State::Good, "{finding:?}");
    }
}

fn text(machine: &mut Environment, name: &str, value: &str) {
    machine.facts.note(name, "", Ok(Value::Text(value.to_owned())));
}

fn whole(machine: &mut Environment, name: &str, value: i64) {
    machine.facts.note(name, "", Ok(Value::Whole(value)));
}

fn names(machine: &mut Environment, name: &str, value: &str) {
    machine.facts.note(name, "", Ok(Value::Names(vec![value.to_owned()])));
}

type Change = fn(&mut Environment);

/// Each check, a part of its expected finding, and the change to a good machine that causes the
/// finding.
const BAD_SETTINGS: &[(&str, &str, Change)] = &[
    ("lock-debugging", "CONFIG_PROVE_LOCKING", |m| names(m, "lock_debug_options", "PROVE_LOCKING")),
    ("kernel-debugging", "CONFIG_KASAN_GENERIC", |m| names(m, "debug_options", "KASAN_GENERIC")),
    ("tracer", "function", |m| text(m, "tracer", "function")),
    ("build-type", "eng", |m| text(m, "android_build_type", "eng")),
    ("cpu-quota", "0.5 CPUs", |m| m.cgroups.cpu_quota_cpus = Some(0.5)),
    ("cpuset", "1 of 2", |m| m.cpus.usable = vec![1]),
    ("governor", "schedutil on 2 CPUs", |m| {
        m.cpus.governors = Some([("schedutil".to_owned(), vec![0, 1])].into());
    }),
    ("frequency-range", "policy0 900 to 1200 MHz of 1800", |m| {
        whole(m, "cpufreq.policy0.min_khz", 900_000);
        whole(m, "cpufreq.policy0.max_khz", 1_200_000);
    }),
    ("thermal", "thermal-cpufreq-0 (2 of 10)", |m| {
        names(m, "thermal_limits", "thermal-cpufreq-0 (2 of 10)");
    }),
    ("idle-states", "900 us to leave it", |m| whole(m, "idle_exit_latency_us", 900)),
    ("steal", "3.0% of all CPU time since boot", |m| {
        m.facts.note("stolen_since_boot", "", Ok(Value::Number(0.03)));
    }),
    ("left-behind", "instance x", |m| names(m, "left_behind", "the trace instance x")),
    ("load", "1.5 runnable threads", |m| m.load_average = Some([1.5, 0.0, 0.0])),
    ("framework", "runs", |m| m.facts.note("android_framework", "", Ok(Value::Flag(true)))),
    ("framework-threads", "SCHED_FIFO 2", |m| {
        names(m, "android_framework_threads", "x: 1 binder threads, real-time: SCHED_FIFO 2 (1 threads)");
    }),
    ("clock-source", "hpet", |m| text(m, "clocksource", "hpet")),
    ("preemption", "none", |m| m.kernel.preemption = Some("none".into())),
    ("asymmetric-cpus", "1 of capacity 462, 1 of capacity 1024", |m| {
        m.cpus.capacities = Some(vec![462, 1024]);
    }),
    ("hotplug", "1 of 3", |m| m.cpus.present = Some(3)),
    ("hotplug", "core control is on", |m| names(m, "core_control", "cpu0")),
    ("smt", "on", |m| m.cpus.smt = Some(true)),
    ("rt-throttling", "950000 us of each 1000000 us", |m| m.kernel.sched_rt_runtime_us = Some(950_000)),
    ("rt-group", "0 us", |m| m.cgroups.rt_runtime_us = Some(0)),
    ("fair-server", "50 ms of each 1000 ms", |m| {
        m.kernel.release = "6.12.1-android16".into();
        whole(m, "fair_server_runtime_ns", 50_000_000);
        whole(m, "fair_server_period_ns", 1_000_000_000);
    }),
    ("realtime", "refused", |m| m.realtime = RealtimePermission::Refused { reason: "no right".into() }),
    ("binder-inheritance", "not an Android kernel", |m| m.kernel.release = "6.1.0-22-amd64".into()),
    ("memory", "512 of 8192 MiB", |m| whole(m, "memory_available_bytes", 512 << 20)),
    ("transparent-hugepages", "always, defrag madvise", |m| text(m, "transparent_hugepages", "always")),
    ("kernel-version", "4.9.1-android", |m| m.kernel.release = "4.9.1-android".into()),
    ("tick", "100 per second", |m| m.kernel.hz = Some(100)),
    ("timer-slack", "40000 us", |m| whole(m, "timer_slack_ns", 40_000_000)),
    ("autogroup", "on", |m| m.kernel.autogroup = Some(true)),
    ("disk-scheduler", "vda: bfq", |m| text(m, "disk.vda.scheduler", "bfq")),
    ("disk-interrupts", "vda: CPU 1", |m| names(m, "disk.vda.interrupt_cpus", "1")),
];

#[test]
fn each_setting_that_lengthens_round_trips_is_reported_with_its_value_and_advice() {
    for (check, value, change) in BAD_SETTINGS {
        let mut machine = good();
        change(&mut machine);
        let bad: Vec<_> = judge(&machine).into_iter().filter(|one| one.state != State::Good).collect();
        let [finding] = &bad[..] else { panic!("{check}: {bad:?}") };
        assert_eq!((finding.check, finding.state), (*check, State::Lengthens));
        assert!(finding.found.contains(value), "{check}: {}", finding.found);
        assert!(finding.advice.ends_with('.'), "{check}: {}", finding.advice);
    }
}

#[test]
fn energy_aware_scheduling_matters_only_where_cpus_differ() {
    let mut machine = good();
    machine.facts.note("energy_aware", "", Ok(Value::Flag(true)));
    assert_eq!(finding(&machine, "energy-aware").state, State::Good);
    machine.cpus.capacities = Some(vec![462, 1024]);
    assert_eq!(finding(&machine, "energy-aware").state, State::Lengthens);
    // The suggested commands name the fastest CPUs.
    assert!(finding(&machine, "asymmetric-cpus").commands[0].ends_with("--client-cpus 1 --server-cpus 1"));
}

#[test]
fn the_drivers_locks_are_judged_by_its_events_and_else_by_the_version() {
    let locking = |release: &str, found: Result<&str, &str>| {
        let mut machine = good();
        machine.kernel.release = release.into();
        let found = found.map(|text| Value::Text(text.to_owned())).map_err(str::to_owned);
        machine.facts.note("binder_locking", "", found);
        finding(&machine, "binder-locking")
    };
    let old = locking("4.9.1-android", Ok("one lock"));
    assert_eq!(old.state, State::Lengthens);
    assert!(old.found.starts_with("one lock for all processes"), "{}", old.found);
    assert_eq!(locking("4.9.230-android", Ok("fine-grained")).state, State::Good);
    assert_eq!(locking("4.9.1-android", Err("no tracefs")).state, State::CannotTell);
    // Left over in newer kernels.
    assert_eq!(locking("6.1.0-22-amd64", Ok("one lock")).state, State::Good);
    assert_eq!(locking("6.1.0-22-amd64", Err("no tracefs")).state, State::Good);
}

#[test]
fn the_drivers_features_name_its_language_and_what_it_lacks() {
    let found = finding(&good(), "binder-features").found;
    assert_eq!(
        found,
        "a driver in C with: extended_error; without: freeze_notification, oneway_spam_detection"
    );
    let mut machine = good();
    machine.facts.note("binder_features", "", Err("no binderfs".into()));
    let unknown = finding(&machine, "binder-features");
    assert_eq!((unknown.state, unknown.found.as_str()), (State::CannotTell, "a driver in C; no binderfs"));
    // The driver's own event shows more than the kernel's name.
    machine.kernel.release = "6.1.0".into();
    machine.facts.note("binder_sets_priority", "", Ok(Value::Flag(true)));
    assert_eq!(finding(&machine, "binder-inheritance").state, State::Good);
}

#[test]
fn newer_kernels_without_groups_leave_throttling_to_the_fair_server() {
    let mut machine = good();
    machine.kernel.release = "6.12.0".into();
    machine.kernel.sched_rt_runtime_us = Some(950_000);
    assert_eq!(finding(&machine, "rt-throttling").state, State::Good);
    machine.facts.note("rt_group_scheduling", "", Ok(Value::Flag(true)));
    assert_eq!(finding(&machine, "rt-throttling").state, State::Lengthens);
    machine.kernel.release = "6.1.0".into();
    machine.facts.note("rt_group_scheduling", "", Ok(Value::Flag(false)));
    assert_eq!(finding(&machine, "rt-throttling").state, State::Lengthens);
}

#[test]
fn a_preemption_mode_is_changed_at_run_time_only_where_the_kernel_can() {
    let mut machine = good();
    machine.kernel.preemption = Some("voluntary".into());
    assert!(finding(&machine, "preemption").commands[0].starts_with("scripts/config"));
    machine.kernel.preemption_dynamic = true;
    assert_eq!(finding(&machine, "preemption").commands, ["echo full > /sys/kernel/debug/sched/preempt"]);
}

#[test]
fn commands_work_on_the_machine_that_was_judged() {
    let mut machine = good();
    machine.kernel.preemption = Some("voluntary".into());
    machine.kernel.preemption_dynamic = true;
    machine.facts.note("debugfs", "", Ok(Value::Text("not mounted".into())));
    let mount = "mount -t debugfs nodev /sys/kernel/debug";
    let commands = finding(&machine, "preemption").commands;
    assert_eq!(commands, [mount, "echo full > /sys/kernel/debug/sched/preempt"]);
    machine.facts.note("debugfs", "", Ok(Value::Text("mounted".into())));
    assert_eq!(finding(&machine, "preemption").commands, ["echo full > /sys/kernel/debug/sched/preempt"]);
    machine.cpus.online = Some(2);
    for (name, values) in [("disk.vda.interrupt_cpus", ["1"]), ("disk.vda.interrupts", ["36"])] {
        machine.facts.note(name, "", Ok(Value::Names(values.map(str::to_owned).into())));
    }
    machine.facts.note("cpus_online", "", Ok(Value::Text("0-1".into())));
    assert_eq!(finding(&machine, "disk-interrupts").commands, ["echo 0-1 > /proc/irq/36/smp_affinity_list"]);
}

#[test]
fn a_setting_that_cannot_be_read_comes_with_what_makes_it_readable() {
    let mut machine = good();
    machine.facts.note("clocksource", "", Err("not readable without root".into()));
    machine.facts.note("capabilities", "", Ok(Value::Names(vec![])));
    for (root, advice) in [
        ("no", "Run as root."),
        ("in a user namespace", "This root is root only of its user namespace: run outside the container."),
        ("yes", "This root lacks CAP_SYS_ADMIN: run outside the container, or in a privileged one."),
    ] {
        machine.facts.note("root", "", Ok(Value::Text(root.into())));
        assert_eq!(finding(&machine, "clock-source").advice, advice);
    }
    machine.facts.note("capabilities", "", Ok(Value::Names(vec!["CAP_SYS_ADMIN".into()])));
    assert!(finding(&machine, "clock-source").advice.starts_with("The container or a security module"));
}

#[test]
fn unknown_settings_are_reported_with_the_reason() {
    let unknown = judge(&Environment::default());
    assert_eq!(unknown.len(), judge(&good()).len());
    for finding in unknown.iter().filter(|finding| finding.state == State::CannotTell) {
        assert!(finding.found.len() > 8, "{finding:?}");
    }
    // On a machine that reports nothing, only unset limits are known.
    let good: BTreeSet<_> =
        unknown.iter().filter(|one| one.state == State::Good).map(|one| one.check).collect();
    assert_eq!(good, BTreeSet::from(["autogroup", "cpu-quota"]));
    let mut machine = Environment::default();
    machine.facts.note(
        "tracer",
        "/sys/kernel/tracing/current_tracer",
        Err("not readable without root".into()),
    );
    assert_eq!(
        finding(&machine, "tracer").found,
        "/sys/kernel/tracing/current_tracer: not readable without root"
    );
}

#[test]
fn a_virtual_machine_whose_host_reports_no_stolen_time_cannot_tell() {
    let mut machine = good();
    machine.cpus.virtualised = Some(true);
    let found = finding(&machine, "steal");
    assert_eq!(found.state, State::CannotTell);
    assert!(found.found.contains("virtual"), "{}", found.found);
}

#[test]
fn every_check_has_a_unique_name_a_reason_and_a_source_in_sentences() {
    let findings = judge(&good());
    let distinct: BTreeSet<_> = findings.iter().map(|finding| finding.check).collect();
    assert_eq!(distinct.len(), findings.len());
    for finding in &findings {
        assert!(finding.why.ends_with('.') && !finding.why.contains("  "), "{}", finding.why);
        assert!(!finding.source.is_empty() && !finding.title.is_empty(), "{finding:?}");
    }
    // Settings that lengthen round trips come first, regardless of their position in the table.
    let mut machine = good();
    machine.kernel.autogroup = Some(true);
    assert_eq!(judge(&machine)[0].check, "autogroup");
}
