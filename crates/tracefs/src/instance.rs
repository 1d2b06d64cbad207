//! A private trace instance as a flight recorder: it overwrites the oldest events, and is stopped
//! when something has happened. All settings belong to the instance, and vanish with it. Must not
//! know what it waits for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use roundtrip_files::Owned;
use rustix::io::Errno;

use crate::abandoned::{PREFIX, remove, remove_abandoned};
use crate::buffers::{Buffers, now_ns};
use crate::error::{Error, Result};
use crate::mount::{Tracefs, read, write};
use crate::readers::Readers;
use crate::recording::Header;
use crate::selection::Selection;
use crate::snapshot::{CpuSnapshot, CpuStats, Snapshot};
use crate::who;

/// The settings that another program may change, after which events are missing.
const SETTINGS: [&str; 6] =
    ["set_event", "set_event_pid", "tracing_cpumask", "trace_clock", "buffer_size_kb", "options/overwrite"];

/// The threads whose events are recorded, and whether those that they create are added (Linux 4.7).
const FOLLOWED: &str = "set_event_pid";
const FORKS: &str = "options/event-fork";

/// How far the timestamps of events may be ahead of our clock, in nanoseconds.
const MARK_WITHIN_NS: u64 = 100_000;

/// An instance that records the events of a selection into buffers of a fixed size.
#[derive(Debug)]
pub struct Instance {
    buffers: Buffers,
    clock: String,
    events: Vec<String>,
    missing: Vec<String>,
    /// The settings that decide what is recorded, as the kernel shows them.
    settings: Vec<(&'static str, String)>,
    readers: Mutex<Readers>,
    /// Always open, so that the kernel refuses to remove the instance while it is in use.
    switch: Option<File>,
    /// Held until the instance is removed.
    _owned: Owned,
}

impl Instance {
    /// Creates an instance, not yet recording, with buffers of `kilobytes` for each CPU. First
    /// removes instances that other processes left behind when they ended.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if this process lacks permission, [`Error::File`] if the kernel
    /// refuses a setting or lacks memory. On failure, no instance remains.
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
            settings: Vec::new(),
            readers: Mutex::default(),
            switch: None,
            _owned: owned,
        };
        if nobody_else_records(tracefs) {
            // By default, the kernel stores the names of threads on each context switch. For a
            // short round trip, that costs as much as two events. We do not need it, because the
            // events contain the names. The option also affects other active traces
            // (`trace_event_enable_cmd_record` in the kernel's trace_events.c). So it is left alone
            // if there are any.
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
        // Since Linux 4.13. Without it, the processes of threads are unknown, but events are
        // unaffected.
        let _ = write(&directory.join("options/record-tgid"), "1");
        if selection.followed_only {
            write(&directory.join(FORKS), "1")?;
        }
        for (event, filter) in &selection.filters {
            write(&directory.join("events").join(event).join("filter"), filter)?;
        }
        let accepted = selection.filtered.iter().filter(|(event, filter)| {
            write(&directory.join("events").join(event).join("filter"), filter).is_ok()
        });
        let accepted: Vec<&String> = accepted.map(|(event, _)| event).collect();
        for event in selection.events.iter().chain(accepted) {
            write(&directory.join("events").join(event).join("enable"), "1")?;
            self.events.push(event.clone());
        }
        // The kernel changes the list of followed threads as they come and go.
        let fixed = SETTINGS.into_iter().filter(|&file| file != FOLLOWED || !selection.followed_only);
        let shown = fixed.filter_map(|file| Some((file, read(&directory.join(file)).ok()?)));
        self.settings = shown.collect();
        let path = self.buffers.switch();
        let switch = File::options().write(true).open(&path);
        self.switch = Some(switch.map_err(|cause| Error::file("open", &path, cause))?);
        Ok(())
    }

    /// Records only these threads from now on, those that were chosen before, and what they create.
    /// The kernel checks that once per context switch, not per event. A thread leaves the list when
    /// it ends. Threads that do not exist have no effect.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn follow(&self, tids: &[u32]) -> Result<()> {
        let list: String = tids.iter().map(|tid| format!("{tid}\n")).collect();
        write(&self.buffers.directory.join(FOLLOWED), &list)
    }

    /// Whether a thread was chosen, and has not left the list.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn follows(&self, tid: u32) -> Result<bool> {
        let listed = read(&self.buffers.directory.join(FOLLOWED))?;
        Ok(listed.lines().any(|line| line.parse() == Ok(tid)))
    }

    /// Starts or continues recording. Returns an instant at which it was certainly on, in
    /// nanoseconds of CLOCK_BOOTTIME.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn on(&self) -> Result<u64> {
        self.turn(b"1")?;
        Ok(now_ns())
    }

    /// Like [`on`](Instance::on), and records an event at once. If the next
    /// [`snapshot`](Instance::snapshot) lacks it, another program has cleared the buffers.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn on_marked(&self) -> Result<u64> {
        let started_ns = self.on()?;
        let marker = File::options().write(true).open(self.buffers.directory.join("trace_marker"));
        self.readers().mark_ns = match marker.and_then(|mut file| file.write_all(b"roundtrip: recording")) {
            Ok(()) => Some(now_ns() + MARK_WITHIN_NS),
            // Another program is clearing the buffers, or another process has stopped the recorder.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADF) => {
                self.buffers.is_on().then_some(started_ns)
            }
            Err(_) => None,
        };
        Ok(started_ns)
    }

    /// Stops recording. Returns an instant at which it was certainly off, in nanoseconds of
    /// CLOCK_BOOTTIME. No later event is recorded.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn off(&self) -> Result<u64> {
        self.turn(b"0")?;
        Ok(now_ns())
    }

    fn turn(&self, value: &[u8]) -> Result<()> {
        let Some(mut switch) = self.switch.as_ref() else { return Ok(()) };
        switch.write_all(value).map_err(|cause| Error::file("write", self.buffers.switch(), cause))
    }

    /// What another program has done to this recording since the instance was created, in words;
    /// `None` if nothing. It may have changed a setting, read events or cleared the buffer. With
    /// `is_on`, recording must be on. What cannot be read counts as unchanged.
    ///
    /// A setting that was changed and changed back between two calls is not noticed.
    #[must_use]
    pub fn changed(&self, is_on: bool) -> Option<String> {
        for cpu in self.buffers.cpus().unwrap_or_default() {
            self.look(cpu);
        }
        let on = is_on.then(|| ("tracing_on", "1".to_owned()));
        // Changing the clock also clears the buffer.
        changed(&self.buffers.directory, self.settings.iter().chain(&on)).or_else(|| {
            self.readers().found().map(|what| format!("another program {what} of this recording"))
        })
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out whether another program has taken events out of a CPU's buffer.
    fn look(&self, cpu: u32) {
        if let Some(read) = self.buffers.events_read(cpu) {
            self.readers().look(cpu, read);
        }
    }

    /// Takes events out by `take`, and notes how many.
    fn taking<T>(&self, take: impl FnOnce() -> Result<T>) -> Result<T> {
        let cpus = self.buffers.cpus()?;
        cpus.iter().for_each(|&cpu| self.look(cpu));
        let taken = take();
        for cpu in cpus {
            if let Some(read) = self.buffers.events_read(cpu) {
                self.readers().leave(cpu, read);
            }
        }
        taken
    }

    /// The file to which other processes write a 0 to stop recording. They can open it as long as
    /// this value and its [`Tracefs`] live.
    #[must_use]
    pub fn switch_path(&self) -> PathBuf {
        self.buffers.switch()
    }

    /// Takes out what was recorded, which empties the buffers. At `started_ns`, recording had
    /// certainly started, with empty buffers. At `stopped_ns`, it had certainly stopped.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn snapshot(&self, started_ns: u64, stopped_ns: u64) -> Result<Snapshot> {
        // The instants are only valid on this clock.
        let ours = |instant_ns| (self.clock == "boot").then_some(instant_ns);
        let snapshot = self.taking(|| self.buffers.snapshot(ours(started_ns), ours(stopped_ns)))?;
        if let Some(started_ns) = ours(started_ns) {
            let first_ns = snapshot.cpus.iter().filter_map(CpuSnapshot::first_ns).min();
            let overwritten = snapshot.cpus.iter().any(|cpu| cpu.stats.overrun > 0);
            self.readers().recorded(started_ns, stopped_ns, first_ns, overwritten);
        }
        Ok(snapshot)
    }

    /// Takes out the contents of each CPU's buffer, for a [`Stream`](crate::Stream). Recording
    /// continues.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn take(&self) -> Result<Vec<CpuSnapshot>> {
        self.taking(|| self.buffers.take(Some(now_ns())))
    }

    /// The processes of the threads that occur in these pages, as far as the kernel knows them, and
    /// the names of those processes that still exist.
    #[must_use]
    pub fn who_is_who(&self, cpus: &[CpuSnapshot]) -> (BTreeMap<u32, u32>, BTreeMap<u32, String>) {
        self.buffers.who_is_who(cpus)
    }

    /// The processes of all threads that the kernel knows.
    #[must_use]
    pub fn processes(&self) -> BTreeMap<u32, u32> {
        who::processes(&self.buffers.root)
    }

    /// Discards what was recorded.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn clear(&self) -> Result<()> {
        self.readers().clear();
        self.buffers.clear()
    }

    /// The kernel's counters by CPU.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn stats(&self) -> Result<Vec<(u32, CpuStats)>> {
        self.buffers.cpus()?.into_iter().map(|cpu| Ok((cpu, self.buffers.stats(cpu)?))).collect()
    }

    /// The header of its recordings.
    #[must_use]
    pub fn header(&self) -> Header {
        Header::of_this_machine(&self.buffers, &self.clock, self.events.clone(), self.missing.clone())
    }

    /// The trace's clock: "boot", unless the kernel has none.
    #[must_use]
    pub fn clock(&self) -> &str {
        &self.clock
    }

    /// The recorded events, `system/event`.
    #[must_use]
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Requested events that this kernel lacks.
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
        // Removing an instance disables its events (`__remove_instance` in the kernel's trace.c).
        remove(&self.buffers.directory);
    }
}

/// The first of these settings that has another value.
fn changed<'a>(
    directory: &Path,
    mut settings: impl Iterator<Item = &'a (&'static str, String)>,
) -> Option<String> {
    settings.find_map(|(file, before)| {
        let now = read(&directory.join(file)).ok()?;
        (now.trim() != before.trim()).then(|| format!("another program changed {file} of this recording"))
    })
}

/// Whether no other trace has events enabled, neither the global one nor another instance.
fn nobody_else_records(tracefs: &Tracefs) -> bool {
    let instances = std::fs::read_dir(tracefs.root().join("instances"));
    let instances = instances.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut traces = instances.chain([tracefs.root().to_owned()]);
    traces.all(|trace| read(&trace.join("set_event")).is_ok_and(|events| events.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_setting_is_named() {
        let directory = std::env::temp_dir().join(format!("roundtrip-changed-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let put = |file: &str, text: &str| std::fs::write(directory.join(file), text).unwrap();
        let settings = [("tracing_cpumask", "3\n".to_owned()), ("tracing_on", "1".to_owned())];
        let found = || changed(&directory, settings.iter());
        assert_eq!(found(), None, "what cannot be read is unchanged");
        put("tracing_cpumask", "3\n");
        put("tracing_on", "1\n");
        assert_eq!(found(), None);
        put("tracing_on", "0\n");
        assert_eq!(found().as_deref(), Some("another program changed tracing_on of this recording"));
        put("tracing_cpumask", "1\n");
        assert_eq!(found().as_deref(), Some("another program changed tracing_cpumask of this recording"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
