//! Matches the kernel's events into synchronous writes.

mod aio;
mod ring;

use std::collections::{HashMap, VecDeque};

use roundtrip_tracefs::{Body, Event, EventContext, Loss, Numbers, OffCpu, Trace};

use super::observed::{Asked, FileId, Observed};
use super::operation::Operation;
use crate::lost::Lost;
use crate::unmatched::Unmatched;
use aio::Aio;

/// `RWF_DSYNC | RWF_SYNC` (`include/uapi/linux/fs.h`).
const RWF_DURABLE: u32 = 0x2 | 0x4;
/// `MS_SYNC` (`include/uapi/asm-generic/mman-common.h`).
const MS_SYNC: u32 = 4;

/// The events that file systems emit when any call starts to make a file durable.
pub(crate) const MAKES_DURABLE: [&str; 4] =
    ["ext4/ext4_sync_file_enter", "f2fs/f2fs_sync_file_enter", "xfs/xfs_file_fsync", "btrfs/btrfs_sync_file"];

/// The most operations that are remembered of a thread that nobody completes.
const MOST_PERFORMED: usize = 64;

/// The events that end the first two of these. XFS and btrfs have none.
const MADE_DURABLE: [&str; 2] = ["ext4/ext4_sync_file_exit", "f2fs/f2fs_sync_file_exit"];

/// Matches events. Its memory grows with the number of calls in flight, up to a limit.
#[derive(Debug)]
pub struct Matcher {
    numbers: Numbers,
    most: usize,
    /// By thread: the call in flight, and whether it had to wait for a device: the thread slept
    /// uninterruptibly, or it queued a read. A read may have ended before the thread slept.
    calls: HashMap<u32, (Observed, bool)>,
    /// io_uring operations in flight, by the address of the kernel's request, and whether a worker
    /// performs them.
    operations: HashMap<u64, (Observed, bool)>,
    /// By thread: the io_uring operation that it submitted last, which it tries to perform at once.
    submitted: HashMap<u32, u64>,
    /// By thread: what it did outside a system call, operation by operation. A worker of io_uring
    /// then completes the operation that wanted it, or lets the submitter do so.
    performed: HashMap<u32, VecDeque<Performed>>,
    /// io_uring's workers, and the thread that each one works for.
    workers: HashMap<u32, u32>,
    aio: Aio,
    /// Whether the file systems' events replace system calls, which were not recorded.
    within_file_systems: bool,
    /// Whether they do so for the system calls that are in no list.
    for_other_calls: bool,
    lost: Lost,
    unmatched: Unmatched,
}

impl Matcher {
    /// A matcher for recordings of a machine, named as by `uname -m`. It tracks at most `most`
    /// calls and `most` io_uring operations at a time.
    #[must_use]
    pub fn new(machine: &str, most: usize) -> Self {
        Self {
            numbers: Numbers::of_machine(machine),
            most,
            calls: HashMap::new(),
            operations: HashMap::new(),
            submitted: HashMap::new(),
            performed: HashMap::new(),
            workers: HashMap::new(),
            aio: Aio::default(),
            within_file_systems: false,
            for_other_calls: false,
            lost: Lost::default(),
            unmatched: Unmatched::default(),
        }
    }

    /// For recordings without system calls. A write then lasts from the first to the second of the
    /// two events that ext4 and f2fs emit when they make a file durable.
    #[must_use]
    pub fn within_file_systems(self) -> Self {
        Self { within_file_systems: true, ..self }
    }

    /// Also passes on what a file system makes durable for other system calls, and for kernel
    /// threads.
    #[must_use]
    pub fn with_other_calls(self) -> Self {
        Self { for_other_calls: true, ..self }
    }

    /// For recordings whose threads number their system calls by different tables.
    #[must_use]
    pub fn numbered(self, numbers: Numbers) -> Self {
        Self { numbers, ..self }
    }

    /// Counts of what could not be matched so far.
    #[must_use]
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// When the oldest call in flight began, in nanoseconds of the trace's clock; `None` if none
    /// is.
    #[must_use]
    pub fn oldest_ns(&self) -> Option<u64> {
        let all = self.calls.values().chain(self.operations.values()).map(|(call, _)| call);
        all.chain(self.aio.in_flight()).map(|call| call.start_ns).min()
    }

    /// Adds losses of events, sorted by their begin. Call it before adding any later event.
    pub fn lost(&mut self, losses: &[Loss]) {
        self.lost.add(losses);
        if !losses.is_empty() {
            // Their ends may be lost, and no later event would show it.
            self.unmatched.not_ended += std::mem::take(&mut self.aio).len() as u64;
        }
    }

    /// Takes the next event of a trace, in time order. Calls `tell` with the write that the event
    /// completes, if any.
    pub fn add(&mut self, trace: &Trace, event: &Event, tell: &mut dyn FnMut(Observed)) {
        let Event { time_ns, tid, .. } = *event;
        match event.body {
            Body::SysEnter { number, first, third, sixth } => {
                let machine = self.numbers.machine(tid);
                let Some(operation) = Operation::of_system_call(machine, number) else { return };
                let asked = match operation {
                    Operation::Msync if third & MS_SYNC == 0 => return,
                    Operation::Pwritev2 if sixth & RWF_DURABLE != 0 => Asked::Flag,
                    _ if operation.writes() || operation.is_of_aio() => Asked::Unknown,
                    _ => Asked::Call,
                };
                let descriptor = operation.descriptor(first, third);
                self.begun(tid, Observed { asked, descriptor, ..begun(operation, tid, time_ns) });
            }
            Body::SysExit { number, result } => self.returned(tid, number, result, time_ns, tell),
            Body::Switch { prev, prev_state, next } => {
                if prev_state.off() == Some(OffCpu::Uninterruptible) {
                    self.waited(prev.tid);
                }
                self.named(next.tid, || trace.names.text(next.comm));
            }
            Body::WorkStart { work, .. } => self.aio.starts(tid, work),
            Body::WorkEnd { .. } => self.synced_for_aio(event, None, tell),
            Body::Waking { thread, context: EventContext::Thread | EventContext::Unknown, .. } => {
                self.synced_for_aio(event, Some(thread.tid), tell);
            }
            Body::Rename { tid, comm } => self.named(tid, || trace.names.text(comm)),
            Body::Exit => {
                let call = self.calls.remove(&tid).filter(|(call, _)| !call.operation.waits_for_aio());
                self.unmatched.not_ended += u64::from(call.is_some());
                self.workers.remove(&tid);
            }
            Body::Other { event: kind, .. } => match trace.names.text(kind) {
                "writeback/balance_dirty_pages" => self.throttled(trace, event),
                "block/block_bio_queue" if reads(trace, event) => self.waited(tid),
                "block/block_bio_queue" => {
                    self.performed(tid, Performed { queued: true, ..Performed::default() })
                }
                kind if kind.starts_with("io_uring/") => self.operation(trace, event, kind, tell),
                "iomap/iomap_dio_rw_begin" => self.begins_direct(trace, event),
                "iomap/iomap_dio_complete" => {
                    if let Some(write) = self.aio.written(trace, event) {
                        self.ended(write, tell);
                    }
                }
                "workqueue/workqueue_queue_work" => {
                    if let Some(start_ns) = self.submits(tid) {
                        self.aio.queue(trace, event, start_ns);
                    }
                }
                kind if MAKES_DURABLE.contains(&kind) => self.made_durable(trace, event, kind),
                kind if MADE_DURABLE.contains(&kind) => self.synced(trace, event, tell),
                _ => {}
            },
            _ => {}
        }
    }

    fn begun(&mut self, tid: u32, call: Observed) {
        if self.calls.len() >= self.most {
            self.unmatched.forgotten += 1;
            return;
        }
        // The event of the previous call's return was lost.
        self.unmatched.not_ended += u64::from(self.calls.insert(tid, (call, false)).is_some());
    }

    fn returned(&mut self, tid: u32, number: i64, result: i64, end_ns: u64, tell: &mut dyn FnMut(Observed)) {
        let machine = self.numbers.machine(tid);
        let Some(operation) = Operation::of_system_call(machine, number) else { return };
        let under_way = self.calls.remove(&tid);
        let Some((call, waited)) = under_way.filter(|(call, _)| call.operation == operation) else {
            // An msync without MS_SYNC was never added, so its return is no surprise.
            let is_lost = operation != Operation::Msync && !operation.waits_for_aio();
            self.unmatched.begun_before += u64::from(is_lost);
            return;
        };
        // What io_submit returns is no number of bytes.
        let result = if operation.is_of_aio() { result.min(0) } else { result };
        let is_write = operation.writes() && (waited || call.throttled);
        if call.asked != Asked::Unknown || is_write {
            self.ended(Observed { end_ns, result, ..call }, tell);
        }
    }

    /// Passes on a call, unless events were lost since its start: the end may be another call's.
    fn ended(&mut self, call: Observed, tell: &mut dyn FnMut(Observed)) {
        if self.lost.within(call.start_ns, call.end_ns) {
            self.unmatched.not_ended += 1;
        } else {
            tell(call);
        }
    }

    fn waited(&mut self, tid: u32) {
        if let Some((_, waited)) = self.calls.get_mut(&tid) {
            *waited = true;
        }
    }

    /// Handles a file system's event that it made a file durable.
    fn synced(&mut self, trace: &Trace, event: &Event, tell: &mut dyn FnMut(Observed)) {
        let result = trace.number(event, "ret");
        match self.calls.get(&event.tid) {
            Some(&(call, _)) if call.operation == Operation::FileSync => {
                self.calls.remove(&event.tid);
                let result = result.map_or(0, u64::cast_signed);
                self.ended(Observed { end_ns: event.time_ns, result, ..call }, tell);
            }
            None if self.within_file_systems => self.unmatched.begun_before += 1,
            _ => {}
        }
    }

    /// Handles the event that the calling thread entered the file system's fsync.
    fn made_durable(&mut self, trace: &Trace, event: &Event, kind: &str) {
        let tid = event.tid;
        let number = |name| trace.number(event, name);
        let durable = Performed {
            synced: true,
            queued: false,
            file: file(trace, event),
            // The field's names in ext4 and in f2fs.
            directory: number("parent").or_else(|| number("pino")),
        };
        if self.aio.performed(tid, durable) || self.aio.writes(tid, durable.file) {
            return;
        }
        // The call may be a close on overlayfs, or a system call of a 32-bit program.
        let is_of_other =
            self.for_other_calls && !self.calls.contains_key(&tid) && self.operations.is_empty();
        if MAKES_DURABLE[..2].contains(&kind) && (self.within_file_systems || is_of_other) {
            let sync = begun(Operation::FileSync, tid, event.time_ns);
            self.begun(tid, Observed { asked: Asked::Call, ..sync });
        }
        self.performed(tid, durable);
    }

    /// A thread begins a direct write.
    fn begins_direct(&mut self, trace: &Trace, event: &Event) {
        if let Some(start_ns) = self.submits(event.tid) {
            self.aio.write(trace, event, start_ns);
        } else if self.submitted.contains_key(&event.tid) && aio::is_durable_write(trace, event) {
            let file = file(trace, event);
            self.performed(event.tid, Performed { synced: true, file, ..Performed::default() });
        }
    }

    /// Since when a thread submits operations of Linux AIO, in nanoseconds; `None` if it does not,
    /// or if too many are in flight.
    fn submits(&mut self, tid: u32) -> Option<u64> {
        let (call, _) = self.calls.get(&tid).filter(|(call, _)| call.operation == Operation::IoSubmit)?;
        if self.aio.len() < self.most {
            return Some(call.start_ns);
        }
        self.unmatched.forgotten += 1;
        None
    }

    /// Handles the end of a worker's work item, or that it wakes the thread `woken`.
    fn synced_for_aio(&mut self, event: &Event, woken: Option<u32>, tell: &mut dyn FnMut(Observed)) {
        let waits = |tid| self.calls.get(&tid).is_some_and(|(call, _)| call.operation.is_of_aio());
        // First, because most wakings are not those of such workers.
        if self.aio.is_worker(event.tid)
            && woken.is_none_or(waits)
            && let Some(sync) = self.aio.done(event.tid, woken, event.time_ns)
        {
            self.ended(sync, tell);
        }
    }

    /// Notes what a thread did in the call or the operation that wanted it.
    fn performed(&mut self, tid: u32, did: Performed) {
        if let Some((call, _)) = self.calls.get_mut(&tid) {
            did.note(call);
        } else if let Some(operation) =
            self.submitted.get(&tid).and_then(|request| self.operations.get_mut(request))
        {
            did.note(&mut operation.0);
        } else if !self.operations.is_empty()
            && (self.performed.len() < self.most || self.performed.contains_key(&tid))
        {
            let performed = self.performed.entry(tid).or_default();
            let is_full = performed.len() >= MOST_PERFORMED;
            match performed.back_mut() {
                // Each operation makes its file durable once, between its requests.
                Some(last) if !(last.synced && did.synced) => last.add(did),
                _ if is_full => {}
                _ => performed.push_back(did),
            }
        }
    }

    fn throttled(&mut self, trace: &Trace, event: &Event) {
        // In jiffies. If it is below 1, the write does not sleep.
        let pause = trace.number(event, "pause");
        if let Some((call, _)) = self.calls.get_mut(&event.tid)
            && pause.is_some_and(|pause| pause.cast_signed() > 0)
        {
            call.throttled = true;
        }
    }
}

/// What a thread did for a call.
#[derive(Clone, Copy, Debug, Default)]
struct Performed {
    /// Whether it made a file durable.
    synced: bool,
    /// Whether it queued a write to a device.
    queued: bool,
    file: Option<FileId>,
    directory: Option<u64>,
}

impl Performed {
    /// Only the first file counts: the same call may sync the file's directory next.
    fn add(&mut self, more: Self) {
        if self.file.is_none() {
            (self.file, self.directory) = (more.file, more.directory);
        }
        (self.synced, self.queued) = (self.synced || more.synced, self.queued || more.queued);
    }

    fn note(self, call: &mut Observed) {
        if call.asked == Asked::Unknown && self.synced {
            call.asked = Asked::Flag;
        }
        call.queued |= self.queued;
        if call.file.is_none() {
            (call.file, call.directory) = (self.file, self.directory);
        }
    }
}

/// The file that an event of a file system is about.
fn file(trace: &Trace, event: &Event) -> Option<FileId> {
    let number = |name| trace.number(event, name);
    let dev = number("dev").and_then(|dev| u32::try_from(dev).ok());
    dev.zip(number("ino")).map(|(dev, inode)| FileId { dev, inode })
}

/// Whether a request that a thread queues is a read (`blk_fill_rwbs` in `kernel/trace/blktrace.c`).
fn reads(trace: &Trace, event: &Event) -> bool {
    trace.field(event, "rwbs").and_then(|kind| Some(kind.text()?.contains('R'))).unwrap_or(false)
}

fn begun(operation: Operation, tid: u32, start_ns: u64) -> Observed {
    Observed {
        operation,
        asked: Asked::Unknown,
        tid,
        start_ns,
        end_ns: start_ns,
        descriptor: None,
        result: 0,
        file: None,
        directory: None,
        throttled: false,
        queued: false,
    }
}

#[cfg(test)]
mod aio_tests;
#[cfg(test)]
mod tests;
