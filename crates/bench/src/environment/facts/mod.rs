//! Reads the settings that affect latency, each under the name that a run stores. A setting that
//! cannot be read is stored with the reason. Must not judge any of them.

mod android;
mod binder;
pub(super) mod disk;
mod kernel;
mod permissions;
mod processors;
#[cfg(test)]
mod tests;
mod thermal;

use roundtrip_run::environment::{Facts, Value};

use crate::kernel::root::Root;

/// How to parse a file's text.
#[derive(Clone, Copy)]
enum Kind {
    /// "0" or "1".
    Flag,
    /// A whole number.
    Whole,
    /// A few words at most.
    Text,
    /// One of several words, with the current one in brackets: "always [madvise] never".
    Chosen,
}

/// The settings that are one file each: name, kind and path.
const FILES: &[(&str, Kind, &str)] = &[
    ("clocksource", Kind::Text, "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpus_isolated", Kind::Text, "sys/devices/system/cpu/isolated"),
    ("cpus_online", Kind::Text, "sys/devices/system/cpu/online"),
    ("cpus_present", Kind::Text, "sys/devices/system/cpu/present"),
    ("energy_aware", Kind::Flag, "proc/sys/kernel/sched_energy_aware"),
    ("fair_server_period_ns", Kind::Whole, "sys/kernel/debug/sched/fair_server/cpu0/period"),
    ("fair_server_runtime_ns", Kind::Whole, "sys/kernel/debug/sched/fair_server/cpu0/runtime"),
    ("frequency_boost", Kind::Flag, "sys/devices/system/cpu/cpufreq/boost"),
    ("perf_event_paranoid", Kind::Whole, "proc/sys/kernel/perf_event_paranoid"),
    ("smt_control", Kind::Text, "sys/devices/system/cpu/smt/control"),
    ("timer_slack_ns", Kind::Whole, "proc/self/timerslack_ns"),
    ("transparent_hugepages", Kind::Chosen, "sys/kernel/mm/transparent_hugepage/enabled"),
    ("transparent_hugepages_defrag", Kind::Chosen, "sys/kernel/mm/transparent_hugepage/defrag"),
];

/// Settings are short. Longer text is not a setting, and would only bloat a run.
const MOST_CHARACTERS: usize = 256;

/// Reads all settings except those of a disk. `config` is the kernel's configuration.
pub(super) fn read(root: &Root, config: Option<&str>) -> Facts {
    let mut facts = Facts::default();
    for &(name, kind, path) in FILES {
        facts.note(name, &format!("/{path}"), one(root, kind, path));
    }
    kernel::read(root, config, &mut facts);
    processors::read(root, &mut facts);
    thermal::read(root, &mut facts);
    android::read(root, &mut facts);
    permissions::read(root, &mut facts);
    binder::read(root, &mut facts);
    facts
}

/// Reads one file's setting, or says why it cannot.
fn one(root: &Root, kind: Kind, path: &str) -> Result<Value, String> {
    let text = root.look(path)?;
    let unlike = |wanted: &str| format!("'{}' is not {wanted}", text.chars().take(40).collect::<String>());
    match kind {
        Kind::Flag => match text.as_str() {
            "0" => Ok(Value::Flag(false)),
            "1" => Ok(Value::Flag(true)),
            _ => Err(unlike("0 or 1")),
        },
        Kind::Whole => text.parse().map(Value::Whole).map_err(|_| unlike("a whole number")),
        Kind::Text => short(text),
        Kind::Chosen => {
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            short(chosen.ok_or_else(|| unlike("a choice in brackets"))?.0.to_owned())
        }
    }
}

/// Accepts text that is short enough for a setting.
fn short(text: String) -> Result<Value, String> {
    if text.chars().count() > MOST_CHARACTERS {
        return Err(format!("not a setting: the file has {} bytes", text.len()));
    }
    Ok(Value::Text(text))
}
