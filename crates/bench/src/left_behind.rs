//! What killed runs leave in the kernel: trace instances that still record, changed settings and
//! control groups. Each is locked by its run, so one without a lock is abandoned. Every command
//! that measures removes them first. Must not know what they were for.

use roundtrip_run::environment::{Facts, Value};
use roundtrip_tracefs::Tracefs;

pub use crate::guard::COMMAND as GUARD;
use crate::kernel::root::Root;
use crate::storage::interference::left_behind as interference;

/// Removes and restores what killed runs left, and returns a sentence for each. What another user's
/// run left stays, and so does a control group that still has processes.
pub fn remove() -> Vec<String> {
    let root = Root::real();
    let removed = |what: String| format!("{what} was removed: a run that was killed had left it behind");
    let traces = Tracefs::open().map(|tracefs| roundtrip_tracefs::remove_abandoned(&tracefs));
    let traces = traces.unwrap_or_default().into_iter().map(trace).map(removed);
    let groups = interference::remove_groups(&root).into_iter().map(group).map(removed);
    traces.chain(groups).chain(interference::restored(&root)).collect()
}

/// Waits for the end of the process that started this one. If that process was killed, removes what
/// it left. This is all that the hidden command does.
pub fn stand_guard() {
    crate::guard::stand(|| {
        remove();
        // Who cannot tell what is left could not have changed it either.
        list().map_or(true, |left| left.is_empty())
    });
}

/// Notes what killed runs have left.
pub fn note(facts: &mut Facts) {
    facts.note("left_behind", "tracefs, control groups and /run/roundtrip", list().map(Value::Names));
}

/// What [`remove`] would remove or restore, or the reason why this process cannot tell.
fn list() -> Result<Vec<String>, String> {
    let root = Root::real();
    let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
    let traces = roundtrip_tracefs::abandoned(&tracefs).into_iter().map(trace);
    let groups = interference::groups(&root).into_iter().map(group);
    let settings = interference::changed(&root).into_iter().map(|file| format!("the changed setting {file}"));
    Ok(traces.chain(groups).chain(settings).collect())
}

fn trace(name: String) -> String {
    format!("the trace instance {name}")
}

fn group(path: std::path::PathBuf) -> String {
    format!("the control group {}", path.display())
}
