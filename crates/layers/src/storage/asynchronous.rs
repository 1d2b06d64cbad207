//! Which thread performed an operation of io_uring or Linux AIO. Must not know what an operation
//! did.

use roundtrip_tracefs::{Body, Event};

use super::Write;
use crate::kernel_names;
use crate::timeline::{Doing, Timeline, WakingBy};

/// The thread that performed a write, if that is not the one that submitted it. And from when on:
/// from the submitter's first wakeup of it. If an interrupt woke it, from when the submitter waits,
/// or else from the start.
pub(super) fn worker(timeline: &Timeline<'_>, write: Write) -> Option<(u32, u64)> {
    let Write { start_ns, end_ns, tid } = write;
    let worker = completing(timeline, write)?;
    let wakings = timeline.wakings_of(worker, start_ns, end_ns);
    let woken = wakings.iter().find(|waking| waking.by == WakingBy::Thread(tid));
    let waits = || {
        let is_kernels = kernel_names::is_worker(timeline.name_at(worker, end_ns));
        let mut doing = timeline.doing(tid, start_ns, end_ns).into_iter().filter(|_| is_kernels);
        doing.find(|during| matches!(during.what, Doing::Blocked { .. })).map(|during| during.begin_ns)
    };
    Some((worker, woken.map(|waking| waking.time_ns).or_else(waits).unwrap_or(start_ns)))
}

/// The thread that completed a write, if that is not the one that submitted it. The latter may be
/// woken only after the write has ended.
fn completing(timeline: &Timeline<'_>, write: Write) -> Option<u32> {
    let events = &timeline.events;
    let first = events.partition_point(|event| event.time_ns < write.end_ns);
    let same = events[first..].iter().take_while(|event| event.time_ns == write.end_ns);
    let mut others = same.filter(|event| event.tid != write.tid && event.tid != 0);
    others.find(|event| completes(timeline, event, write)).map(|event| event.tid)
}

fn completes(timeline: &Timeline<'_>, event: &Event, write: Write) -> bool {
    let by_worker = || kernel_names::is_worker(timeline.name_at(event.tid, event.time_ns));
    match event.body {
        Body::Other { event: kind, .. } => match timeline.trace.names.text(kind) {
            "io_uring/io_uring_complete" => true,
            // Or an interrupt on top of any thread.
            "iomap/iomap_dio_complete" => by_worker(),
            _ => false,
        },
        Body::WorkEnd { .. } => by_worker(),
        Body::Waking { thread, .. } => thread.tid == write.tid && by_worker(),
        _ => false,
    }
}
