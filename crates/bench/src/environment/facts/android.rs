//! Properties of an Android system, whether its framework runs, and how its threads are scheduled.
//! Must not judge them.

use std::collections::BTreeMap;

use roundtrip_run::environment::{Facts, Value};

use crate::kernel::root::Root;
use crate::kernel::stat;

/// Settings, and the Android properties that hold them.
const PROPERTIES: [(&str, &str); 4] = [
    ("android_build", "ro.build.fingerprint"),
    ("android_build_type", "ro.build.type"),
    ("android_sdk", "ro.build.version.sdk"),
    ("android_version", "ro.build.version.release"),
];

/// The most processes to search. The framework's processes have low ids.
const MOST_PROCESSES: usize = 32_768;

pub(super) fn read(root: &Root, facts: &mut Facts) {
    let from = "system/build.prop";
    let text = if root.has("system/bin/app_process") || root.has(from) {
        root.look(from)
    } else {
        Err("not an Android system".to_owned())
    };
    for (name, property) in PROPERTIES {
        let found = text.clone().and_then(|text| {
            let value = text.lines().find_map(|line| line.strip_prefix(property)?.strip_prefix('='));
            super::short(value.ok_or_else(|| format!("no {property}"))?.trim().to_owned())
        });
        facts.note(name, &format!("/{from}"), found);
    }
    let (framework, threads) = match text {
        Err(reason) if reason == "not an Android system" => (Err(reason.clone()), Err(reason)),
        _ => framework(root),
    };
    facts.note("android_framework", "/proc/*/comm", framework);
    facts.note("android_framework_threads", "/proc/*/task/*/stat", threads);
}

/// The framework's processes that serve calls. `system_server` hosts most of its services.
const FRAMEWORK: [&str; 6] = [
    "system_server",
    "surfaceflinger",
    "audioserver",
    "servicemanager",
    "hwservicemanager",
    "vndservicemanag",
];

/// Whether `system_server` runs, and the threads of each of the framework's processes.
fn framework(root: &Root) -> (Result<Value, String>, Result<Value, String>) {
    let is_number = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = root.names("proc");
    let mut processes = processes.iter().filter(is_number).take(MOST_PROCESSES).peekable();
    if processes.peek().is_none() {
        let reason = "no process is visible".to_owned();
        return (Err(reason.clone()), Err(reason));
    }
    let named = processes.filter_map(|pid| {
        let name = root.read(format!("proc/{pid}/comm"))?;
        FRAMEWORK.contains(&name.as_str()).then_some((pid, name))
    });
    let found: Vec<_> = named.take(2 * FRAMEWORK.len()).collect();
    let runs = found.iter().any(|(_, name)| name == "system_server");
    let threads = found.iter().map(|(pid, name)| threads(root, pid, name)).collect();
    (Ok(Value::Flag(runs)), Ok(Value::Names(threads)))
}

/// "surfaceflinger: 5 binder threads, real-time SCHED_FIFO 2 (3 threads)".
fn threads(root: &Root, pid: &str, name: &str) -> String {
    let (mut binder, mut realtime) = (0, BTreeMap::<String, u32>::new());
    for tid in root.names(format!("proc/{pid}/task")).iter().take(4096) {
        let Some(stat) = root.read(format!("proc/{pid}/task/{tid}/stat")) else { continue };
        let Some((comm, fields)) = stat::split(&stat) else { continue };
        binder += u32::from(comm.starts_with("Binder:") || comm.starts_with("HwBinder:"));
        // Fields 40 and 41 of proc_pid_stat(5); the first of these is field 3.
        let mut fields = fields.skip(37);
        let (Some(priority), Some(policy)) = (fields.next(), fields.next()) else { continue };
        let policy = match policy {
            "1" => "SCHED_FIFO",
            "2" => "SCHED_RR",
            _ => continue,
        };
        *realtime.entry(format!("{policy} {priority}")).or_default() += 1;
    }
    let realtime: Vec<_> =
        realtime.iter().map(|(policy, threads)| format!("{policy} ({threads} threads)")).collect();
    let realtime = if realtime.is_empty() { "none".to_owned() } else { realtime.join(", ") };
    format!("{name}: {binder} binder threads, real-time: {realtime}")
}
