//! Trace instances of killed processes, which still record. Must not know what they record.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use roundtrip_files::Owned;

use crate::mount::{Tracefs, write};

/// The prefix of our instances' names.
pub(crate) const PREFIX: &str = "roundtrip-";

/// The names of the instances that killed processes left.
#[must_use]
pub fn abandoned(tracefs: &Tracefs) -> Vec<String> {
    of_killed(tracefs).iter().map(name).collect()
}

/// Removes the instances that killed processes left, and returns their names. One that another
/// program uses stays, but records no more.
#[expect(clippy::must_use_candidate, reason = "it is called for its side effect")]
pub fn remove_abandoned(tracefs: &Tracefs) -> Vec<String> {
    let removed = of_killed(tracefs).into_iter().filter(|owned| {
        // At once, because the instance may be in use for a moment longer.
        let _ = write(&owned.path().join("tracing_on"), "0");
        // Truncating the list disables its events.
        let _ = File::options().write(true).truncate(true).open(owned.path().join("set_event"));
        remove(owned.path())
    });
    removed.map(|owned| name(&owned)).collect()
}

fn of_killed(tracefs: &Tracefs) -> Vec<Owned> {
    Owned::abandoned(&tracefs.root().join("instances"), PREFIX)
}

fn name(owned: &Owned) -> String {
    owned.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes an instance. A dying worker may keep one of its files open for a moment.
pub(crate) fn remove(directory: &Path) -> bool {
    for _ in 0..50 {
        match std::fs::remove_dir(directory) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(10))
            }
            other => return other.is_ok(),
        }
    }
    false
}
