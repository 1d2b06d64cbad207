//! A folder that the example `capture` wrote: the kernel's formats, each CPU's pages, and the
//! kernel's text for them.

use std::fs;
use std::path::{Path, PathBuf};

use roundtrip_tracefs::{CpuPages, Formats, Period, Trace};

/// The recording of one kernel.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) formats: Formats,
    pub(crate) pages: Vec<(u32, Vec<u8>)>,
    pub(crate) text: String,
}

impl Fixture {
    /// The fixtures of all kernels.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tracefs");
        let mut folders: Vec<PathBuf> = fs::read_dir(folder)
            .expect("the fixtures")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        folders.sort();
        folders.iter().map(|folder| Self::load(folder)).collect()
    }

    pub(crate) fn load(folder: &Path) -> Self {
        let read = |file: &str| {
            fs::read_to_string(folder.join(file))
                .unwrap_or_else(|error| panic!("{}/{file}: {error}", folder.display()))
        };
        let mut pages = Vec::new();
        for cpu in 0.. {
            let Ok(bytes) = fs::read(folder.join(format!("cpu{cpu}.pages"))) else { break };
            pages.push((cpu, bytes));
        }
        let mut events = Vec::new();
        for system in fs::read_dir(folder.join("events")).expect("events") {
            let system = system.expect("an entry");
            let Ok(inside) = fs::read_dir(system.path()) else { continue };
            for event in inside {
                let event = event.expect("an entry");
                let names = (
                    system.file_name().into_string().expect("a name"),
                    event.file_name().into_string().expect("a name"),
                );
                let text = read(&format!("events/{}/{}/format", names.0, names.1));
                events.push((names.0, names.1, text));
            }
        }
        let formats = Formats::parse(
            &read("events/header_page"),
            &read("events/header_event"),
            events.iter().map(|(system, event, text)| (system.as_str(), event.as_str(), text.as_str())),
            &read("printk_formats"),
        );
        let formats = formats.expect("the kernel's formats").with_kallsyms(&read("kallsyms"));
        let name = folder.file_name().expect("a folder").to_string_lossy().into_owned();
        Self { name, formats, pages, text: read("trace") }
    }

    /// Each CPU's pages repeatedly, without marks of lost events, up to `bytes` bytes. Each
    /// repetition is later than the one before.
    pub(crate) fn repeated(&self, bytes: usize) -> Vec<(u32, Vec<u8>)> {
        let size = self.formats.page().size;
        let events = self.trace().events;
        let (first, last) = events.first().zip(events.last()).expect("a recording with events");
        let span_ns = last.time_ns - first.time_ns + 1_000;
        let repeat = |pages: &[u8]| {
            let mut all = Vec::with_capacity(bytes);
            for turn in 0.. {
                for page in pages.chunks(size) {
                    if all.len() + size > bytes || pages.is_empty() {
                        return all;
                    }
                    let word =
                        |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
                    all.extend((word(0) + turn * span_ns).to_le_bytes());
                    all.extend((word(8) & 0xf_ffff).to_le_bytes());
                    all.extend(&page[16..]);
                }
            }
            all
        };
        self.pages.iter().map(|(cpu, pages)| (*cpu, repeat(pages))).collect()
    }

    pub(crate) fn trace(&self) -> Trace {
        let pages: Vec<CpuPages<'_>> =
            self.pages.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
        roundtrip_tracefs::read(&self.formats, &pages, Period::default()).expect("whole pages")
    }
}
