//! Matches the kernel's events into synchronous writes.

use std::collections::{HashMap, VecDeque};

use roundtrip_tracefs::{Body, Event, Loss, Numbers, OffCpu, Trace};

use super::observed::{Asked, FileId, Observed};
use super::operation::Operation;
use crate::lost::Lost;
use crate::unmatched::Unmatched;

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
    /// Whether the file systems' events replace system calls, which were not recorded.
    within_file_systems: bool,
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
            within_file_systems: false,
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
        let all = self.calls.values().chain(self.operations.values());
        all.map(|(call, _)| call.start_ns).min()
    }

    /// Adds losses of events, sorted by their begin. Call it before adding any later event.
    pub fn lost(&mut self, losses: &[Loss]) {
        self.lost.add(losses);
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
                    _ if operation.writes() => Asked::Unknown,
                    _ => Asked::Call,
                };
                #[expect(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
                let descriptor = operation.has_descriptor().then_some(first as i32);
                self.begun(tid, Observed { asked, descriptor, ..begun(operation, tid, time_ns) });
            }
            Body::SysExit { number, result } => self.returned(tid, number, result, time_ns, tell),
            Body::Switch { prev, prev_state, next } => {
                if prev_state.off() == Some(OffCpu::Uninterruptible) {
                    self.waited(prev.tid);
                }
                self.named(next.tid, || trace.names.text(next.comm));
            }
            Body::Rename { tid, comm } => self.named(tid, || trace.names.text(comm)),
            Body::Exit => {
                self.unmatched.not_ended += u64::from(self.calls.remove(&tid).is_some());
                self.workers.remove(&tid);
            }
            Body::Other { event: kind, .. } => match trace.names.text(kind) {
                "writeback/balance_dirty_pages" => self.throttled(trace, event),
                "block/block_bio_queue" if reads(trace, event) => self.waited(tid),
                "block/block_bio_queue" => {
                    self.performed(tid, Performed { queued: true, ..Performed::default() })
                }
                kind if kind.starts_with("io_uring/") => self.operation(trace, event, kind, tell),
                kind if MAKES_DURABLE.contains(&kind) => {
                    if self.within_file_systems && MAKES_DURABLE[..2].contains(&kind) {
                        let sync = begun(Operation::FileSync, tid, time_ns);
                        self.begun(tid, Observed { asked: Asked::Call, ..sync });
                    }
                    self.made_durable(trace, event);
                }
                kind if self.within_file_systems && MADE_DURABLE.contains(&kind) => {
                    self.synced(trace, event, tell);
                }
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
            self.unmatched.begun_before += u64::from(operation != Operation::Msync);
            return;
        };
        if call.asked != Asked::Unknown || waited || call.throttled {
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
        let result = trace.field(event, "ret").and_then(|value| value.number());
        match self.calls.remove(&event.tid) {
            Some((call, _)) => {
                let result = result.map_or(0, u64::cast_signed);
                self.ended(Observed { end_ns: event.time_ns, result, ..call }, tell);
            }
            None => self.unmatched.begun_before += 1,
        }
    }

    /// Handles the event that the calling thread entered the file system's fsync.
    fn made_durable(&mut self, trace: &Trace, event: &Event) {
        let number = |name| trace.field(event, name).and_then(|value| value.number());
        let dev = number("dev").and_then(|dev| u32::try_from(dev).ok());
        let durable = Performed {
            synced: true,
            queued: false,
            file: dev.zip(number("ino")).map(|(dev, inode)| FileId { dev, inode }),
            // The field's names in ext4 and in f2fs.
            directory: number("parent").or_else(|| number("pino")),
        };
        self.performed(event.tid, durable);
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

    /// A thread's name shows whether it is a worker of io_uring (`io_wq_worker`), and whose.
    fn named<'n>(&mut self, tid: u32, name: impl FnOnce() -> &'n str) {
        if !self.operations.is_empty()
            && (self.workers.len() < self.most || self.workers.contains_key(&tid))
            && let Some(of) = name().strip_prefix("iou-wrk-").and_then(|of| of.parse().ok())
        {
            self.workers.insert(tid, of);
        }
    }

    /// What was done for an operation that a thread completes.
    fn done_for(&mut self, (begun, by_worker): (&Observed, bool), completed_by: u32) -> Option<Performed> {
        if completed_by != begun.tid {
            // The worker itself. If it did more, that was for operations that others complete.
            return self.performed.remove(&completed_by).and_then(|mut did| did.pop_back());
        }
        let of_ours = |tid: &u32| by_worker && self.workers.get(tid) == Some(&begun.tid);
        let workers = self.performed.iter_mut().filter(|(tid, did)| of_ours(tid) && !did.is_empty());
        // Another worker may not be done yet.
        let (_, did) = workers.max_by_key(|(_, did)| did.front().is_some_and(|did| did.synced))?;
        did.pop_front()
    }

    /// A thread no longer tries to perform an operation itself.
    fn no_longer_tried(submitted: &mut HashMap<u32, u64>, tid: u32, request: u64) {
        if submitted.get(&tid) == Some(&request) {
            submitted.remove(&tid);
        }
    }

    fn throttled(&mut self, trace: &Trace, event: &Event) {
        // In jiffies. If it is below 1, the write does not sleep.
        let pause = trace.field(event, "pause").and_then(|value| value.number());
        if let Some((call, _)) = self.calls.get_mut(&event.tid)
            && pause.is_some_and(|pause| pause.cast_signed() > 0)
        {
            call.throttled = true;
        }
    }

    fn operation(&mut self, trace: &Trace, event: &Event, kind: &str, tell: &mut dyn FnMut(Observed)) {
        let number = |name| trace.field(event, name).and_then(|value| value.number());
        let Some(request) = number("req") else { return };
        match kind {
            // Linux 6.0 renamed the field.
            "io_uring/io_uring_submit_req" | "io_uring/io_uring_submit_sqe" => {
                // The thread has given the previous operation to a worker, or has performed it.
                self.submitted.remove(&event.tid);
                let Some(begun) = operation(number("opcode"), event) else { return };
                if self.operations.len() >= self.most {
                    self.unmatched.forgotten += 1;
                    return;
                }
                self.submitted.insert(event.tid, request);
                self.unmatched.not_ended +=
                    u64::from(self.operations.insert(request, (begun, false)).is_some());
            }
            // The kernel refuses it before it counts as submitted.
            "io_uring/io_uring_req_failed" => {
                let begun = self.operations.remove(&request).map(|(begun, _)| begun);
                let begun = begun.or_else(|| operation(number("opcode"), event));
                if let Some(begun) = begun {
                    let result = number("error").map_or(0, u64::cast_signed);
                    self.ended(Observed { end_ns: event.time_ns, result, ..begun }, tell);
                }
            }
            "io_uring/io_uring_file_get" => {
                if let Some((begun, _)) = self.operations.get_mut(&request) {
                    #[expect(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
                    let descriptor = number("fd").map(|fd| fd as i32);
                    begun.descriptor = descriptor;
                }
            }
            "io_uring/io_uring_queue_async_work" => {
                if let Some((begun, by_worker)) = self.operations.get_mut(&request) {
                    *by_worker = true;
                    Self::no_longer_tried(&mut self.submitted, begun.tid, request);
                }
            }
            "io_uring/io_uring_complete" => {
                if let Some((mut begun, by_worker)) = self.operations.remove(&request) {
                    Self::no_longer_tried(&mut self.submitted, begun.tid, request);
                    if let Some(did) = self.done_for((&begun, by_worker), event.tid) {
                        did.note(&mut begun);
                    }
                    if self.operations.is_empty() {
                        // The rest was done for nobody in a ring.
                        self.performed.clear();
                    }
                    let result = number("res").map_or(0, u64::cast_signed);
                    self.ended(Observed { end_ns: event.time_ns, result, ..begun }, tell);
                }
            }
            _ => {}
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

/// An io_uring operation that an event begins; `None` if it neither writes nor makes durable.
fn operation(opcode: Option<u64>, event: &Event) -> Option<Observed> {
    let operation = opcode.and_then(Operation::of_opcode)?;
    let asked = if operation.writes() { Asked::Unknown } else { Asked::Call };
    Some(Observed { asked, ..begun(operation, event.tid, event.time_ns) })
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
mod tests;
