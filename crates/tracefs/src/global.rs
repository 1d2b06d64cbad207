//! The global trace, started and stopped as Android's `atrace --async_start` and `--async_stop` do, with every setting put
//! back as it was. What it was stands in a file meanwhile, so that another process can stop what one has started, and
//! so can one after a crash. Must not know who looks at the trace.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::{Deserialize, Serialize};

use crate::atrace::Category;
use crate::buffers::{Buffers, CpuStats, current, now_ns};
use crate::error::{Error, Result};
use crate::mount::{PLACES, Tracefs, read, write};
use crate::namespace::foreign_clock;
use crate::recording::{Header, Recording};

/// The name of the file that holds what was.
const STATE: &str = "roundtrip-trace.json";

/// The global trace while it runs, or after it was stopped and before its settings were put back.
#[derive(Debug)]
pub struct GlobalTrace {
    buffers: Buffers,
    state: State,
    path: PathBuf,
}

/// What was before, and what was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    schema: String,
    version: u32,
    /// When it was started, in nanoseconds of CLOCK_BOOTTIME: after a reboot nothing of it holds.
    started_ns: u64,
    boot_id: String,
    root: PathBuf,
    /// Whether tracefs was mounted there for it.
    mounted: bool,
    /// Files below the root, and what to write to them, in this order.
    before: Vec<(String, String)>,
    events: Vec<String>,
    missing: Vec<String>,
    clock: String,
    kilobytes: u64,
}

/// How the global trace is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its directory.
    pub root: PathBuf,
    /// Whether it records at this moment.
    pub on: bool,
    /// How long ago it was started, in nanoseconds.
    pub age_ns: u64,
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// The trace's clock.
    pub clock: String,
    /// The events that it records.
    pub events: Vec<String>,
    /// Categories of which this kernel has no event.
    pub missing: Vec<String>,
    /// What the kernel has counted, by CPU.
    pub cpus: Vec<(u32, CpuStats)>,
}

impl GlobalTrace {
    /// Starts what `atrace --async_start -b KILOBYTES -c CATEGORIES` would: these events, into buffers of that size for each CPU, in
    /// which the newest overwrite the oldest. Without categories it takes the usual ones, as far as the kernel has them.
    ///
    /// # Errors
    /// [`Error::Category`] when the kernel has no event of a category that was named;
    /// [`Error::Refused`] when one was started before, or when somebody else uses the global trace;
    /// [`Error::NotAvailable`] when this process may not; [`Error::File`] when the kernel refuses a setting. Then
    /// everything is as it was.
    pub fn start(kilobytes: u64, categories: &[Category]) -> Result<GlobalTrace> {
        if let Some(running) = GlobalTrace::find()? {
            let root = running.buffers.root.display();
            return Err(Error::Refused(format!(
                "a trace was already started in {root}: end it with `roundtrip trace stop`"
            )));
        }
        let (root, mounted) = mounted_for_all()?;
        let started = GlobalTrace::start_in(root.clone(), mounted, kilobytes, categories);
        if started.is_err() && mounted {
            let _ = unmount(&root, UnmountFlags::DETACH);
        }
        started
    }

    fn start_in(
        root: PathBuf,
        mounted: bool,
        kilobytes: u64,
        categories: &[Category],
    ) -> Result<GlobalTrace> {
        let buffers = Buffers::new(root.clone(), &root);
        // What was asked for cannot be had whatever others do.
        let (events, missing) = chosen(&root, categories)?;
        refuse_if_used(&buffers)?;
        let mut before = Vec::new();
        // Events first: nothing is recorded any more when the rest changes.
        for event in &events {
            before.push((format!("events/{event}/enable"), "0".to_owned()));
        }
        for option in ["overwrite", "record-tgid"] {
            let file = format!("options/{option}");
            if let Ok(value) = read(&root.join(&file)) {
                before.push((file, value.trim().to_owned()));
            }
        }
        let clocks = read(&root.join("trace_clock"))?;
        before.extend(current(&clocks).map(|clock| ("trace_clock".to_owned(), clock)));
        before.extend(sizes(&buffers)?);
        let on = read(&buffers.switch())?;
        before.push(("tracing_on".to_owned(), on.trim().to_owned()));
        let state = State {
            schema: "roundtrip.trace-state".to_owned(),
            version: 1,
            started_ns: now_ns(),
            boot_id: boot_id(),
            root,
            mounted,
            before,
            events,
            missing,
            clock: String::new(),
            kilobytes,
        };
        let path = store(&state)?;
        let mut trace = GlobalTrace { buffers, state, path };
        match trace.set_up() {
            Ok(()) => Ok(trace),
            Err(error) => {
                // The error to tell is the first one.
                let _ = trace.put_back();
                let _ = std::fs::remove_file(&trace.path);
                Err(error)
            }
        }
    }

    fn set_up(&mut self) -> Result<()> {
        let root = &self.state.root;
        self.buffers.set_on(false)?;
        self.state.clock = self.buffers.set_clock()?;
        write(&root.join("buffer_size_kb"), &self.state.kilobytes.to_string())?;
        write(&root.join("options/overwrite"), "1")?;
        // Since Linux 4.13.
        let _ = write(&root.join("options/record-tgid"), "1");
        for event in &self.state.events {
            write(&root.join("events").join(event).join("enable"), "1")?;
        }
        // Now that the clock is known.
        replace(&self.path, &self.state)?;
        self.buffers.set_on(true)
    }

    /// The one that was started before, by whichever process of this user.
    ///
    /// # Errors
    /// [`Error::Refused`] when the file that says so is somebody else's, [`Error::NotARecording`] when it is damaged.
    pub fn find() -> Result<Option<GlobalTrace>> {
        for path in places() {
            let Some(state) = load(&path)? else { continue };
            if state.boot_id != boot_id() {
                // The machine was started anew since: there is nothing to put back.
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let buffers = Buffers::new(state.root.clone(), &state.root);
            return Ok(Some(GlobalTrace { buffers, state, path }));
        }
        Ok(None)
    }

    /// How it is doing.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel does not tell.
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

    /// Stops recording; the events stay where they are.
    ///
    /// # Errors
    /// [`Error::File`] when the kernel refuses.
    pub fn halt(&self) -> Result<()> {
        self.buffers.set_on(false)
    }

    /// Writes the trace's classic text form, without taking anything out. To be halted before.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read or written.
    pub fn write_text(&self, to: &mut dyn Write) -> Result<u64> {
        let path = self.state.root.join("trace");
        let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, to));
        copied.map_err(|cause| Error::file("copy", &path, cause))
    }

    /// Takes the events out of the buffers into a new recording with one snapshot. To be halted before.
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

    /// Forgets the events, and puts every setting back as it was before the start.
    ///
    /// # Errors
    /// [`Error::File`] with the first setting that the kernel refuses; the others are put back all the same, and it can be
    /// tried again.
    pub fn restore(self) -> Result<()> {
        self.put_back()?;
        std::fs::remove_file(&self.path).map_err(|cause| Error::file("remove", &self.path, cause))
    }

    fn put_back(&self) -> Result<()> {
        let root = &self.state.root;
        let mut results = vec![self.buffers.set_on(false)];
        let (last, others) =
            self.state.before.split_last().map_or((None, &[][..]), |(last, all)| (Some(last), all));
        for (file, value) in others {
            results.push(write(&root.join(file), value));
        }
        results.push(self.buffers.clear());
        results.extend(last.map(|(file, value)| write(&root.join(file), value)));
        if self.state.mounted {
            let unmounted = unmount(root, UnmountFlags::DETACH);
            results.push(unmounted.map_err(|cause| Error::file("unmount", root, cause)));
        }
        results.into_iter().collect()
    }
}

/// Where tracefs is mounted, for others to see; mounted at its usual place if it is not.
fn mounted_for_all() -> Result<(PathBuf, bool)> {
    if let Some(tracefs) = Tracefs::mounted()? {
        return Ok((tracefs.root().to_owned(), false));
    }
    let place = Path::new(PLACES[0]);
    mount("nodev", place, "tracefs", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
        .map_err(|errno| Error::NotAvailable {
            reason: format!(
                "tracefs is not mounted, and cannot be mounted at {}: {errno}; it needs root",
                place.display()
            ),
        })?;
    Ok((place.to_owned(), true))
}

/// Somebody else's trace is neither changed nor thrown away.
fn refuse_if_used(buffers: &Buffers) -> Result<()> {
    let root = &buffers.directory;
    let tracer = read(&root.join("current_tracer"))?;
    if tracer.trim() != "nop" {
        return Err(Error::Refused(format!(
            "somebody uses the global trace: {}/current_tracer is {}; to end that, write nop to it",
            root.display(),
            tracer.trim()
        )));
    }
    let events = read(&root.join("set_event"))?;
    if let Some(first) = events.lines().next() {
        return Err(Error::Refused(format!(
            "somebody uses the global trace: {} events are on in {}, {first} among them; to switch them off, \
             `echo > {}/set_event`",
            events.lines().count(),
            root.display(),
            root.display()
        )));
    }
    let held = buffers.cpus()?.into_iter().map(|cpu| Ok(buffers.stats(cpu)?.entries)).sum::<Result<u64>>()?;
    if held > 0 {
        return Err(Error::Refused(format!(
            "the global trace holds {held} events of somebody's; to throw them away, `echo > {}/trace`",
            root.display()
        )));
    }
    Ok(())
}

/// The events of these categories that this kernel has, and the categories of which it has none: only without a choice.
fn chosen(root: &Path, categories: &[Category]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut events, mut missing) = (Vec::new(), Vec::new());
    for category in if categories.is_empty() { Category::usual() } else { categories } {
        let found = category.events(root);
        if found.is_empty() {
            missing.push(category.name.to_owned());
        }
        for event in found {
            if !events.contains(&event) {
                events.push(event);
            }
        }
    }
    if categories.is_empty() || missing.is_empty() {
        return Ok((events, missing));
    }
    let there = Category::ALL.iter().filter(|category| !category.events(root).is_empty());
    let there: Vec<_> = there.map(|category| category.name).collect();
    let (missing, there) = (missing.join(", "), there.join(", "));
    Err(Error::Category(format!("this kernel has no events of {missing}; it has those of {there}")))
}

/// The events behind a name: of a whole system all that it has.
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

/// What to write to have the buffers as they are now. A buffer that was never used is small, and grows when it is: it says
/// "7 (expanded: 1408)", and what can be had back is the size that it would have had in use.
fn sizes(buffers: &Buffers) -> Result<Vec<(String, String)>> {
    let size = |file: String| {
        let text = read(&buffers.directory.join(&file))?;
        let text = text.trim();
        let expanded = text.split_once("(expanded: ").map(|(_, size)| size.trim_end_matches(')'));
        Ok((file, expanded.unwrap_or(text).to_owned()))
    };
    let all = size("buffer_size_kb".to_owned())?;
    // CPUs with buffers of different sizes: "X".
    if all.1.parse::<u64>().is_ok() {
        return Ok(vec![all]);
    }
    buffers.cpus()?.into_iter().map(|cpu| size(format!("per_cpu/cpu{cpu}/buffer_size_kb"))).collect()
}

/// Where the state is kept: where files of a running system belong, else where temporary ones do.
fn places() -> Vec<PathBuf> {
    vec![Path::new("/run").join(STATE), std::env::temp_dir().join(STATE)]
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Writes the state to the first place that takes it. Nobody else's file is followed or overwritten.
fn store(state: &State) -> Result<PathBuf> {
    let text = stored::to_text(state).unwrap_or_default();
    let mut last = None;
    for path in places() {
        let created = File::options().write(true).create_new(true).mode(0o600).open(&path);
        match created.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => return Ok(path),
            Err(cause) => {
                if cause.kind() != ErrorKind::AlreadyExists {
                    let _ = std::fs::remove_file(&path);
                }
                last = Some(Error::file("create", &path, cause));
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::Refused("there is no place for the trace's state".to_owned())))
}

/// Writes it anew, whole or not at all.
fn replace(path: &Path, state: &State) -> Result<()> {
    let partial = path.with_extension("json.partial");
    let text = stored::to_text(state).unwrap_or_default();
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let written = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|cause| {
        let _ = std::fs::remove_file(&partial);
        Error::file("write", path, cause)
    })
}

/// The state in a file, which must be this user's own and closed to others: it says what is written to the kernel.
fn load(path: &Path) -> Result<Option<State>> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::file("open", path, cause)),
    };
    let metadata = file.metadata().map_err(|cause| Error::file("read", path, cause))?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own || metadata.mode() & 0o022 != 0 || !metadata.is_file() {
        return Err(Error::Refused(format!(
            "{} is not this user's own, or others may write to it: whoever started the trace must stop it",
            path.display()
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|cause| Error::file("read", path, cause))?;
    let state: State = stored::read_text(text.as_bytes()).map_err(|error| Error::NotARecording {
        path: path.to_owned(),
        reason: format!(
            "damaged: {error}; the trace's settings must be put back by hand, then remove the file"
        ),
    })?;
    Ok(Some(state))
}
