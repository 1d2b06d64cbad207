//! Which worker of io_uring performed an operation. Must not know what an operation did.

use roundtrip_tracefs::{Body, Trace};

use super::Write;

const COMPLETE: &str = "io_uring/io_uring_complete";

/// The completions of operations, each with the thread that made it, in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Ring(Vec<(u64, u32)>);

impl Ring {
    pub(super) fn of(trace: &Trace) -> Self {
        if !trace.has(COMPLETE) {
            return Self::default();
        }
        let completes = trace.events.iter().filter(|event| {
            matches!(event.body, Body::Other { event: kind, .. } if trace.names.text(kind) == COMPLETE)
        });
        Self(completes.map(|event| (event.time_ns, event.tid)).collect())
    }

    /// The thread that completed a write, if that is not the one that submitted it. The latter may
    /// be woken only after the write has ended.
    pub(super) fn worker(&self, write: Write) -> Option<u32> {
        let first = self.0.partition_point(|complete| complete.0 < write.end_ns);
        let same = self.0[first..].iter().take_while(|complete| complete.0 == write.end_ns);
        same.map(|complete| complete.1).find(|&tid| tid != write.tid && tid != 0)
    }
}
