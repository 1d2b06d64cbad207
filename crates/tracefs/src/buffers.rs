//! The buffers of one trace, an instance's or the global one: switches recording on and off, and
//! takes out the contents page by page. Must not know which events it records, nor who created it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Result};
use crate::mount::{read, write};
use crate::snapshot::{CpuSnapshot, CpuStats, Snapshot};
use crate::who;

/// A trace's directory.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    /// Contains `tracing_on`, `trace` and `per_cpu`.
    pub(crate) directory: PathBuf,
    /// The root of tracefs, where the kernel keeps the names and processes of threads.
    pub(crate) root: PathBuf,
    /// The page size in bytes.
    pub(crate) page_bytes: usize,
}

impl Buffers {
    pub(crate) fn new(directory: PathBuf, root: &Path) -> Self {
        // Since Linux 6.8, a sub-buffer can have several pages. On older kernels it is one page.
        let kilobytes = read(&directory.join("buffer_subbuf_size_kb")).ok();
        let kilobytes = kilobytes.and_then(|text| text.trim().parse::<usize>().ok());
        let page_bytes = kilobytes.map_or_else(rustix::param::page_size, |kilobytes| kilobytes * 1024);
        Self { directory, root: root.to_owned(), page_bytes }
    }

    pub(crate) fn switch(&self) -> PathBuf {
        self.directory.join("tracing_on")
    }

    /// Whether recording is on.
    pub(crate) fn is_on(&self) -> bool {
        read(&self.switch()).is_ok_and(|on| on.trim() == "1")
    }

    pub(crate) fn set_on(&self, on: bool) -> Result<()> {
        write(&self.switch(), if on { "1" } else { "0" })
    }

    /// Discards all events and counters.
    pub(crate) fn clear(&self) -> Result<()> {
        let path = self.directory.join("trace");
        let cleared = File::options().write(true).truncate(true).open(&path);
        cleared.map(drop).map_err(|cause| Error::file("clear", &path, cause))
    }

    /// Sets the clock to CLOCK_BOOTTIME or, if the kernel lacks it, to the next best one. Returns
    /// its name.
    pub(crate) fn set_clock(&self) -> Result<String> {
        let path = self.directory.join("trace_clock");
        let known = read(&path)?;
        let has = |name: &str| known.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == name);
        let Some(clock) = ["boot", "mono", "global"].into_iter().find(|name| has(name)) else {
            return current(&known)
                .ok_or_else(|| Error::file("read", &path, std::io::Error::other("no clock in it")));
        };
        write(&path, clock)?;
        Ok(clock.to_owned())
    }

    /// The CPUs with a buffer.
    pub(crate) fn cpus(&self) -> Result<Vec<u32>> {
        let path = self.directory.join("per_cpu");
        let entries = std::fs::read_dir(&path).map_err(|cause| Error::file("read", &path, cause))?;
        let mut cpus: Vec<u32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    pub(crate) fn stats(&self, cpu: u32) -> Result<CpuStats> {
        Ok(parse_stats(&read(&self.per_cpu(cpu, "stats"))?))
    }

    /// How many events were taken out of one CPU's buffer; `None` on kernels that do not count
    /// them.
    pub(crate) fn events_read(&self, cpu: u32) -> Option<u64> {
        count(&read(&self.per_cpu(cpu, "stats")).ok()?, "read events")
    }

    /// Takes everything out of the buffers. At `started_ns`, recording had certainly started, with
    /// empty buffers. At `stopped_ns`, it had certainly stopped.
    pub(crate) fn snapshot(&self, started_ns: Option<u64>, stopped_ns: Option<u64>) -> Result<Snapshot> {
        let cpus = self.take(None)?;
        let (processes, comms) = self.who_is_who(&cpus);
        Ok(Snapshot { stopped_ns, started_ns, cpus, processes, comms })
    }

    /// Takes out the contents of each CPU's buffer, up to `until_ns` on the trace's clock. While
    /// recording is on, that limit is required: taking pages out causes new events, so without it
    /// this would never finish.
    pub(crate) fn take(&self, until_ns: Option<u64>) -> Result<Vec<CpuSnapshot>> {
        let cpus = self.cpus()?.into_iter();
        let one = |cpu| Ok(CpuSnapshot { cpu, stats: self.stats(cpu)?, pages: self.pages(cpu, until_ns)? });
        cpus.map(one).collect()
    }

    /// Takes the pages out of one CPU's buffer.
    fn pages(&self, cpu: u32, until_ns: Option<u64>) -> Result<Vec<u8>> {
        let path = self.per_cpu(cpu, "trace_pipe_raw");
        let failed = |cause| Error::file("read", &path, cause);
        let mut raw = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .map_err(failed)?;
        let mut pages = Vec::new();
        let mut page = vec![0; self.page_bytes];
        loop {
            // The kernel returns one sub-buffer per call, whole if it fits.
            match raw.read(&mut page) {
                Ok(0) => return Ok(pages),
                Ok(length) if length == page.len() => {
                    pages.extend_from_slice(&page);
                    // A page starts with the time of its first event.
                    let begins_ns = page.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                    if until_ns.is_some_and(|until_ns| begins_ns >= until_ns) {
                        return Ok(pages);
                    }
                }
                Ok(length) => {
                    let reason = format!("{length} bytes instead of a page of {}", page.len());
                    return Err(failed(std::io::Error::other(reason)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(pages),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    fn per_cpu(&self, cpu: u32, file: &str) -> PathBuf {
        self.directory.join(format!("per_cpu/cpu{cpu}/{file}"))
    }

    /// The processes of the threads that occur in the pages, and the names of those processes that
    /// still exist.
    pub(crate) fn who_is_who(&self, cpus: &[CpuSnapshot]) -> (BTreeMap<u32, u32>, BTreeMap<u32, String>) {
        let processes = who::mentioned(&self.root, cpus);
        let names = who::names(&processes);
        (processes, names)
    }
}

/// The current clock, which is the one in brackets.
pub(crate) fn current(clocks: &str) -> Option<String> {
    let chosen = clocks.split_whitespace().find(|clock| clock.starts_with('['))?;
    Some(chosen.trim_matches(['[', ']']).to_owned())
}

fn count(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|count| count.trim().parse().ok())
}

fn parse_stats(text: &str) -> CpuStats {
    let count = |name| count(text, name).unwrap_or(0);
    CpuStats {
        entries: count("entries"),
        overrun: count("overrun"),
        commit_overrun: count("commit overrun"),
        dropped: count("dropped events"),
    }
}

/// The current CLOCK_BOOTTIME.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    // Both parts are non-negative for this clock.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_the_kernel_writes_them() {
        let text = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 400\noldest event ts: 11750.5\n\
                    now ts: 11751.0\ndropped events: 2\nread events: 0\n";
        assert_eq!(parse_stats(text), CpuStats { entries: 12, overrun: 3, commit_overrun: 1, dropped: 2 });
        assert_eq!(parse_stats(""), CpuStats::default());
        assert_eq!((count(text, "read events"), count("", "read events")), (Some(0), None));
    }

    #[test]
    fn the_page_that_contains_the_start_of_the_wanted_time_is_kept() {
        let page = |time: u64| [time.to_ne_bytes(), [7; 8]].concat();
        let pages = [page(10), page(20), page(30)].concat();
        let kept = |from_ns| {
            let cpu = CpuSnapshot { pages: pages.clone(), ..CpuSnapshot::default() };
            let mut snapshot = Snapshot { cpus: vec![cpu], ..Snapshot::default() };
            snapshot.keep_from(from_ns, 16);
            assert_eq!(snapshot.started_ns, Some(from_ns));
            snapshot.cpus.remove(0).pages.len() / 16
        };
        assert_eq!([0, 10, 15, 20, 29, 30, 99].map(kept), [3, 3, 3, 2, 2, 1, 1]);
    }

    #[test]
    fn the_current_clock_is_the_one_in_brackets() {
        assert_eq!(current("local global [boot] tai\n").as_deref(), Some("boot"));
        assert_eq!(current("local"), None);
    }
}
