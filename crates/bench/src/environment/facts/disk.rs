//! The disk that holds a directory: its I/O scheduler, and which CPUs handle its interrupts. Must
//! not judge them.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use roundtrip_run::environment::{Facts, Value};

use crate::kernel::root::Root;
use crate::storage::device::way_down;

/// Reads the facts of the directory's disk.
pub(in crate::environment) fn read(root: &Root, directory: std::io::Result<PathBuf>, facts: &mut Facts) {
    let dev = directory.and_then(|directory| {
        let dev = std::fs::metadata(&directory)?.dev();
        Ok((directory, (rustix::fs::major(dev), rustix::fs::minor(dev))))
    });
    match dev {
        Ok((directory, dev)) => of(root, &directory, dev, facts),
        Err(error) => facts.note("disk", "the current directory", Err(error.to_string())),
    }
}

pub(super) fn of(root: &Root, directory: &Path, dev: (u32, u32), facts: &mut Facts) {
    let path = way_down(root, directory, dev);
    let leaves = path.leaves();
    let from = format!("the file system of {}", directory.display());
    let names = leaves.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    let none = || path.missing.first().cloned().unwrap_or_else(|| "no block device".to_owned());
    let found = if names.is_empty() { Err(none()) } else { Ok(Value::Names(names)) };
    facts.note("disk", &from, found);
    for device in leaves {
        let name = &device.name;
        let scheduler = device.scheduler.clone().map(Value::Text).ok_or_else(|| "not there".to_owned());
        facts.note(
            &format!("disk.{name}.scheduler"),
            &format!("/sys/block/{name}/queue/scheduler"),
            scheduler,
        );
        let mut cpus: Vec<String> = device.interrupts.iter().filter_map(|one| one.cpus.clone()).collect();
        cpus.dedup();
        let found = match cpus.is_empty() {
            true => Err("none could be attributed to this disk".to_owned()),
            false => Ok(Value::Names(cpus)),
        };
        facts.note(&format!("disk.{name}.interrupt_cpus"), "/proc/interrupts, /proc/irq/*", found);
        let numbers: Vec<String> = device.interrupts.iter().map(|one| one.irq.to_string()).take(64).collect();
        if !numbers.is_empty() {
            facts.note(&format!("disk.{name}.interrupts"), "/proc/interrupts", Ok(Value::Names(numbers)));
        }
    }
}
