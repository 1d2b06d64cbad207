//! Writes a recording on the machine that records. Each part is written completely or not at all.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use roundtrip_files::Existing;
use serde::Serialize;

use super::{ByteOrder, Header, Recording, SCHEMA, SnapshotHeader, VERSION, pages_name};
use crate::buffers::Buffers;
use crate::error::{Error, Result};
use crate::mount::read_bytes;
use crate::snapshot::Snapshot;

impl Header {
    pub(crate) fn of_this_machine(
        buffers: &Buffers,
        clock: &str,
        recorded: Vec<String>,
        missing: Vec<String>,
    ) -> Self {
        let uname = rustix::system::uname();
        Self {
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

impl Recording {
    /// Creates a recording without snapshots, with the formats of the running kernel's events. The
    /// folder must not exist; its parents are created.
    ///
    /// # Errors
    /// [`Error::File`] if something cannot be read or written. Then nothing remains.
    pub fn create(directory: &Path, header: Header, tracefs: &Path) -> Result<Self> {
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
            // The trace always contains what programs write to trace_marker.
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
        Ok(Self { directory: directory.to_owned(), header })
    }

    /// Stores a snapshot, and returns its number.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written, for example because there is no space. Then nothing
    /// of the snapshot remains.
    pub fn add(&self, snapshot: &Snapshot) -> Result<u32> {
        let number = self.snapshots()?.last().map_or(1, |last| last + 1);
        self.put(number, snapshot)?;
        Ok(number)
    }

    /// Stores a snapshot under an unused number.
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

    /// Stores a file of the caller with a snapshot. It is removed with the snapshot.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written, for example because there is no space. Then nothing
    /// of the file remains.
    pub fn put_beside(&self, number: u32, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.place(number).join(name);
        roundtrip_files::write(&path, bytes, Existing::Keep)
            .map_err(|cause| Error::file("write", &path, cause))
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be removed.
    pub fn remove(&self, number: u32) -> Result<()> {
        let place = self.place(number);
        std::fs::remove_dir_all(&place).map_err(|cause| Error::file("remove", &place, cause))
    }
}

/// Fills a folder under a temporary name, and renames it when it is complete.
fn whole(directory: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let partial = directory.with_file_name(format!(".{name}.{}", std::process::id()));
    let filled = make_directory(&partial).and_then(|()| fill(&partial)).and_then(|()| {
        roundtrip_files::put(&partial, directory).map_err(|cause| Error::file("create", directory, cause))
    });
    if filled.is_err() {
        // Report the first error, not this one.
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

/// Writes a file in a new folder. If not all of it can be written, the caller discards the folder.
fn create(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|cause| Error::file("write", path, cause))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let failed = |cause| Error::file("write", path, cause);
    let text = roundtrip_stored::to_text(value).map_err(|error| failed(std::io::Error::other(error)))?;
    create(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::snapshot::{CpuSnapshot, CpuStats};

    /// A temporary folder of a test, with the formats of a fictional kernel.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
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
            Self(path)
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
    fn a_failed_write_leaves_nothing_behind() {
        let folder = Folder::new("nothing");
        std::fs::remove_file(folder.0.join("tracefs/events/header_event")).unwrap();
        assert!(folder.create().unwrap_err().to_string().contains("header_event"));
        assert_eq!(std::fs::read_dir(folder.0.join("runs")).unwrap().count(), 0);
        std::fs::write(folder.0.join("tracefs/events/header_event"), "").unwrap();
        let made = folder.create().unwrap();
        // A snapshot with the same number exists.
        made.put(1, &snapshot()).unwrap();
        made.put(1, &snapshot()).unwrap_err();
        assert_eq!(std::fs::read_dir(made.directory().join("snapshots")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_a_recording_is_refused_with_its_path() {
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
