//! What a trace held at one moment, as data. Must not know how it is taken out, nor where it is
//! stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the kernel counted on one CPU since the trace was cleared last (`per_cpu/cpuN/stats`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStats {
    /// Events in the buffer.
    pub entries: u64,
    /// Events that were overwritten by newer ones: in a flight recorder no loss, but age.
    pub overrun: u64,
    /// Events that did not fit because an interrupt came while one was being written.
    pub commit_overrun: u64,
    /// Events that were not kept because the buffer was full and does not overwrite.
    pub dropped: u64,
}

/// What one CPU's buffer held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSnapshot {
    /// Which.
    pub cpu: u32,
    /// Just before the pages were taken out.
    pub stats: CpuStats,
    /// Whole sub-buffers, oldest first.
    pub pages: Vec<u8>,
}

/// What a trace held at one moment, and who was who.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// When recording had certainly stopped, in nanoseconds of CLOCK_BOOTTIME: no event follows.
    /// `None` when it had not.
    pub stopped_ns: Option<u64>,
    /// An instant, in nanoseconds of the same clock, from which on everything is kept that the
    /// kernel had not overwritten itself: when recording began, or from when on pages were kept
    /// where older ones were left out on purpose.
    pub started_ns: Option<u64>,
    /// By CPU.
    pub cpus: Vec<CpuSnapshot>,
    /// The process of each known thread.
    pub processes: BTreeMap<u32, u32>,
    /// Names of processes when the snapshot was taken. Those of threads are in the events.
    pub comms: BTreeMap<u32, String>,
}

impl Snapshot {
    /// Leaves out pages that hold nothing from `from_ns` on, in nanoseconds of the trace's clock. A
    /// page begins with the time of its first event, in the running machine's byte order
    /// (Documentation/trace/ring-buffer-design.rst).
    pub fn keep_from(&mut self, from_ns: u64, page_bytes: usize) {
        for cpu in &mut self.cpus {
            let begins = |page: &[u8]| page.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            let old = cpu.pages.chunks(page_bytes.max(1)).take_while(|page| begins(page) <= from_ns).count();
            // The last of them may reach beyond.
            cpu.pages.drain(..old.saturating_sub(1) * page_bytes);
        }
        self.started_ns = self.started_ns.max(Some(from_ns));
    }
}
