//! A recording on disk: snapshots of a trace, and the formats that describe their bytes. It is a
//! folder that can be read on any machine. Each part of it is written completely or not at all.
//! Must not know what the bytes mean.
//!
//! ```text
//! recording.json                   Header
//! formats/header_page, header_event, printk_formats
//! formats/SYSTEM/EVENT             the event's format
//! snapshots/0001/snapshot.json     SnapshotHeader
//! snapshots/0001/cpuN.pages        sub-buffers, oldest first
//! snapshots/0001/...               files that the caller stores with the snapshot
//! ```

#[cfg(feature = "live")]
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use roundtrip_files::Budget;
use roundtrip_stored::Form;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::formats::Formats;
use crate::merge::{CpuPages, Period, read_within};
use crate::snapshot::CpuStats;
use crate::trace::Trace;

/// The value of the file's "schema" field.
const SCHEMA: &str = "roundtrip.recording";

/// The version of the layout. A new optional field does not change it. Anything that an older
/// reader would misread increments it.
const VERSION: u32 = 1;

/// The longest `recording.json` or `snapshot.json`, in bytes.
const MOST_JSON_BYTES: u64 = 64 << 20;

/// The largest total size of all formats and names of addresses, in bytes.
const MOST_FORMAT_BYTES: u64 = 256 << 20;

/// The longest file stored with a snapshot, in bytes.
const MOST_BESIDE_BYTES: u64 = 1 << 30;

/// Up to this many events are accepted, however small they are. They take 80 bytes each in memory.
const FEW_EVENTS: usize = 3 << 20;

/// More events must have at least this average size, in bytes. In real recordings it is 50.
const LEAST_EVENT_BYTES: usize = 26;

/// The largest total size of a snapshot's pages, in bytes: half of this machine's memory, or 1 GiB.
/// Their events need as much again.
fn most_page_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let memory = total.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024);
    (memory / 2).max(1 << 30)
}

/// Properties of a whole recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// "roundtrip.recording".
    pub schema: String,
    /// 1.
    pub version: u32,
    /// The trace's clock, "boot" for CLOCK_BOOTTIME.
    pub clock: String,
    /// The recording machine's architecture, as in `uname -m`.
    pub machine: String,
    /// The recording machine's kernel, as in `uname -r`.
    pub kernel_release: String,
    /// The size of one sub-buffer, in bytes.
    pub page_bytes: usize,
    /// The byte order of the pages.
    pub byte_order: ByteOrder,
    /// The recorded events, `system/event`.
    pub recorded: Vec<String>,
    /// Requested events that the kernel lacks.
    pub missing: Vec<String>,
}

/// Byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// Little-endian.
    Little,
    /// Big-endian.
    Big,
}

/// Properties of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    /// See [`Snapshot::stopped_ns`](crate::Snapshot::stopped_ns).
    pub stopped_ns: Option<u64>,
    /// See [`Snapshot::started_ns`](crate::Snapshot::started_ns).
    pub started_ns: Option<u64>,
    /// The kernel's counters by CPU.
    pub cpus: BTreeMap<u32, CpuStats>,
    /// The process of each known thread.
    pub processes: BTreeMap<u32, u32>,
    /// Names of processes.
    pub comms: BTreeMap<u32, String>,
}

/// A recording in its folder.
#[derive(Debug, Clone)]
pub struct Recording {
    directory: PathBuf,
    header: Header,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::NotARecording`] if it is not a recording or
    /// from a later version.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("recording.json");
        let not_ours = |reason: &str| Error::NotARecording { path: path.clone(), reason: reason.to_owned() };
        let bytes = read_bytes(&path)?;
        let form: Form = read_text(&path, &bytes)?;
        if form.schema != SCHEMA {
            return Err(not_ours("not a recording: its schema is not roundtrip.recording"));
        }
        if form.version != VERSION {
            let reason = format!("unknown version {}: made by a newer version of this program", form.version);
            return Err(not_ours(&reason));
        }
        let header = read_text(&path, &bytes)?;
        Ok(Self { directory: directory.to_owned(), header })
    }

    /// Its folder.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its properties.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// A file stored with a snapshot; `None` if there is no file of that name.
    ///
    /// # Errors
    /// [`Error::File`] if it exists but cannot be read.
    pub fn beside(&self, number: u32, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.place(number).join(name);
        match roundtrip_files::read(&path, MOST_BESIDE_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file("read", &path, cause)),
        }
    }

    /// The numbers of its snapshots, ascending.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be read.
    pub fn snapshots(&self) -> Result<Vec<u32>> {
        let path = self.directory.join("snapshots");
        let entries = std::fs::read_dir(&path).map_err(|cause| Error::file("read", &path, cause))?;
        let mut numbers: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The properties of one snapshot.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::NotARecording`] if they cannot be read.
    pub fn snapshot(&self, number: u32) -> Result<SnapshotHeader> {
        read_json(&self.place(number).join("snapshot.json"))
    }

    /// The pages of one CPU in a snapshot, oldest first, each of [`Header::page_bytes`].
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read.
    pub fn pages(&self, number: u32, cpu: u32) -> Result<Vec<u8>> {
        self.pages_within(number, cpu, &mut most_page_bytes())
    }

    fn pages_within(&self, number: u32, cpu: u32, budget: &mut u64) -> Result<Vec<u8>> {
        let path = self.place(number).join(pages_name(cpu));
        roundtrip_files::read_within(&path, budget).map_err(|cause| Error::file("read", &path, cause))
    }

    /// A stored format: "header_page", "header_event", "printk_formats", or an event as
    /// `system/event`. `None` if it was not recorded.
    ///
    /// # Errors
    /// [`Error::File`] if it exists but cannot be read.
    pub fn format(&self, name: &str) -> Result<Option<String>> {
        self.format_within(name, &mut { MOST_FORMAT_BYTES })
    }

    fn format_within(&self, name: &str, budget: &mut u64) -> Result<Option<String>> {
        let path = self.directory.join("formats").join(name);
        match roundtrip_files::read_within(&path, budget) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file("read", &path, cause)),
        }
    }

    /// The events whose formats are stored, `system/event`: those recorded, and `ftrace/print`.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be read.
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

    /// Reads one snapshot: all its events in chronological order.
    ///
    /// # Errors
    /// As [`Recording::snapshot`] and [`Recording::pages`]; [`Error::Format`] if a stored format is
    /// not valid, [`Error::BigEndian`] for pages of a big-endian machine.
    pub fn read(&self, number: u32) -> Result<Trace> {
        let snapshot = self.snapshot(number)?;
        let mut trace = self.events(number, &snapshot)?;
        trace.recorded.clone_from(&self.header.recorded);
        if snapshot.started_ns.is_none() {
            let whole = snapshot.cpus.iter().filter(|(_, stats)| stats.overrun == 0);
            trace.begin_whole(&whole.map(|(&cpu, _)| cpu).collect());
        }
        trace.processes = snapshot.processes;
        trace.comms = snapshot.comms;
        trace.machine.clone_from(&self.header.machine);
        Ok(trace)
    }

    /// A snapshot's events.
    fn events(&self, number: u32, snapshot: &SnapshotHeader) -> Result<Trace> {
        let (mut left, cpus) = (most_page_bytes(), snapshot.cpus.iter());
        let pages = cpus.map(|(&cpu, &stats)| Ok((cpu, stats, self.pages_within(number, cpu, &mut left)?)));
        let pages: Vec<_> = pages.collect::<Result<_>>()?;
        let bytes: usize = pages.iter().map(|(_, _, bytes)| bytes.len()).sum();
        let cpus = pages.iter().map(|(cpu, stats, bytes)| CpuPages {
            cpu: *cpu,
            bytes,
            dropped: stats.dropped.saturating_add(stats.commit_overrun),
        });
        let cpus: Vec<_> = cpus.collect();
        if let (ByteOrder::Big, Some(first)) = (self.header.byte_order, cpus.first()) {
            return Err(Error::BigEndian { cpu: first.cpu });
        }
        let period = Period { started_ns: snapshot.started_ns, stopped_ns: snapshot.stopped_ns };
        let formats = self.parse_formats()?;
        read_within(&formats, &cpus, period, &budget_of(bytes)).map_err(|error| match error {
            Error::TooMany(_) => Error::NotARecording { path: self.place(number), reason: error.to_string() },
            error => error,
        })
    }

    /// The formats of its events, to read pages that are not part of it.
    ///
    /// # Errors
    /// [`Error::Format`] if one is not valid, [`Error::NotARecording`] if one is missing.
    pub fn parse_formats(&self) -> Result<Formats> {
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

/// The budget of a snapshot with so many bytes of pages. Its memory follows from the number of
/// events.
fn budget_of(page_bytes: usize) -> Budget {
    Budget::new(u64::MAX, (page_bytes / LEAST_EVENT_BYTES).max(FEW_EVENTS) as u64, u64::MAX)
}

fn pages_name(cpu: u32) -> String {
    format!("cpu{cpu}.pages")
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    read_text(path, &read_bytes(path)?)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    roundtrip_files::read(path, MOST_JSON_BYTES).map_err(|cause| Error::file("read", path, cause))
}

fn read_text<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T> {
    roundtrip_stored::read_text(bytes).map_err(|error| {
        let what = if error.is_cut_off() { "cut off" } else { "damaged" };
        Error::NotARecording { path: path.to_owned(), reason: format!("{what}: {error}") }
    })
}
