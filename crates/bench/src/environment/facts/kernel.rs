//! The kernel's own settings: compiled-in debugging, active tracers, real-time groups. Must not
//! judge any of them.

use roundtrip_run::environment::{Facts, Value};

use crate::environment::kernel::option;
use crate::kernel::root::{Root, TRACING};

/// Options that slow down every lock (Documentation/locking/lockdep-design.rst,
/// Documentation/locking/lockstat.rst).
const LOCK_DEBUGGING: [&str; 8] = [
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_MUTEXES",
    "DEBUG_RT_MUTEXES",
    "DEBUG_RWSEMS",
    "DEBUG_SPINLOCK",
    "LOCK_STAT",
    "PROVE_LOCKING",
];

/// Options that slow down other parts of the kernel (Documentation/dev-tools, lib/Kconfig.debug).
const DEBUGGING: [&str; 15] = [
    "DEBUG_KMEMLEAK",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "DEBUG_PREEMPT",
    "DEBUG_VM",
    "FAULT_INJECTION",
    "GCOV_PROFILE_ALL",
    "IRQSOFF_TRACER",
    "KASAN_GENERIC",
    "KASAN_SW_TAGS",
    "KCOV",
    "KCSAN",
    "KMSAN",
    "PREEMPT_TRACER",
    "SLUB_DEBUG_ON",
];

pub(super) fn read(root: &Root, config: Option<&str>, facts: &mut Facts) {
    let from = "/proc/config.gz or /boot/config-*";
    let none = || "the kernel does not show its configuration".to_owned();
    let set = |names: &[&str]| -> Result<Value, String> {
        let config = config.ok_or_else(none)?;
        let is_set = |name: &&&str| option(config, &format!("CONFIG_{name}")) == Some("y");
        Ok(Value::Names(names.iter().filter(is_set).map(|&name| name.to_owned()).collect()))
    };
    facts.note("debug_options", from, set(&DEBUGGING));
    facts.note("rt_group_scheduling", from, set(&["RT_GROUP_SCHED"]).map(is_any));
    // Only a kernel with lockdep has this file, so it also answers without a configuration.
    let mut locks = set(&LOCK_DEBUGGING);
    if locks.is_err() && root.has("proc/lockdep_stats") {
        locks = Ok(Value::Names(vec!["PROVE_LOCKING".to_owned()]));
    }
    facts.note("lock_debug_options", from, locks);
    tracing(root, facts);
    memory(root, facts);
    let stolen =
        root.look("proc/stat").and_then(|stat| stolen(&stat).ok_or_else(|| "unexpected format".to_owned()));
    facts.note("stolen_since_boot", "/proc/stat", stolen.map(Value::Number));
    let system = root.look("etc/os-release").and_then(|text| system_name(&text));
    facts.note("system", "/etc/os-release", system);
}

fn is_any(names: Value) -> Value {
    Value::Flag(matches!(names, Value::Names(names) if !names.is_empty()))
}

/// The current tracer, which slows down every function or interrupt that it traces.
fn tracing(root: &Root, facts: &mut Facts) {
    let mut found = Err("not there".to_owned());
    for place in TRACING {
        found = super::one(root, super::Kind::Text, &format!("{place}/current_tracer"));
        if found.is_ok() {
            break;
        }
    }
    facts.note("tracer", "/sys/kernel/tracing/current_tracer", found);
}

/// Memory and swap (proc_meminfo(5)).
fn memory(root: &Root, facts: &mut Facts) {
    let info = root.look("proc/meminfo");
    for (name, line) in [
        ("memory_bytes", "MemTotal:"),
        ("memory_available_bytes", "MemAvailable:"),
        ("swap_bytes", "SwapTotal:"),
        ("swap_free_bytes", "SwapFree:"),
    ] {
        let bytes = info.clone().and_then(|info| {
            let kib = info.lines().find_map(|text| text.strip_prefix(line)?.trim().strip_suffix(" kB"));
            let kib = kib.and_then(|kib| kib.trim().parse::<i64>().ok()?.checked_mul(1024));
            kib.map(Value::Whole).ok_or_else(|| format!("no {line}"))
        });
        facts.note(name, "/proc/meminfo", bytes);
    }
}

/// The share of all CPU time since boot that a hypervisor took, 0 to 1 (proc_stat(5)).
fn stolen(stat: &str) -> Option<f64> {
    let first = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        first.split_whitespace().take(8).map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let all: u64 = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
    let stolen = *ticks.get(7)?;
    (all > 0).then(|| (stolen as f64 / all as f64 * 1e6).round() / 1e6)
}

/// "Debian GNU/Linux 12 (bookworm)" (os-release(5)).
fn system_name(text: &str) -> Result<Value, String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    super::short(name.ok_or("no PRETTY_NAME")?.trim_matches('"').to_owned())
}
