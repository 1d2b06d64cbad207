//! A recording on disk: snapshots of a trace, and the formats without which their bytes say nothing. A folder that is read on
//! any machine; each part of it is written whole or not at all. Must not know what the bytes say.
//!
//! ```text
//! recording.json                   Header
//! formats/header_page, header_event, printk_formats
//! formats/SYSTEM/EVENT             the event's format
//! snapshots/0001/snapshot.json     SnapshotHeader
//! snapshots/0001/cpuN.pages        sub-buffers, oldest first
//! snapshots/0001/...               what the recorder's user stores beside them
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use files::Existing;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::buffers::{Buffers, CpuStats, Snapshot};
use crate::error::{Error, Result};
use crate::formats::Formats;
use crate::merge::{CpuPages, Period, read};
use crate::mount::read_bytes;
use crate::trace::Trace;

/// What the file says it is.
const SCHEMA: &str = "roundtrip.recording";

/// The version of the layout. A new optional field leaves it alone; anything that an older Roundtrip would misread raises
/// it.
const VERSION: u32 = 1;

/// The longest description of anything that is read, in bytes: `recording.json`, `snapshot.json`.
const MOST_JSON_BYTES: u64 = 64 << 20;

/// What all formats, with the names of addresses, may take together, in bytes.
const MOST_FORMAT_BYTES: u64 = 256 << 20;

/// The longest file that a recorder's user stores beside a snapshot, in bytes.
const MOST_BESIDE_BYTES: u64 = 1 << 30;

/// What all pages of a snapshot may take together, in bytes: half of this machine's memory, or a GiB. Events take as much again.
#[allow(clippy::useless_conversion)] // A 32-bit machine counts in 32 bits.
fn most_page_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let memory = u64::from(machine.totalram).saturating_mul(u64::from(machine.mem_unit));
    (memory / 2).max(1 << 30)
}

/// What holds for all of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// "roundtrip.recording".
    pub schema: String,
    /// 1.
    pub version: u32,
    /// The trace's clock, "boot" for CLOCK_BOOTTIME.
    pub clock: String,
    /// The recording machine's architecture, as `uname -m` says it.
    pub machine: String,
    /// And its kernel, as `uname -r` says it.
    pub kernel_release: String,
    /// The size of one sub-buffer, in bytes.
    pub page_bytes: usize,
    /// The order of the bytes in the pages.
    pub byte_order: ByteOrder,
    /// The events that were recorded, `system/event`.
    pub recorded: Vec<String>,
    /// Events that were wanted, and that the kernel does not have.
    pub missing: Vec<String>,
}

/// The order of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

/// What holds for one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    /// As of [`Snapshot::stopped_ns`].
    pub stopped_ns: Option<u64>,
    /// As of [`Snapshot::started_ns`].
    pub started_ns: Option<u64>,
    /// What the kernel counted, by CPU.
    pub cpus: BTreeMap<u32, CpuStats>,
    /// The process of each known thread.
    pub processes: BTreeMap<u32, u32>,
    /// Names of processes.
    pub comms: BTreeMap<u32, String>,
}

impl Header {
    pub(crate) fn of_this_machine(
        buffers: &Buffers,
        clock: &str,
        recorded: Vec<String>,
        missing: Vec<String>,
    ) -> Header {
        let uname = rustix::system::uname();
        Header {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            clock: clock.to_owned(),
            machine: uname.machine().to_string_lossy().into_owned(),
            kernel_release: uname.release().to_string_lossy().into_owned(),
            page_bytes: buffers.page_bytes,
            byte_order: if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little },
            recorded,
            missing,
        }
    }
}

/// A recording's folder.
#[derive(Debug, Clone)]
pub struct Recording {
    directory: PathBuf,
    header: Header,
}

impl Recording {
    /// Makes a recording without snapshots, with the formats of the running kernel's events. The folder must not exist;
    /// those above it are made.
    ///
    /// # Errors
    /// [`Error::File`] when something cannot be read or written; then nothing is left.
    pub fn create(directory: &Path, header: Header, tracefs: &Path) -> Result<Recording> {
        if let Some(above) = directory.parent() {
            std::fs::create_dir_all(above).map_err(|cause| Error::file("create", above, cause))?;
        }
        whole(directory, |partial| {
            let formats = partial.join("formats");
            make_directory(&formats)?;
            let events = tracefs.join("events");
            for name in ["header_page", "header_event"] {
                copy(&events.join(name), &formats.join(name))?;
            }
            // Only some events need it, and only root may read it.
            let _ = copy(&tracefs.join("printk_formats"), &formats.join("printk_formats"));
            // What programs write to trace_marker is there without being asked for.
            for event in header.recorded.iter().map(String::as_str).chain(["ftrace/print"]) {
                let format = events.join(event).join("format");
                if let Some((system, name)) = event.split_once('/').filter(|_| format.exists()) {
                    let system = formats.join(system);
                    std::fs::create_dir_all(&system)
                        .map_err(|cause| Error::file("create", &system, cause))?;
                    copy(&format, &system.join(name))?;
                }
            }
            make_directory(&partial.join("snapshots"))?;
            write_json(&partial.join("recording.json"), &header)
        })?;
        Ok(Recording { directory: directory.to_owned(), header })
    }

    /// Opens a recording.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NotARecording`] when it is none of ours or of a later version.
    pub fn open(directory: &Path) -> Result<Recording> {
        let path = directory.join("recording.json");
        let not_ours = |reason: &str| Error::NotARecording { path: path.clone(), reason: reason.to_owned() };
        let any: stored::Value = read_json(&path)?;
        if any["schema"] != SCHEMA {
            return Err(not_ours("not a recording: its schema is not roundtrip.recording"));
        }
        if any["version"] != VERSION {
            let reason = format!("unknown version {}: made by a newer Roundtrip", any["version"]);
            return Err(not_ours(&reason));
        }
        let header = stored::read(&any).map_err(|error| not_ours(&format!("damaged: {error}")))?;
        Ok(Recording { directory: directory.to_owned(), header })
    }

    /// Its folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What holds for all of it.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Stores a snapshot, and tells its number.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written, also for want of space; then nothing of it is left.
    pub fn add(&self, snapshot: &Snapshot) -> Result<u32> {
        let number = self.snapshots()?.last().map_or(1, |last| last + 1);
        self.put(number, snapshot)?;
        Ok(number)
    }

    /// Stores a snapshot under a number of the caller's choice that is not taken.
    ///
    /// # Errors
    /// As [`Recording::add`].
    pub fn put(&self, number: u32, snapshot: &Snapshot) -> Result<()> {
        whole(&self.place(number), |partial| {
            for cpu in &snapshot.cpus {
                let path = partial.join(pages_name(cpu.cpu));
                create(&path, &cpu.pages)?;
            }
            let header = SnapshotHeader {
                stopped_ns: snapshot.stopped_ns,
                started_ns: snapshot.started_ns,
                cpus: snapshot.cpus.iter().map(|cpu| (cpu.cpu, cpu.stats)).collect(),
                processes: snapshot.processes.clone(),
                comms: snapshot.comms.clone(),
            };
            write_json(&partial.join("snapshot.json"), &header)
        })
    }

    /// Stores a file of the caller's own beside a snapshot, with which it is removed.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written, also for want of space; then nothing of it is left.
    pub fn put_beside(&self, number: u32, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.place(number).join(name);
        files::write(&path, bytes, Existing::Keep).map_err(|cause| Error::file("write", &path, cause))
    }

    /// What [`Recording::put_beside`] has stored; `None` when it has not.
    ///
    /// # Errors
    /// [`Error::File`] when it is there and cannot be read.
    pub fn beside(&self, number: u32, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.place(number).join(name);
        match files::read(&path, MOST_BESIDE_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file("read", &path, cause)),
        }
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be removed.
    pub fn remove(&self, number: u32) -> Result<()> {
        let place = self.place(number);
        std::fs::remove_dir_all(&place).map_err(|cause| Error::file("remove", &place, cause))
    }

    /// The numbers of its snapshots, ascending.
    ///
    /// # Errors
    /// [`Error::File`] when the folder cannot be read.
    pub fn snapshots(&self) -> Result<Vec<u32>> {
        let path = self.directory.join("snapshots");
        let entries = std::fs::read_dir(&path).map_err(|cause| Error::file("read", &path, cause))?;
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What holds for one snapshot.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::NotARecording`] when it cannot be read.
    pub fn snapshot(&self, number: u32) -> Result<SnapshotHeader> {
        read_json(&self.place(number).join("snapshot.json"))
    }

    /// The pages of one CPU in a snapshot, oldest first, each of [`Header::page_bytes`].
    ///
    /// # Errors
    /// [`Error::File`] when they cannot be read.
    pub fn pages(&self, number: u32, cpu: u32) -> Result<Vec<u8>> {
        self.pages_within(number, cpu, &mut most_page_bytes())
    }

    fn pages_within(&self, number: u32, cpu: u32, budget: &mut u64) -> Result<Vec<u8>> {
        let path = self.place(number).join(pages_name(cpu));
        files::read_within(&path, budget).map_err(|cause| Error::file("read", &path, cause))
    }

    /// A stored format: "header_page", "header_event", "printk_formats", or an event as `system/event`. `None` when it
    /// was not recorded.
    ///
    /// # Errors
    /// [`Error::File`] when it is there and cannot be read.
    pub fn format(&self, name: &str) -> Result<Option<String>> {
        self.format_within(name, &mut { MOST_FORMAT_BYTES })
    }

    fn format_within(&self, name: &str, budget: &mut u64) -> Result<Option<String>> {
        let path = self.directory.join("formats").join(name);
        match files::read_within(&path, budget) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file("read", &path, cause)),
        }
    }

    /// The events whose formats are stored, `system/event`: those recorded, and `ftrace/print`.
    ///
    /// # Errors
    /// [`Error::File`] when the folder cannot be read.
    pub fn formats(&self) -> Result<Vec<String>> {
        let path = self.directory.join("formats");
        let list = |path: &Path| {
            let entries = std::fs::read_dir(path).map_err(|cause| Error::file("read", path, cause))?;
            Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>())
        };
        let mut events = Vec::new();
        for system in list(&path)? {
            let folder = path.join(&system);
            if folder.is_dir() {
                events.extend(list(&folder)?.into_iter().map(|event| format!("{system}/{event}")));
            }
        }
        events.sort();
        Ok(events)
    }

    /// Reads one snapshot: all its events, in the order of time.
    ///
    /// # Errors
    /// As [`Recording::snapshot`] and [`Recording::pages`]; [`Error::Format`] when a stored format cannot be understood,
    /// [`Error::BigEndian`] for pages of such a machine.
    pub fn read(&self, number: u32) -> Result<Trace> {
        let snapshot = self.snapshot(number)?;
        let cpus = snapshot.cpus.iter();
        let mut budget = most_page_bytes();
        let pages = cpus.map(|(&cpu, &stats)| Ok((cpu, stats, self.pages_within(number, cpu, &mut budget)?)));
        let pages: Vec<_> = pages.collect::<Result<_>>()?;
        let pages: Vec<_> = pages
            .iter()
            .map(|(cpu, stats, bytes)| CpuPages {
                cpu: *cpu,
                bytes,
                dropped: stats.dropped.saturating_add(stats.commit_overrun),
            })
            .collect();
        if let (ByteOrder::Big, Some(first)) = (self.header.byte_order, pages.first()) {
            return Err(Error::BigEndian { cpu: first.cpu });
        }
        let period = Period { started_ns: snapshot.started_ns, stopped_ns: snapshot.stopped_ns };
        let mut trace = read(&self.parse_formats()?, &pages, period)?;
        trace.recorded.clone_from(&self.header.recorded);
        trace.processes = snapshot.processes;
        trace.machine.clone_from(&self.header.machine);
        Ok(trace)
    }

    fn parse_formats(&self) -> Result<Formats> {
        let mut budget = MOST_FORMAT_BYTES;
        let mut needed = |name: &str| {
            let missing = || Error::NotARecording {
                path: self.directory.join("formats").join(name),
                reason: "the file is missing".to_owned(),
            };
            self.format_within(name, &mut budget)?.ok_or_else(missing)
        };
        let names = self.formats()?;
        let texts = names.iter().map(|name| needed(name)).collect::<Result<Vec<_>>>()?;
        let events = names.iter().zip(&texts).filter_map(|(name, text)| {
            let (system, event) = name.split_once('/')?;
            Some((system, event, text.as_str()))
        });
        let printk_formats = self.format("printk_formats")?.unwrap_or_default();
        let formats =
            Formats::parse(&needed("header_page")?, &needed("header_event")?, events, &printk_formats)?;
        Ok(match self.format("kallsyms")? {
            Some(symbols) => formats.with_kallsyms(&symbols),
            None => formats,
        })
    }

    fn place(&self, number: u32) -> PathBuf {
        self.directory.join(format!("snapshots/{number:04}"))
    }
}

fn pages_name(cpu: u32) -> String {
    format!("cpu{cpu}.pages")
}

/// Makes a folder under another name, and gives it its own when it is whole.
fn whole(directory: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let partial = directory.with_file_name(format!(".{name}.{}", std::process::id()));
    let filled = make_directory(&partial).and_then(|()| fill(&partial)).and_then(|()| {
        files::put(&partial, directory).map_err(|cause| Error::file("create", directory, cause))
    });
    if filled.is_err() {
        // The error to tell is the first one.
        let _ = std::fs::remove_dir_all(&partial);
    }
    filled
}

fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir(path).map_err(|cause| Error::file("create", path, cause))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    create(to, &read_bytes(from)?)
}

/// Writes a file in a folder that this process has just made, and that is thrown away unless all of it could be written.
fn create(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|cause| Error::file("write", path, cause))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let failed = |cause| Error::file("write", path, cause);
    let text = stored::to_text(value).map_err(|error| failed(std::io::Error::other(error)))?;
    create(path, text.as_bytes())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = files::read(path, MOST_JSON_BYTES).map_err(|cause| Error::file("read", path, cause))?;
    stored::read_text(&bytes).map_err(|error| {
        let what = if error.is_cut_off() { "cut off" } else { "damaged" };
        Error::NotARecording { path: path.to_owned(), reason: format!("{what}: {error}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::CpuSnapshot;

    /// A folder of the test's own, with a made-up kernel's formats in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("roundtrip-recording-{}-{name}", std::process::id()));
            for event in ["sched/sched_switch", "ftrace/print"] {
                let event = path.join("tracefs/events").join(event);
                std::fs::create_dir_all(&event).unwrap();
                std::fs::write(event.join("format"), "name: x\n").unwrap();
            }
            for name in ["header_page", "header_event"] {
                std::fs::write(path.join("tracefs/events").join(name), name).unwrap();
            }
            Folder(path)
        }

        fn create(&self) -> Result<Recording> {
            let buffers = Buffers { directory: PathBuf::new(), root: PathBuf::new(), page_bytes: 4096 };
            let header = Header::of_this_machine(
                &buffers,
                "boot",
                vec!["sched/sched_switch".into()],
                vec!["power/cpu_idle".into()],
            );
            Recording::create(&self.0.join("runs/recording"), header, &self.0.join("tracefs"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn snapshot() -> Snapshot {
        Snapshot {
            stopped_ns: Some(99),
            started_ns: None,
            cpus: vec![CpuSnapshot {
                cpu: 3,
                pages: vec![7; 4096],
                stats: CpuStats { entries: 5, ..CpuStats::default() },
            }],
            processes: [(11, 10)].into(),
            comms: [(10, "a name".to_owned())].into(),
        }
    }

    #[test]
    fn a_recording_is_read_back_as_it_was_written() {
        let folder = Folder::new("whole");
        let made = folder.create().unwrap();
        assert_eq!((made.add(&snapshot()).unwrap(), made.add(&Snapshot::default()).unwrap()), (1, 2));
        let read = Recording::open(made.directory()).unwrap();
        assert_eq!(read.header(), made.header());
        assert_eq!(read.snapshots().unwrap(), [1, 2]);
        let header = read.snapshot(1).unwrap();
        assert_eq!((header.stopped_ns, header.cpus[&3].entries, header.processes[&11]), (Some(99), 5, 10));
        assert_eq!(header.comms[&10], "a name");
        assert_eq!(read.pages(1, 3).unwrap(), snapshot().cpus[0].pages);
        assert_eq!(read.format("header_page").unwrap().as_deref(), Some("header_page"));
        assert_eq!(read.format("sched/sched_switch").unwrap().as_deref(), Some("name: x\n"));
        assert_eq!(read.format("sched/sched_waking").unwrap(), None);
        assert_eq!(read.formats().unwrap(), ["ftrace/print", "sched/sched_switch"]);
        read.remove(1).unwrap();
        assert_eq!((read.snapshots().unwrap(), read.add(&snapshot()).unwrap()), (vec![2], 3));
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = Folder::new("nothing");
        std::fs::remove_file(folder.0.join("tracefs/events/header_event")).unwrap();
        assert!(folder.create().unwrap_err().to_string().contains("header_event"));
        assert_eq!(std::fs::read_dir(folder.0.join("runs")).unwrap().count(), 0);
        std::fs::write(folder.0.join("tracefs/events/header_event"), "").unwrap();
        let made = folder.create().unwrap();
        // A snapshot of the same number is in the way.
        made.put(1, &snapshot()).unwrap();
        made.put(1, &snapshot()).unwrap_err();
        assert_eq!(std::fs::read_dir(made.directory().join("snapshots")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_path() {
        let folder = Folder::new("refused");
        for (text, hint) in [
            ("{\"schema\":\"roundtrip.recording\",\"ver", "cut off"),
            ("{\"schema\":\"roundtrip.run\",\"version\":1}", "not a recording"),
            ("{\"schema\":\"roundtrip.recording\",\"version\":7}", "unknown version 7"),
            ("{\"schema\":\"roundtrip.recording\",\"version\":1}", "damaged: missing field"),
        ] {
            std::fs::write(folder.0.join("recording.json"), text).unwrap();
            let error = Recording::open(&folder.0).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("recording.json"), "{text}: {error}");
        }
        assert!(Recording::open(&folder.0.join("nowhere")).unwrap_err().to_string().contains("cannot read"));
    }
}
