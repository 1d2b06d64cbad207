//! A private instance of the kernel's trace as a flight recorder: it overwrites the oldest events,
//! and is stopped when something has happened. Everything that it sets is its own, and ends with
//! it. Must not know what is waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use files::Owned;

use crate::buffers::{Buffers, now_ns};
use crate::error::{Error, Result};
use crate::mount::{Tracefs, read, write};
use crate::recording::Header;
use crate::selection::Selection;
use crate::snapshot::{CpuSnapshot, CpuStats, Snapshot};

/// What the names of our instances begin with.
const PREFIX: &str = "roundtrip-";

/// An instance that records the events of a selection into buffers of a fixed size.
#[derive(Debug)]
pub struct Instance {
    buffers: Buffers,
    clock: String,
    events: Vec<String>,
    missing: Vec<String>,
    /// Open all the time: so the kernel refuses to remove an instance that is in use.
    switch: Option<File>,
    /// Held until it is removed.
    _owned: Owned,
}

impl Instance {
    /// Makes one, not yet recording, with buffers of `kilobytes` for each CPU. Before that,
    /// instances of processes that have ended without removing them are removed.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] when this process may not make one, [`Error::File`] when the kernel
    /// refuses a setting, also for want of memory. Then nothing is left of it.
    pub fn create(tracefs: &Tracefs, selection: &Selection, kilobytes: u64) -> Result<Self> {
        remove_abandoned(tracefs);
        let instances = tracefs.root().join("instances");
        let owned = Owned::make(&instances, PREFIX).map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied => Error::NotAvailable {
                reason: format!("{} is not accessible to this user: run as root", instances.display()),
            },
            ErrorKind::NotFound => {
                Error::NotAvailable { reason: "this kernel has no trace instances".to_owned() }
            }
            _ => Error::file("make an instance in", &instances, cause),
        })?;
        let mut instance = Self {
            buffers: Buffers::new(owned.path().to_owned(), tracefs.root()),
            clock: String::new(),
            events: Vec::new(),
            missing: selection.missing.clone(),
            switch: None,
            _owned: owned,
        };
        if nobody_else_records(tracefs) {
            // The kernel notes the names of threads that are switched to, which costs a short round
            // trip as much as two events; the events hold the names. While other traces are on,
            // this option would act on them, too (`trace_event_enable_cmd_record` in the kernel's
            // trace_events.c), and is left alone.
            let _ = write(&instance.buffers.directory.join("trace_options"), "norecord-cmd");
        }
        instance.set_up(selection, kilobytes)?;
        Ok(instance)
    }

    fn set_up(&mut self, selection: &Selection, kilobytes: u64) -> Result<()> {
        let Buffers { directory, .. } = &self.buffers;
        self.buffers.set_on(false)?;
        self.clock = self.buffers.set_clock()?;
        write(&directory.join("buffer_size_kb"), &kilobytes.to_string())?;
        write(&directory.join("options/overwrite"), "1")?;
        // Since Linux 4.13. Without it processes are not known; the events do not depend on it.
        let _ = write(&directory.join("options/record-tgid"), "1");
        for (event, filter) in &selection.filters {
            write(&directory.join("events").join(event).join("filter"), filter)?;
        }
        for event in &selection.events {
            write(&directory.join("events").join(event).join("enable"), "1")?;
            self.events.push(event.clone());
        }
        let path = self.buffers.switch();
        let switch = File::options().write(true).open(&path);
        self.switch = Some(switch.map_err(|cause| Error::file("open", &path, cause))?);
        Ok(())
    }

    /// Begins to record, or goes on, and tells when that was certainly so, in nanoseconds of
    /// CLOCK_BOOTTIME.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn on(&self) -> Result<u64> {
        self.turn(b"1")?;
        Ok(now_ns())
    }

    /// Stops recording, and tells when that was certainly so, in nanoseconds of CLOCK_BOOTTIME: no
    /// event follows.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn off(&self) -> Result<u64> {
        self.turn(b"0")?;
        Ok(now_ns())
    }

    fn turn(&self, value: &[u8]) -> Result<()> {
        let Some(mut switch) = self.switch.as_ref() else { return Ok(()) };
        switch.write_all(value).map_err(|cause| Error::file("write", self.buffers.switch(), cause))
    }

    /// The file that other processes write a 0 to, to stop recording; they can open it for as long
    /// as this value and its [`Tracefs`] live.
    #[must_use]
    pub fn switch_path(&self) -> PathBuf {
        self.buffers.switch()
    }

    /// Takes out what was recorded, which empties the buffers. `started_ns` is when recording had
    /// certainly begun, with empty buffers, `stopped_ns` when it had certainly stopped.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn snapshot(&self, started_ns: u64, stopped_ns: u64) -> Result<Snapshot> {
        // Only this clock is the one that these instants are of.
        let ours = |instant_ns| (self.clock == "boot").then_some(instant_ns);
        self.buffers.snapshot(ours(started_ns), ours(stopped_ns))
    }

    /// Takes out what each CPU's buffer holds, for a [`Stream`](crate::Stream); recording goes on.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn take(&self) -> Result<Vec<CpuSnapshot>> {
        self.buffers.take(Some(now_ns()))
    }

    /// The processes of the threads that were recorded, as far as the kernel has noted them, and
    /// the names of those processes that are still there.
    #[must_use]
    pub fn who_is_who(&self) -> (BTreeMap<u32, u32>, BTreeMap<u32, String>) {
        self.buffers.who_is_who()
    }

    /// Forgets what was recorded.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn clear(&self) -> Result<()> {
        self.buffers.clear()
    }

    /// What the kernel has counted, by CPU.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn stats(&self) -> Result<Vec<(u32, CpuStats)>> {
        self.buffers.cpus()?.into_iter().map(|cpu| Ok((cpu, self.buffers.stats(cpu)?))).collect()
    }

    /// What a reader must know of its recordings.
    #[must_use]
    pub fn header(&self) -> Header {
        Header::of_this_machine(&self.buffers, &self.clock, self.events.clone(), self.missing.clone())
    }

    /// The trace's clock: "boot", unless the kernel has none.
    #[must_use]
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// The events that are recorded, `system/event`.
    #[must_use]
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Wanted events that this kernel does not have.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The size of one sub-buffer, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.buffers.page_bytes
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.turn(b"0");
        self.switch = None;
        // Events are switched off with their instance (`__remove_instance` in the kernel's
        // trace.c).
        remove(&self.buffers.directory);
    }
}

/// Whether no other trace has an event on, neither the global one nor another instance.
fn nobody_else_records(tracefs: &Tracefs) -> bool {
    let instances = std::fs::read_dir(tracefs.root().join("instances"));
    let instances = instances.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut traces = instances.chain([tracefs.root().to_owned()]);
    traces.all(|trace| read(&trace.join("set_event")).is_ok_and(|events| events.trim().is_empty()))
}

/// Removes an instance. A worker that is just dying may hold one of its files for a moment longer.
fn remove(directory: &Path) -> bool {
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

/// Removes the instances of processes that were killed before they could, and tells how many. Those
/// that cannot be removed are in use, and are left alone.
#[expect(clippy::must_use_candidate, reason = "it is called for what it does")]
pub fn remove_abandoned(tracefs: &Tracefs) -> usize {
    let abandoned = Owned::abandoned(&tracefs.root().join("instances"), PREFIX);
    abandoned.iter().filter(|owned| remove(owned.path())).count()
}
