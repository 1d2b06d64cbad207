//! The contents of a trace at one instant, as data. Must not know how they are read, nor where they
//! are stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kernel's counters of one CPU since the trace was last cleared (`per_cpu/cpuN/stats`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStats {
    /// Events in the buffer.
    pub entries: u64,
    /// Events that were overwritten by newer ones. In a flight recorder that is normal, not a loss.
    pub overrun: u64,
    /// Events that were dropped because an interrupt came while another was being written.
    pub commit_overrun: u64,
    /// Events that were dropped because the buffer was full and does not overwrite.
    pub dropped: u64,
}

/// The contents of one CPU's buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSnapshot {
    /// The CPU.
    pub cpu: u32,
    /// Read just before the pages.
    pub stats: CpuStats,
    /// Whole sub-buffers, oldest first.
    pub pages: Vec<u8>,
}

/// The time of a page's first event: a page starts with it, in the running machine's byte order
/// (Documentation/trace/ring-buffer-design.rst).
fn begins_ns(page: &[u8]) -> Option<u64> {
    page.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

impl CpuSnapshot {
    /// The time of the first event on the trace's clock, for a snapshot of this machine; `None`
    /// without events.
    #[must_use]
    pub fn first_ns(&self) -> Option<u64> {
        begins_ns(&self.pages)
    }
}

/// The contents of a trace at one instant, with the processes and names of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// An instant at which recording had certainly stopped, in nanoseconds of CLOCK_BOOTTIME: no
    /// event is later. `None` if it had not stopped.
    pub stopped_ns: Option<u64>,
    /// From this instant on, everything is present that the kernel had not overwritten, in
    /// nanoseconds of the same clock. It is when recording started or, if older pages were left out
    /// on purpose, the first instant that was kept.
    pub started_ns: Option<u64>,
    /// By CPU.
    pub cpus: Vec<CpuSnapshot>,
    /// The process of each thread that occurs in the pages, if it is known.
    pub processes: BTreeMap<u32, u32>,
    /// Names of processes when the snapshot was taken. Those of threads are in the events.
    pub comms: BTreeMap<u32, String>,
}

impl Snapshot {
    /// Drops pages that have no events from `from_ns` on, in nanoseconds of the trace's clock.
    pub fn keep_from(&mut self, from_ns: u64, page_bytes: usize) {
        for cpu in &mut self.cpus {
            let is_old = |page: &&[u8]| begins_ns(page).unwrap_or(0) <= from_ns;
            let old = cpu.pages.chunks(page_bytes.max(1)).take_while(is_old).count();
            // The last of these pages may contain later events.
            cpu.pages.drain(..old.saturating_sub(1) * page_bytes);
        }
        self.started_ns = self.started_ns.max(Some(from_ns));
    }
}
