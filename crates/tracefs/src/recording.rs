//! A recording on disk: snapshots of a trace, and the formats without which their bytes say
//! nothing. A folder that is read on any machine; each part of it is written whole or not at all.
//! Must not know what the bytes say.
//!
//! ```text
//! recording.json                   Header
//! formats/header_page, header_event, printk_formats
//! formats/SYSTEM/EVENT             the event's format
//! snapshots/0001/snapshot.json     SnapshotHeader
//! snapshots/0001/cpuN.pages        sub-buffers, oldest first
//! snapshots/0001/...               what the recorder's user stores beside them
//! ```

#[cfg(feature = "live")]
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::formats::Formats;
use crate::merge::{CpuPages, Period, read};
use crate::snapshot::CpuStats;
use crate::trace::Trace;

/// What the file says it is.
const SCHEMA: &str = "roundtrip.recording";

/// The version of the layout. A new optional field leaves it alone; anything that an older reader
/// would misread raises it.
const VERSION: u32 = 1;

/// The longest description of anything that is read, in bytes: `recording.json`, `snapshot.json`.
const MOST_JSON_BYTES: u64 = 64 << 20;

/// What all formats, with the names of addresses, may take together, in bytes.
const MOST_FORMAT_BYTES: u64 = 256 << 20;

/// The longest file that a recorder's user stores beside a snapshot, in bytes.
const MOST_BESIDE_BYTES: u64 = 1 << 30;

/// What all pages of a snapshot may take together, in bytes: half of this machine's memory, or a
/// GiB. Events take as much again.
fn most_page_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let memory = total.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024);
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
    /// As of [`Snapshot::stopped_ns`](crate::Snapshot::stopped_ns).
    pub stopped_ns: Option<u64>,
    /// As of [`Snapshot::started_ns`](crate::Snapshot::started_ns).
    pub started_ns: Option<u64>,
    /// What the kernel counted, by CPU.
    pub cpus: BTreeMap<u32, CpuStats>,
    /// The process of each known thread.
    pub processes: BTreeMap<u32, u32>,
    /// Names of processes.
    pub comms: BTreeMap<u32, String>,
}

/// A recording's folder.
#[derive(Debug, Clone)]
pub struct Recording {
    directory: PathBuf,
    header: Header,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, [`Error::NotARecording`] when it is none of ours or
    /// of a later version.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("recording.json");
        let not_ours = |reason: &str| Error::NotARecording { path: path.clone(), reason: reason.to_owned() };
        let any: stored::Value = read_json(&path)?;
        if any["schema"] != SCHEMA {
            return Err(not_ours("not a recording: its schema is not roundtrip.recording"));
        }
        if any["version"] != VERSION {
            let reason =
                format!("unknown version {}: made by a newer version of this program", any["version"]);
            return Err(not_ours(&reason));
        }
        let header = stored::read(&any).map_err(|error| not_ours(&format!("damaged: {error}")))?;
        Ok(Self { directory: directory.to_owned(), header })
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

    /// A file that the recorder's user has stored beside a snapshot; `None` when there is none of
    /// that name.
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

    /// A stored format: "header_page", "header_event", "printk_formats", or an event as
    /// `system/event`. `None` when it was not recorded.
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
    /// As [`Recording::snapshot`] and [`Recording::pages`]; [`Error::Format`] when a stored format
    /// cannot be understood, [`Error::BigEndian`] for pages of such a machine.
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

    /// The formats of its events, to read pages with that are not in it.
    ///
    /// # Errors
    /// [`Error::Format`] when one cannot be understood, [`Error::NotARecording`] when one is
    /// missing.
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

fn pages_name(cpu: u32) -> String {
    format!("cpu{cpu}.pages")
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = files::read(path, MOST_JSON_BYTES).map_err(|cause| Error::file("read", path, cause))?;
    stored::read_text(&bytes).map_err(|error| {
        let what = if error.is_cut_off() { "cut off" } else { "damaged" };
        Error::NotARecording { path: path.to_owned(), reason: format!("{what}: {error}") }
    })
}
