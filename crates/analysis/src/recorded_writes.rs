//! Finds the synchronous writes in another tool's recording and attributes their time to layers.
//! Only the kernel's events are known, not the machine's devices or the files' names. Must not know
//! how a recording was made, nor how anything is shown.

use roundtrip_latency::Deadline;
use roundtrip_layers::Basis;
use roundtrip_layers::reasons::Across;
use roundtrip_layers::storage::{Devices, Doubt, Layers, Write, Writes};
use roundtrip_observed::writes::{Asked, Matcher, Observed, Operation, machine_of};
use roundtrip_run::RecorderInfo;
use roundtrip_run::observe::Process;
use roundtrip_run::storage::observe::{
    Counted, Durable, ObserveWritesPlan, ObserveWritesResult, RowKey, Rows, SlowWrite, UnseenWrites,
};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Numbers, Threads, Trace};

use crate::observed_writes::{Divider, Slow, timed};
use crate::slow_calls::Wanted;

/// The writes of a recording.
#[derive(Debug)]
pub struct RecordedWrites {
    /// The writes in the form of `storage observe`'s, without devices and recorder.
    pub result: ObserveWritesResult,
    /// The layers of the slow writes, in their order.
    layers: Vec<Layers>,
    /// Whether the writes were found by the file systems' events, because system calls were not
    /// recorded.
    pub within_file_systems: bool,
    /// The architecture whose system call numbers were assumed; `None` if the recording names it,
    /// has no system calls, or names the calls instead of their numbers.
    pub machine_taken: Option<String>,
    /// Whether the numbers of its system calls mean nothing, because neither the recording nor any
    /// of these calls shows the machine: its writes are unknown.
    pub machine_unknown: bool,
    /// How many threads made system calls that may be those of 32-bit programs, or not: their
    /// writes are unknown.
    pub threads_unnumbered: u64,
    /// What delayed all writes that missed the deadline, or the slowest.
    pub causes: Across,
    /// Whether the slow writes are the slowest ones, even if they met the deadline.
    pub slowest: bool,
    /// The reasons why the layers are uncertain.
    pub doubts: Vec<Doubt>,
}

impl RecordedWrites {
    /// The slow writes, the slowest first.
    #[must_use]
    pub fn slow(&self) -> Vec<Slow<'_>> {
        let slow = self.result.slow_writes.iter().zip(&self.layers);
        slow.map(|(write, layers)| Slow { write, layers: layers.clone() }).collect()
    }
}

/// Whether a recording shows writes.
#[must_use]
pub fn shows_writes(trace: &Trace) -> bool {
    const SHOW: [&str; 4] = [
        "raw_syscalls/sys_enter",
        "syscalls/sys_enter",
        "ext4/ext4_sync_file_enter",
        "f2fs/f2fs_sync_file_enter",
    ];
    trace.recorded.iter().any(|event| SHOW.iter().any(|begin| event.starts_with(begin)))
}

/// Finds a recording's writes and attributes their time to layers. `None` if no event shows writes.
#[must_use]
pub fn recorded_writes(basis: &Basis<'_>, wanted: Wanted) -> Option<RecordedWrites> {
    let trace = basis.trace();
    if !shows_writes(trace) {
        return None;
    }
    let any = |begin: &str| trace.recorded.iter().any(|event| event.starts_with(begin));
    let system_calls = any("raw_syscalls/sys_enter") || any("syscalls/sys_enter");
    let in_file_systems = any("ext4/ext4_sync_file_enter") || any("f2fs/f2fs_sync_file_enter");
    let machine = machine_of(trace);
    // Without the machine, the numbers of system calls mean nothing.
    let within_file_systems = !system_calls || machine.is_none() && in_file_systems;
    let mut matcher = Matcher::new(machine.as_deref().unwrap_or_default(), roundtrip_observed::MAX_IN_FLIGHT);
    let numbers = Numbers::of(trace, machine.as_deref().unwrap_or_default());
    let threads_unnumbered = numbers.unknown();
    matcher = matcher.numbered(numbers);
    if within_file_systems {
        matcher = matcher.within_file_systems();
    }
    matcher.lost(&trace.losses);
    let mut observed = Vec::new();
    for event in trace.all() {
        matcher.add(trace, &event, &mut |write| observed.push(write));
    }
    let writes = observed.iter().map(|one| of(one.start_ns, one.end_ns, one.tid));
    let indexed = Writes::within(basis, Devices::of_recording(trace), writes);
    let (rows, mut divider, mut slow) = count(basis.threads(), wanted, &indexed, &observed);
    let (mut rows, places) = rows.finish();
    moved(&places, &mut divider, &mut slow);
    rows.iter_mut().zip(divider.finish()).for_each(|(row, divided)| row.divided = divided);
    let over_limit = keep_slowest(&mut slow, wanted);
    let layers = slow.iter().map(|write| Layers {
        usual_ns: divider.usual_ns(write.row),
        ..indexed.layers(of(write.start_ns, write.end_ns, write.tid))
    });
    let layers: Vec<Layers> = layers.collect();
    let causes = if wanted.slowest { summed(&slow, &layers) } else { divider.causes().clone() };
    Some(RecordedWrites {
        layers,
        result: ObserveWritesResult {
            plan: plan(wanted),
            elapsed_ns: trace.length_ns(),
            devices: Vec::new(),
            rows,
            slow_writes: slow,
            over_limit,
            causes: None,
            unseen: unseen(&matcher),
            recorder: RecorderInfo { events: Vec::new(), missing: Vec::new(), kilobytes: 0 },
            not_recorded: None,
        },
        within_file_systems,
        machine_unknown: machine.is_none() && !within_file_systems,
        threads_unnumbered,
        machine_taken: machine.filter(|_| any("raw_syscalls/sys_enter") && trace.machine.is_empty()),
        causes,
        slowest: wanted.slowest,
        doubts: indexed.doubts(),
    })
}

fn unseen(matcher: &Matcher) -> UnseenWrites {
    let unmatched = matcher.unmatched();
    UnseenWrites {
        lost_events: 0,
        begun_before: unmatched.begun_before,
        not_ended: unmatched.not_ended,
        forgotten: unmatched.forgotten,
    }
}

/// Sorts the slow writes, the slowest first, and keeps the wanted number. Returns how many writes
/// over the deadline were dropped.
fn keep_slowest(slow: &mut Vec<SlowWrite>, wanted: Wanted) -> u64 {
    slow.small_sort_by_key(|write| (std::cmp::Reverse(write.latency_ns()), write.start_ns));
    let most = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let over_limit = if wanted.slowest { 0 } else { slow.len().saturating_sub(most) as u64 };
    slow.truncate(most);
    over_limit
}

/// What delayed these writes.
fn summed(slow: &[SlowWrite], layers: &[Layers]) -> Across {
    let mut across = Across::default();
    for (write, layers) in slow.iter().zip(layers) {
        across.add_timed(timed(of(write.start_ns, write.end_ns, write.tid), None), &layers.summed());
    }
    across
}

/// The plan of `storage observe` that would have found these writes.
fn plan(wanted: Wanted) -> ObserveWritesPlan {
    ObserveWritesPlan {
        duration_ns: None,
        deadline: Deadline { ns: wanted.deadline_ns },
        limit: u32::try_from(wanted.limit).unwrap_or(u32::MAX),
        kilobytes: 0,
        ..ObserveWritesPlan::default()
    }
}

/// Counts the writes and attributes their time to layers. The slow writes contain the places of
/// [`Rows::add`].
fn count(
    threads: &Threads<'_>,
    wanted: Wanted,
    indexed: &Writes<'_>,
    observed: &[Observed],
) -> (Rows, Divider, Vec<SlowWrite>) {
    let (mut rows, mut divider, mut slow) = (Rows::default(), Divider::new(wanted.deadline_ns), Vec::new());
    for write in observed {
        let Observed { tid, start_ns, end_ns, .. } = *write;
        let layers = indexed.layers(of(start_ns, end_ns, tid));
        let Some(durable) = durable(write, &layers) else { continue };
        let pid = threads.process(tid);
        let key = RowKey {
            process: Process { pid, name: threads.process_name_at(pid, start_ns).to_owned() },
            tid,
            call: write.operation.name(),
            durable,
            file: file(write),
        };
        let counted = Counted {
            latency_ns: write.latency_ns(),
            result: write.result,
            writes: write.operation.writes(),
            throttled: write.throttled,
        };
        let deadline = Deadline { ns: wanted.deadline_ns };
        let name = || threads.name_at(tid, start_ns).to_owned();
        let row = rows.add(key, name, counted, deadline);
        divider.divided(row, of(start_ns, end_ns, tid), layers);
        if wanted.slowest || write.latency_ns() > wanted.deadline_ns {
            slow.push(SlowWrite { row, tid, start_ns, end_ns, snapshot: None });
        }
        if rows.is_full() {
            moved(&rows.shrink(), &mut divider, &mut slow);
        }
    }
    (rows, divider, slow)
}

/// The rows have new places, by their places before.
fn moved(places: &[usize], divider: &mut Divider, slow: &mut [SlowWrite]) {
    divider.moved(places);
    slow.iter_mut().for_each(|write| write.row = places[write.row]);
}

fn of(start_ns: u64, end_ns: u64, tid: u32) -> Write {
    Write { start_ns, end_ns, tid }
}

/// Why a write waited for a device; `None` if it did not. A plain write that slept may have been a
/// write to a pipe, so it counts only if it had requests or was throttled.
fn durable(write: &Observed, layers: &Layers) -> Option<Durable> {
    match write.asked {
        Asked::Call => Some(Durable::Call),
        Asked::Flag => Some(Durable::Flag),
        Asked::Unknown if write.operation == Operation::UringWrite => {
            write.queued.then_some(Durable::Unknown)
        }
        Asked::Unknown => (write.throttled || !layers.requests.is_empty()).then_some(Durable::No),
    }
}

/// The file, if events identify it; else the descriptor; else empty.
fn file(write: &Observed) -> String {
    match (write.file, write.descriptor) {
        (Some(id), _) => id.to_string(),
        (None, Some(descriptor)) => format!("descriptor {descriptor}"),
        (None, None) => String::new(),
    }
}
