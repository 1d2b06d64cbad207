//! Properties of an Android system, and whether its framework runs. Must not judge them.

use run::environment::{Facts, Value};

use crate::root::Root;

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
    let framework = if text.as_ref().is_err_and(|reason| reason == "not an Android system") {
        Err("not an Android system".to_owned())
    } else {
        framework(root)
    };
    facts.note("android_framework", "/proc/*/comm", framework);
}

/// Whether `system_server` runs, which hosts most of the framework's services.
fn framework(root: &Root) -> Result<Value, String> {
    let is_number = |name: &&String| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = root.names("proc");
    let mut processes = processes.iter().filter(is_number).take(MOST_PROCESSES).peekable();
    if processes.peek().is_none() {
        return Err("no process is visible".to_owned());
    }
    let runs = processes.any(|pid| root.read(format!("proc/{pid}/comm")).as_deref() == Some("system_server"));
    Ok(Value::Flag(runs))
}
