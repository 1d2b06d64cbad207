//! What this process may do, and which binder devices it may open. Changes and opens nothing. Must
//! not judge it.

use roundtrip_run::environment::{Facts, Value};
use rustix::fs::{Access, access};

use crate::kernel::root::{Root, TRACING};

/// The capabilities that measurements use, by number (capabilities(7)).
const CAPABILITIES: [(&str, u32); 4] =
    [("CAP_IPC_LOCK", 14), ("CAP_SYS_ADMIN", 21), ("CAP_SYS_NICE", 23), ("CAP_PERFMON", 38)];

pub(super) fn read(root: &Root, facts: &mut Facts) {
    let held = root.look("proc/self/status").and_then(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).ok_or("no CapEff")?;
        let held = CAPABILITIES.iter().filter(|(_, number)| mask >> number & 1 != 0);
        Ok(Value::Names(held.map(|(name, _)| (*name).to_owned()).collect()))
    });
    facts.note("capabilities", "/proc/self/status", held);
    facts.note("tracefs", "/sys/kernel/tracing or /sys/kernel/debug/tracing", tracefs(root));
    facts.note("debugfs", "/proc/self/mountinfo", debugfs(root));
    facts.note("root", "/proc/self/status, /proc/self/uid_map", is_root(root));
    facts.note("binder_usable", "/dev and /dev/binderfs", binder(root));
}

/// Whether kernel events can be recorded: tracefs is mounted and accessible, or can be mounted.
fn tracefs(root: &Root) -> Result<Value, String> {
    let levels = root.read("sys/kernel/security/lockdown");
    if levels.is_some_and(|levels| roundtrip_tracefs::forbids_tracing(&levels).is_some()) {
        return Ok(Value::Text("forbidden by kernel lockdown (confidentiality)".to_owned()));
    }
    for place in TRACING {
        if root.has(format!("{place}/tracing_on")) {
            return Ok(Value::Text("mounted".to_owned()));
        }
    }
    let kinds = root.look("proc/filesystems")?;
    if kinds.lines().any(|line| line.split_whitespace().last() == Some("tracefs")) {
        Ok(Value::Text("not mounted, or not accessible to this user".to_owned()))
    } else {
        Ok(Value::Text("not in this kernel".to_owned()))
    }
}

/// Whether debugfs is mounted at its usual place, where some settings are.
fn debugfs(root: &Root) -> Result<Value, String> {
    let mounts = root.look("proc/self/mountinfo")?;
    let mut at = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/sys/kernel/debug"));
    let is_mounted = at.any(|line| line.contains(" - debugfs "));
    Ok(Value::Text(if is_mounted { "mounted" } else { "not mounted" }.to_owned()))
}

/// Whether this process is root of the machine, or only of a user namespace (user_namespaces(7)).
fn is_root(root: &Root) -> Result<Value, String> {
    let status = root.look("proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).ok_or("no Uid")?;
    // Real, effective, saved, of the file system.
    let effective = ids.split_whitespace().nth(1);
    // Absent without user namespaces.
    let map = root.read("proc/self/uid_map");
    let has_all = map.is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    let text = match (effective, has_all) {
        (Some("0"), true) => "yes",
        (Some("0"), false) => "in a user namespace",
        _ => "no",
    };
    Ok(Value::Text(text.to_owned()))
}

/// The devices that this process may open. Only using a device shows whether it already has a
/// context manager.
fn binder(root: &Root) -> Result<Value, String> {
    let names = ["dev/binder", "dev/hwbinder", "dev/vndbinder"];
    let names = names.into_iter().map(str::to_owned);
    let names = names.clone().chain(names.map(|name| name.replace("dev/", "dev/binderfs/")));
    let there: Vec<String> = names.filter(|name| root.has(name)).collect();
    if there.is_empty() {
        return Err("no binder device".to_owned());
    }
    let open = |name: &&String| access(root.path(name), Access::READ_OK | Access::WRITE_OK).is_ok();
    Ok(Value::Names(there.iter().filter(open).map(|name| format!("/{name}")).collect()))
}
