//! What this process may do, and which binder devices it may open. Changes and opens nothing. Must
//! not judge it.

use run::environment::{Facts, Value};
use rustix::fs::{Access, access};

use crate::root::Root;

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
    facts.note("binder_usable", "/dev and /dev/binderfs", binder(root));
    let features = root.names("dev/binderfs/features");
    let on = |name: &&String| root.read(format!("dev/binderfs/features/{name}")).as_deref() == Some("1");
    let features = match features.len() {
        0 => Err("not found: no binderfs, or an older one".to_owned()),
        _ => Ok(Value::Names(features.iter().filter(on).take(64).cloned().collect())),
    };
    facts.note("binder_features", "/dev/binderfs/features", features);
}

/// Whether kernel events can be recorded: tracefs is mounted and accessible, or can be mounted.
fn tracefs(root: &Root) -> Result<Value, String> {
    for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
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
