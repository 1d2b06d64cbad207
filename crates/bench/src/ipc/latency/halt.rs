//! Stops the kernel's running trace at the first call that misses its deadline, so that the trace's
//! buffer still shows what led to it. Must not know what a call is.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use run::ipc::latency::HaltTrace;

/// The `tracing_on` of the running trace.
///
/// # Errors
/// [`Error::NoTrace`] if none is running, with how to start one.
pub(super) fn running(plan: &HaltTrace) -> Result<PathBuf> {
    let switch = plan.roots.iter().map(|root| root.join("tracing_on")).find(|path| path.exists());
    let Some(switch) = switch else {
        let root = plan.roots.first().map(|root| root.display().to_string()).unwrap_or_default();
        let how_to_start = format!(
            "start one, as root, with `roundtrip trace start` (or `mount -t tracefs nodev {root}` and `echo 1 > \
             {root}/tracing_on`)"
        );
        return Err(Error::NoTrace { how_to_start });
    };
    let state = std::fs::read_to_string(&switch).map_err(|cause| Error::file("read", &switch, cause))?;
    if state.trim() != "1" {
        let how_to_start =
            format!("start one with `roundtrip trace start` (or `echo 1 > {}`)", switch.display());
        return Err(Error::NoTrace { how_to_start });
    }
    Ok(switch)
}

/// The trace's log, in the same folder as its switch.
pub(super) fn log_of(switch: &Path) -> PathBuf {
    switch.with_file_name("trace")
}

/// The trace's `tracing_on`, opened before the first call is timed.
#[derive(Debug)]
pub(super) struct Switch(File);

impl Switch {
    pub(super) fn open(path: &Path) -> Result<Self> {
        File::options().write(true).open(path).map(Switch).map_err(|cause| Error::file("open", path, cause))
    }

    /// Stops the trace: one write of one byte.
    pub(super) fn off(&self) -> std::io::Result<()> {
        (&self.0).write_all(b"0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Fixture, fixture};

    fn halt(files: &[(&str, &str)]) -> (Fixture, HaltTrace) {
        let root = fixture(files);
        let roots = vec![root.path("sys/kernel/tracing"), root.path("sys/kernel/debug/tracing")];
        (root, HaltTrace { roots })
    }

    #[test]
    fn a_running_trace_is_found_in_either_place_and_stopped() {
        let path = "sys/kernel/debug/tracing/tracing_on";
        let (root, halt) = halt(&[(path, "1\n")]);
        let switch = running(&halt).unwrap();
        assert_eq!(switch, root.path(path));
        assert_eq!(log_of(&switch), root.path("sys/kernel/debug/tracing/trace"));
        Switch::open(&switch).unwrap().off().unwrap();
        assert_eq!(root.number("sys/kernel/debug/tracing/tracing_on"), Some(0));
    }

    #[test]
    fn the_error_without_a_running_trace_says_how_to_start_one() {
        let (_root, stopped) = halt(&[("sys/kernel/tracing/tracing_on", "0\n")]);
        assert!(running(&stopped).unwrap_err().to_string().contains("(or `echo 1 > "));
        let (_root, absent) = halt(&[("sys/other", "")]);
        assert!(running(&absent).unwrap_err().to_string().contains("mount -t tracefs nodev "));
    }
}
