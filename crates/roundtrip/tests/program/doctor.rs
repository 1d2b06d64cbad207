//! `roundtrip doctor` as a process, also with the facts of other machines.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use roundtrip_analysis::doctor::{Finding, State, judge};
use roundtrip_bench::kernel::root::Root;
use roundtrip_run::RealtimePermission;
use roundtrip_run::environment::Environment;
use serde_json::Value;

struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let tree = Self(std::env::temp_dir().join(format!("roundtrip-doctor-{name}-{}", std::process::id())));
        for (path, text) in files {
            let path = tree.0.join(path);
            std::fs::create_dir_all(path.parent().expect("below the tree")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        tree
    }

    fn environment(&self) -> Environment {
        let realtime = RealtimePermission::Allowed { max_priority: 99 };
        roundtrip_bench::environment::of(&Root::at(&self.0), vec![0], realtime, 25.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The path of the configuration of this machine's kernel in a fixture tree.
fn config_path() -> String {
    format!("boot/config-{}", roundtrip_bench::environment::collect().kernel.release)
}

fn found<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.check == check).expect("is a check")
}

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_roundtrip")).arg("doctor").args(args).output().expect("the binary")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_container_with_a_cpu_quota_gets_a_warning() {
    let tree = Tree::new(
        "quota",
        &[
            ("proc/self/cgroup", "0::/box\n"),
            ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/box/cpu.max", "50000 100000\n"),
        ],
    );
    let findings = judge(&tree.environment());
    let quota = found(&findings, "cpu-quota");
    assert_eq!((quota.state, quota.found.as_str()), (State::Lengthens, "0.5 CPUs"));
}

#[test]
fn a_debug_kernel_is_named_first() {
    let config = "CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN_GENERIC=y\nCONFIG_HZ=100\n";
    let tree = Tree::new("debug", &[(&config_path(), config)]);
    let findings = judge(&tree.environment());
    let bad: Vec<_> =
        findings.iter().filter(|one| one.state == State::Lengthens).map(|one| one.check).collect();
    assert_eq!(bad[..2], ["lock-debugging", "kernel-debugging"], "{bad:?}");
    assert!(bad.contains(&"tick"), "{bad:?}");
    assert_eq!(found(&findings, "lock-debugging").found, "CONFIG_PROVE_LOCKING");
}

#[test]
fn a_phone_with_two_kinds_of_cores_is_advised_to_use_one_kind() {
    let tree = Tree::new(
        "phone",
        &[
            ("sys/devices/system/cpu/present", "0-1\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/cpu_capacity", "462\n"),
            ("sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil\n"),
            ("proc/sys/kernel/sched_energy_aware", "1\n"),
            ("proc/self/timerslack_ns", "40000000\n"),
        ],
    );
    let findings = judge(&tree.environment());
    for check in ["asymmetric-cpus", "energy-aware", "governor", "timer-slack"] {
        assert_eq!(found(&findings, check).state, State::Lengthens, "{check}");
    }
}

#[test]
fn every_check_judges_this_machine_and_the_three_formats_agree() {
    let output = doctor(&["--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some("roundtrip.doctor"), Some(1)));
    let findings = json["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), roundtrip_analysis::doctor::names().count());
    let (page, markdown) = (text(&doctor(&[]).stdout), text(&doctor(&["--format", "markdown"]).stdout));
    for finding in findings {
        let title = finding["title"].as_str().expect("text");
        assert!(page.contains(title) && markdown.contains(title), "{title}");
        assert!(!finding["found"].as_str().expect("text").is_empty(), "{finding}");
    }
    let facts = json["environment"]["facts"].as_object().expect("facts");
    assert!(facts.len() > 30 && facts["timer_slack_ns"]["value"].is_u64(), "{facts:?}");
    assert!(facts["memory_bytes"]["value"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{facts:?}");
}

#[test]
fn a_setting_that_a_script_depends_on_ends_it_with_status_3() {
    // A child inherits its parent's timer slack, and this test has the default.
    let good = doctor(&["--fail-on", "timer-slack"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let json: Value = serde_json::from_slice(&doctor(&["--format", "json"]).stdout).expect("JSON");
    let findings = json["findings"].as_array().expect("a list");
    let not_good = findings.iter().find(|one| one["state"] != "good").expect("no machine is good in all");
    let name = not_good["check"].as_str().expect("text");
    let bad = doctor(&["--fail-on", &format!("timer-slack,{name}")]);
    assert_eq!(bad.status.code(), Some(3), "{name}");
    assert_eq!(text(&bad.stderr), format!("roundtrip doctor: failed on {name}\n"));
    let unknown = doctor(&["--fail-on", "weather"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("there is no check 'weather'; there are all, lock-debugging"));
}

#[test]
fn a_setting_that_a_run_lacks_was_not_checked() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
    let output = doctor(&[run.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    assert!(page.contains("timer slack (timer-slack): timer_slack_ns was not checked"), "{page}");
    assert!(page.contains("Linux 6.1"), "{page}");
}
