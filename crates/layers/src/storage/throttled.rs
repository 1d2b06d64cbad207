//! Pauses that the kernel imposed on a thread during a write because too many pages were dirty
//! (mm/page-writeback.c). Must not know which call they delayed.

use std::collections::HashMap;

use roundtrip_tracefs::{Body, Trace};

/// The longest time from the event until the thread sleeps, in nanoseconds.
const WITHIN_NS: u64 = 200_000;

/// The pauses of each thread.
#[derive(Debug, Default)]
pub(super) struct Throttled {
    began_ns: HashMap<u32, Vec<u64>>,
}

impl Throttled {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut throttled = Self::default();
        if !trace.has("writeback/balance_dirty_pages") {
            return throttled;
        }
        for event in trace.all() {
            if let Body::Other { event: kind, .. } = event.body
                && trace.names.text(kind) == "writeback/balance_dirty_pages"
            {
                throttled.began_ns.entry(event.tid).or_default().push(event.time_ns);
            }
        }
        throttled
    }

    /// Whether a wait of a thread that begins at `begin_ns` is such a pause.
    pub(super) fn pauses(&self, tid: u32, begin_ns: u64) -> bool {
        let began_ns = self.began_ns.get(&tid).map_or(&[][..], |began_ns| began_ns);
        let after = began_ns.partition_point(|&began_ns| began_ns <= begin_ns);
        after > 0 && begin_ns - began_ns[after - 1] <= WITHIN_NS
    }
}
