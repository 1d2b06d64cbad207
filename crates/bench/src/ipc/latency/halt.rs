//! Stops the kernel's running trace at the first call that misses its deadline, so that the trace's
//! buffer still shows what led to it. Must not know how a call is made.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use roundtrip_run::Scheduling;
use roundtrip_run::ipc::latency::HaltTrace;

/// The `tracing_on` of the running trace.
///
/// # Errors
/// [`Error::NoTrace`] if none is running, with how to start one.
pub(super) fn running(plan: &HaltTrace) -> Result<PathBuf> {
    if let Some(reason) = roundtrip_tracefs::locked_down() {
        return Err(Error::NoTrace { how_to_start: reason, switch: None });
    }
    let switch = plan.roots.iter().map(|root| root.join("tracing_on")).find(|path| path.exists());
    let Some(switch) = switch else {
        let first = plan.roots.first().cloned().unwrap_or_default();
        let root = first.display();
        let how_to_start = format!(
            "start one, as root, with `roundtrip trace start` (or `mount -t tracefs nodev {root}` and `echo 1 > \
             {root}/tracing_on`)"
        );
        return Err(Error::NoTrace { how_to_start, switch: Some(first.join("tracing_on")) });
    };
    let state = std::fs::read_to_string(&switch).map_err(|cause| Error::file("read", &switch, cause))?;
    if state.trim() != "1" {
        let how_to_start =
            format!("start one with `roundtrip trace start` (or `echo 1 > {}`)", switch.display());
        return Err(Error::NoTrace { how_to_start, switch: Some(switch) });
    }
    Ok(switch)
}

/// The trace's log, in the same folder as its switch.
pub(super) fn log_of(switch: &Path) -> PathBuf {
    switch.with_file_name("trace")
}

/// Which trace a client stops, and at which calls.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HaltJob {
    /// The trace's `tracing_on`.
    pub(super) path: PathBuf,
    pub(super) only_realtime: bool,
}

/// The trace's `tracing_on`, opened before the first call is timed.
#[derive(Debug)]
pub(super) struct Switch {
    file: File,
    only_realtime: bool,
    used: AtomicBool,
}

impl Switch {
    pub(super) fn open(job: &HaltJob) -> Result<Self> {
        let HaltJob { path, only_realtime } = job;
        let file = File::options().write(true).open(path);
        let file = file.map_err(|cause| Error::file("open", path, cause))?;
        Ok(Self { file, only_realtime: *only_realtime, used: AtomicBool::new(false) })
    }

    /// Stops the trace at a missed deadline of this caller: one write of one byte. `None` if this
    /// call does not stop it: another one did, or this caller's calls never do.
    pub(super) fn off(&self, caller: Scheduling) -> Option<std::io::Result<()>> {
        if self.only_realtime && !caller.policy.is_realtime() || self.used.swap(true, Ordering::Relaxed) {
            return None;
        }
        Some((&self.file).write_all(b"0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::{Fixture, fixture};

    fn halt(files: &[(&str, &str)]) -> (Fixture, HaltTrace) {
        let root = fixture(files);
        let roots = vec![root.path("sys/kernel/tracing"), root.path("sys/kernel/debug/tracing")];
        (root, HaltTrace { roots, only_realtime: false })
    }

    #[test]
    fn a_running_trace_is_found_in_either_place_and_stopped() {
        let path = "sys/kernel/debug/tracing/tracing_on";
        let (root, halt) = halt(&[(path, "1\n")]);
        let switch = running(&halt).unwrap();
        assert_eq!(switch, root.path(path));
        assert_eq!(log_of(&switch), root.path("sys/kernel/debug/tracing/trace"));
        Switch::open(&HaltJob { path: switch, only_realtime: false })
            .unwrap()
            .off(Scheduling::other(0))
            .unwrap()
            .unwrap();
        assert_eq!(root.number("sys/kernel/debug/tracing/tracing_on"), Some(0));
    }

    #[test]
    fn only_one_call_stops_the_trace_and_none_of_a_caller_whose_calls_do_not() {
        let path = "sys/kernel/tracing/tracing_on";
        let (root, _) = halt(&[(path, "1\n")]);
        let switch = Switch::open(&HaltJob { path: root.path(path), only_realtime: true }).unwrap();
        assert!(switch.off(Scheduling::other(0)).is_none());
        assert_eq!(root.number(path), Some(1));
        assert!(switch.off(Scheduling::fifo(99)).is_some_and(|stopped| stopped.is_ok()));
        assert_eq!(root.number(path), Some(0));
        assert!(switch.off(Scheduling::fifo(99)).is_none());
    }

    #[test]
    fn the_error_without_a_running_trace_says_how_to_start_one() {
        let (_root, stopped) = halt(&[("sys/kernel/tracing/tracing_on", "0\n")]);
        assert!(running(&stopped).unwrap_err().to_string().contains("(or `echo 1 > "));
        let (_root, absent) = halt(&[("sys/other", "")]);
        assert!(running(&absent).unwrap_err().to_string().contains("mount -t tracefs nodev "));
    }
}
