//! Linux AIO: the operations that threads submit with io_submit(2). The system call's own events do
//! not show them, so they are found by other events: those of direct writes (iomap, Linux 6.6), and
//! those of the work items that perform fsyncs. Knows nothing of system calls.

use std::collections::HashMap;

use roundtrip_tracefs::{Event, Trace};

use super::{Asked, FileId, Observed, Operation, Performed, begun, file};

/// `IOCB_WRITE` and `IOCB_DSYNC` (`include/linux/fs.h`), which every durable direct write has.
const DURABLE_WRITE: u64 = 1 << 18 | 1 << 1;

/// The operations in flight.
#[derive(Debug, Default)]
pub(super) struct Aio {
    /// Durable direct writes by their file. Each has the first byte of the file that it writes, and
    /// the first one after it.
    writes: HashMap<FileId, Vec<(u64, u64, Observed)>>,
    /// Fsyncs by the addresses of their work items, and whether each file is already durable.
    syncs: HashMap<u64, (Observed, bool)>,
    /// The work item of each worker that performs an fsync.
    workers: HashMap<u32, u64>,
}

impl Aio {
    /// The number of operations in flight.
    pub(super) fn len(&self) -> usize {
        self.writes.values().map(Vec::len).sum::<usize>() + self.syncs.len()
    }

    pub(super) fn in_flight(&self) -> impl Iterator<Item = &Observed> {
        let writes = self.writes.values().flatten().map(|(_, _, write)| write);
        writes.chain(self.syncs.values().map(|(sync, _)| sync))
    }

    /// Adds a direct write by a thread whose io_submit(2) began at `start_ns`.
    pub(super) fn write(&mut self, trace: &Trace, event: &Event, start_ns: u64) {
        let number = |name| trace.number(event, name);
        if !is_durable_write(trace, event) {
            return;
        }
        let Some((file, (pos, count))) = file(trace, event).zip(number("pos").zip(number("count"))) else {
            return;
        };
        let write = begun(Operation::AioWrite, event.tid, start_ns);
        let write = Observed { asked: Asked::Flag, file: Some(file), queued: true, ..write };
        self.writes.entry(file).or_default().push((pos, pos.saturating_add(count), write));
    }

    /// Returns the write of Linux AIO that a direct write has completed.
    pub(super) fn written(&mut self, trace: &Trace, event: &Event) -> Option<Observed> {
        if self.writes.is_empty() {
            return None;
        }
        let number = |name| trace.number(event, name);
        let (file, pos) = (file(trace, event)?, number("pos")?);
        let result = number("ret").map_or(0, u64::cast_signed);
        let of_file = self.writes.get_mut(&file)?;
        // The kernel has moved the position past what was written.
        let done = result.max(0).cast_unsigned();
        let at = of_file.iter().position(|(from, to, _)| pos == *to || pos == from.saturating_add(done))?;
        let (_, _, write) = of_file.remove(at);
        if of_file.is_empty() {
            self.writes.remove(&file);
        }
        Some(Observed { end_ns: event.time_ns, result, ..write })
    }

    /// Whether a thread's direct write to this file is in flight.
    pub(super) fn writes(&self, tid: u32, file: Option<FileId>) -> bool {
        let of_file = file.and_then(|file| self.writes.get(&file));
        of_file.is_some_and(|writes| writes.iter().any(|(_, _, write)| write.tid == tid))
    }

    /// Adds a work item that was queued by a thread whose io_submit(2) began at `start_ns`. It is
    /// an fsync if its worker makes a file durable.
    pub(super) fn queue(&mut self, trace: &Trace, event: &Event, start_ns: u64) {
        if let Some(work) = trace.number(event, "work") {
            let sync = Observed { asked: Asked::Call, ..begun(Operation::AioFsync, event.tid, start_ns) };
            self.syncs.insert(work, (sync, false));
        }
    }

    /// Notes that a worker starts a work item.
    pub(super) fn starts(&mut self, worker: u32, work: u64) {
        if self.syncs.contains_key(&work) {
            self.workers.insert(worker, work);
        }
    }

    /// Whether a worker performs an fsync.
    pub(super) fn is_worker(&self, tid: u32) -> bool {
        self.workers.contains_key(&tid)
    }

    /// Notes what a worker did for the fsync that it performs. Returns false if it performs none.
    pub(super) fn performed(&mut self, worker: u32, did: Performed) -> bool {
        let work = self.workers.get(&worker);
        let Some((sync, synced)) = work.and_then(|work| self.syncs.get_mut(work)) else { return false };
        did.note(sync);
        *synced |= did.synced;
        true
    }

    /// Returns the fsync that a worker has completed: it has ended its work item, or has woken the
    /// thread `woken`, which waits for completions, after it made the file durable.
    pub(super) fn done(&mut self, worker: u32, woken: Option<u32>, time_ns: u64) -> Option<Observed> {
        let work = self.workers.get(&worker)?;
        let wakes = |(sync, synced): &(Observed, bool)| *synced && woken == Some(sync.tid);
        if woken.is_some() && !self.syncs.get(work).is_some_and(wakes) {
            return None;
        }
        let work = self.workers.remove(&worker)?;
        let (sync, synced) = self.syncs.remove(&work)?;
        synced.then_some(Observed { end_ns: time_ns, ..sync })
    }
}

/// Whether a direct write is asynchronous and must be durable.
pub(super) fn is_durable_write(trace: &Trace, event: &Event) -> bool {
    let number = |name| trace.number(event, name);
    let flags = number("ki_flags").unwrap_or_default();
    number("aio") == Some(1) && flags & DURABLE_WRITE == DURABLE_WRITE
}
