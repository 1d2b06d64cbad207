//! The global trace: starts it with the user's events, stops it, and restores its earlier settings.
//! Until then, a state file (`global_state.rs`) holds the earlier settings, so that any process can
//! stop a trace that another one has started, even after a crash.
//!
//! A command may be killed between any two of its system calls. So it writes each step to the state
//! file before it carries the step out, and each step can be repeated. The next command, whatever
//! it is, first completes an interrupted one. Must not know who reads the trace.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::buffers::{Buffers, now_ns};
use crate::error::{Error, Result};
use crate::global_settings::{Settings, put_back, refuse_if_used};
use crate::global_state::{Phase, Place, State};
use crate::mount::{PLACES, Tracefs, read, write};
use crate::namespace::foreign_clock;
use crate::recording::{Header, Recording};
use crate::status::Status;

/// The source name of our mount, by which we recognise it.
const SOURCE: &str = "roundtrip-trace";

/// How long [`GlobalTrace::stream`] waits for events.
const PAUSE: Duration = Duration::from_millis(50);

/// The events that a global trace records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// `system/event`, or `system` for all events of a system, in the order in which they are
    /// enabled.
    pub events: Vec<String>,
    /// What was requested but is missing on this kernel, in the words for [`Status`].
    pub missing: Vec<String>,
}

/// The global trace while it runs, or after it was stopped and before its settings are restored.
#[derive(Debug)]
pub struct GlobalTrace {
    buffers: Buffers,
    state: State,
    place: Place,
}

impl GlobalTrace {
    /// Starts recording with these settings.
    ///
    /// `choose` gets the root of tracefs. It returns the events, and the names of what was
    /// requested but is missing. An event is `system/event`, or `system` for all events of a
    /// system.
    ///
    /// # Errors
    /// The error of `choose`. [`Error::AlreadyStarted`]. [`Error::TracerInUse`],
    /// [`Error::EventsInUse`] or [`Error::HoldsEvents`] if another program uses the global trace.
    /// [`Error::NotAvailable`] if this process may not use it. [`Error::File`] if the kernel
    /// refuses a setting. All settings are then unchanged.
    pub fn start<E: From<Error>>(
        settings: &Settings,
        choose: impl FnOnce(&Path) -> Result<Chosen, E>,
    ) -> Result<Self, E> {
        let place = Place::make()?;
        if let Some(running) = Self::settle(&place)? {
            return Err(Error::AlreadyStarted { root: running.state.root.clone() }.into());
        }
        let mounted = Tracefs::mounted()?;
        let root = mounted.as_ref().map_or(Path::new(PLACES[0]), Tracefs::root).to_owned();
        let state = State::new(root.clone(), mounted.is_none(), settings.kilobytes, now_ns());
        let mut trace = Self { buffers: Buffers::new(root.clone(), &root), state, place };
        let started = trace.begin(settings, choose);
        if started.is_err() {
            // Report the first error. The next command restores what could not be restored now.
            let _ = trace.restore_settings();
        }
        started.map(|()| trace)
    }

    fn begin<E: From<Error>>(
        &mut self,
        settings: &Settings,
        choose: impl FnOnce(&Path) -> Result<Chosen, E>,
    ) -> Result<(), E> {
        let root = self.state.root.clone();
        if self.state.mounted {
            self.place.store(&self.state)?;
            mount_at(&root)?;
            self.buffers = Buffers::new(root.clone(), &root);
        }
        // Checked first, because this error does not depend on other programs.
        let Chosen { events, missing } = choose(&root)?;
        Ok(self.record_events(settings, events, missing)?)
    }

    fn record_events(
        &mut self,
        settings: &Settings,
        events: Vec<String>,
        missing: Vec<String>,
    ) -> Result<()> {
        refuse_if_used(&self.buffers)?;
        let before = settings.earlier(&self.buffers, &events)?;
        (self.state.before, self.state.events, self.state.missing) = (before, events, missing);
        self.place.store(&self.state)?;
        self.set_up(settings)
    }

    fn set_up(&mut self, settings: &Settings) -> Result<()> {
        let root = &self.state.root;
        self.buffers.set_on(false)?;
        self.state.clock = self.buffers.set_clock()?;
        settings.apply(root)?;
        for event in &self.state.events {
            write(&root.join("events").join(event).join("enable"), "1")?;
        }
        settings.trace_functions(root)?;
        self.buffers.set_on(true)?;
        self.state.phase = Phase::Running;
        self.place.store(&self.state)
    }

    /// The trace that was started earlier, by any process of this user. First completes what a
    /// killed command had started: a start is undone; a stop that was already restoring settings
    /// restores all of them.
    ///
    /// # Errors
    /// [`Error::Busy`] if another command is running, [`Error::NotARecording`] if the state file is
    /// damaged, [`Error::File`] if something cannot be restored.
    pub fn find() -> Result<Option<Self>> {
        Place::find()?.map_or(Ok(None), |place| Self::settle(&place))
    }

    fn settle(place: &Place) -> Result<Option<Self>> {
        let Some(state) = place.load()? else { return Ok(None) };
        let buffers = Buffers::new(state.root.clone(), &state.root);
        let mut trace = Self { buffers, state, place: place.clone() };
        match trace.state.phase {
            Phase::Running => {
                trace.mount_again()?;
                return Ok(Some(trace));
            }
            Phase::Starting | Phase::Restoring => trace.restore_settings()?,
            Phase::Leaving => trace.leave()?,
        }
        Ok(None)
    }

    /// Another program may have unmounted the tracefs whose settings must be restored.
    fn mount_again(&mut self) -> Result<()> {
        if self.buffers.switch().exists() {
            return Ok(());
        }
        match Tracefs::mounted()? {
            Some(tracefs) => tracefs.root().clone_into(&mut self.state.root),
            None => {
                (self.state.root, self.state.mounted) = (PLACES[0].into(), true);
                self.place.store(&self.state)?;
                mount_at(&self.state.root)?;
            }
        }
        self.buffers = Buffers::new(self.state.root.clone(), &self.state.root);
        Ok(())
    }

    /// The trace's current state.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read.
    pub fn status(&self) -> Result<Status> {
        let cpus = self.buffers.cpus()?.into_iter();
        Ok(Status {
            root: self.state.root.clone(),
            on: read(&self.buffers.switch())?.trim() == "1",
            age_ns: now_ns().saturating_sub(self.state.started_ns),
            kilobytes: self.state.kilobytes,
            clock: self.state.clock.clone(),
            events: self.state.events.clone(),
            missing: self.state.missing.clone(),
            cpus: cpus.map(|cpu| Ok((cpu, self.buffers.stats(cpu)?))).collect::<Result<_>>()?,
        })
    }

    /// Stops recording. The events stay in the buffers.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn halt(&self) -> Result<()> {
        self.buffers.set_on(false)
    }

    /// Writes a line into the trace, as programs do.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn mark(&self, line: &str) -> Result<()> {
        write(&self.state.root.join("trace_marker"), line)
    }

    /// Discards the events that were recorded so far.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub fn clear(&self) -> Result<()> {
        self.buffers.clear()
    }

    /// Takes events out of the buffers, as text, until `ends` returns true, which it is asked at
    /// least ten times a second.
    ///
    /// # Errors
    /// [`Error::File`] if the events cannot be read or written.
    pub fn stream(&self, to: &mut dyn Write, ends: impl Fn() -> bool) -> Result<()> {
        let path = self.state.root.join("trace_pipe");
        let failed = |cause| Error::file("copy", &path, cause);
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut pipe = File::options().read(true).custom_flags(nonblocking).open(&path).map_err(failed)?;
        let mut text = vec![0; 1 << 16];
        while !ends() {
            match pipe.read(&mut text) {
                Ok(0) => std::thread::sleep(PAUSE),
                Ok(length) => {
                    to.write_all(&text[..length]).and_then(|()| to.flush()).map_err(failed)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Writes the trace's classic text form, without removing events. Events
    /// that are recorded meanwhile may be missing.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read or written.
    pub fn write_text(&self, to: &mut dyn Write) -> Result<u64> {
        let path = self.state.root.join("trace");
        let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, to));
        copied.map_err(|cause| Error::file("copy", &path, cause))
    }

    /// Moves the events from the buffers into a new recording with one snapshot. The trace must be
    /// halted.
    ///
    /// # Errors
    /// As [`Recording::create`] and [`Recording::add`].
    pub fn record(&self, directory: &Path) -> Result<Recording> {
        let State { clock, events, missing, root, .. } = &self.state;
        let events = events.iter().flat_map(|event| single_events(root, event)).collect();
        let header = Header::of_this_machine(&self.buffers, clock, events, missing.clone());
        let recording = Recording::create(directory, header, root)?;
        let ours = clock == "boot" && foreign_clock().is_none();
        recording.add(&self.buffers.snapshot(None, ours.then(now_ns))?)?;
        Ok(recording)
    }

    /// Discards the events, and restores all settings from before the start.
    ///
    /// # Errors
    /// [`Error::File`] with the first setting that the kernel refuses. The others are restored
    /// anyway, and this can be called again.
    pub fn restore(mut self) -> Result<()> {
        self.restore_settings()
    }

    fn restore_settings(&mut self) -> Result<()> {
        // Without earlier settings, nothing has been changed yet, and the trace's contents belong
        // to another program.
        if !self.state.before.is_empty() {
            self.state.phase = Phase::Restoring;
            self.place.store(&self.state)?;
            self.mount_again()?;
            self.put_back_settings()?;
        }
        self.state.phase = Phase::Leaving;
        self.place.store(&self.state)?;
        self.leave()
    }

    fn put_back_settings(&self) -> Result<()> {
        let root = &self.state.root;
        let mut results = vec![self.buffers.set_on(false)];
        let (last, others) =
            self.state.before.split_last().map_or((None, &[][..]), |(last, all)| (Some(last), all));
        for (file, value) in others {
            results.push(put_back(root, file, value));
        }
        results.push(self.buffers.clear());
        results.extend(last.map(|(file, value)| write(&root.join(file), value)));
        results.into_iter().collect()
    }

    /// The last steps. From here on, another program may use the trace.
    fn leave(&self) -> Result<()> {
        let root = &self.state.root;
        if self.state.mounted && is_our_mount(root) {
            unmount(root, UnmountFlags::DETACH).map_err(|cause| Error::file("unmount", root, cause))?;
        }
        self.place.forget()
    }
}

/// Mounts tracefs visibly.
fn mount_at(place: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(SOURCE, place, "tracefs", flags, None).map_err(|errno| Error::NotAvailable {
        reason: format!(
            "tracefs is not mounted, and cannot be mounted at {}: {errno}; it needs root",
            place.display()
        ),
    })
}

/// Whether the topmost mount at a path was made by [`mount_at`] (proc_pid_mountinfo(5)).
fn is_our_mount(place: &Path) -> bool {
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts).into_owned();
    let there = |line: &&str| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == place);
    let last = mounts.lines().rfind(there).and_then(|line| line.split_once(" - "));
    last.is_some_and(|(_, rest)| rest.starts_with(&format!("tracefs {SOURCE} ")))
}

/// The single events behind a name: for a system, all of its events.
fn single_events(root: &Path, event: &str) -> Vec<String> {
    if event.contains('/') {
        return vec![event.to_owned()];
    }
    let folder = root.join("events").join(event);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().join("format").exists());
    let mut names: Vec<_> =
        names.filter_map(|entry| Some(format!("{event}/{}", entry.file_name().to_str()?))).collect();
    names.sort();
    names
}
