//! Tests how operations of Linux AIO are matched, with events in the kernel's order.

use roundtrip_tracefs::{EventContext, Formats, Name, Others, ThreadRef};

use super::*;

/// System call numbers on x86-64.
const IO_SUBMIT: i64 = 209;
const IO_GETEVENTS: i64 = 208;

/// `ki_flags` of a write, and of a durable one.
const WRITE: u32 = 1 << 18;
const DURABLE: u32 = WRITE | 2;

const BEGIN: (u8, &str) = (1, "iomap/iomap_dio_rw_begin");
const COMPLETE: (u8, &str) = (2, "iomap/iomap_dio_complete");
const SYNC: (u8, &str) = (3, "ext4/ext4_sync_file_enter");
const QUEUE: (u8, &str) = (4, "workqueue/workqueue_queue_work");

/// Feeds a matcher with events, one nanosecond apart, all of inode 12 of device 9.
struct Kernel {
    trace: Trace,
    matcher: Matcher,
    now_ns: u64,
    observed: Vec<Observed>,
}

impl Kernel {
    fn new() -> Self {
        let field = |kind: &str, name: &str, at: u8| {
            format!("field:{kind} {name}; offset:{at}; size:4; signed:{};\n", u8::from(kind == "int"))
        };
        let format = |id: u8, fields: &[(&str, &str, u8)]| {
            let common = format!("ID: {id}\nfield:unsigned short common_type; offset:0; size:2; signed:0;\n");
            common + &fields.iter().map(|&(kind, name, at)| field(kind, name, at)).collect::<String>()
        };
        let (dev, ino, pos) = (("u32", "dev", 4), ("u32", "ino", 8), ("u32", "pos", 12));
        let (flags, aio, ret) = (("u32", "ki_flags", 16), ("u32", "aio", 20), ("int", "ret", 24));
        let begin = format(1, &[dev, ino, pos, flags, aio, ("u32", "count", 24)]);
        let complete = format(2, &[dev, ino, pos, flags, aio, ret]);
        let (sync, queue) = (format(3, &[dev, ino]), format(4, &[("u32", "work", 12)]));
        let formats = Formats::of_events([
            ("iomap", "iomap_dio_rw_begin", &*begin),
            ("iomap", "iomap_dio_complete", &complete),
            ("ext4", "ext4_sync_file_enter", &sync),
            ("workqueue", "workqueue_queue_work", &queue),
        ]);
        let trace = Trace { others: Others::new(formats.unwrap()), ..Trace::default() };
        Self { trace, matcher: Matcher::new("x86_64", 4), now_ns: 0, observed: Vec::new() }
    }

    fn body(&mut self, tid: u32, body: Body) {
        self.now_ns += 1;
        let event = Event { time_ns: self.now_ns, cpu: 0, tid, body };
        self.matcher.add(&self.trace, &event, &mut |observed| self.observed.push(observed));
    }

    /// An event with the position or the work, the flags, and the count or the result.
    fn event(&mut self, tid: u32, (id, name): (u8, &str), at: u32, flags: u32, last: i32) {
        let mut bytes = vec![id, 0, 0, 0];
        for number in [9, 12, at, flags, 1, last.cast_unsigned()] {
            bytes.extend(number.to_le_bytes());
        }
        let (at, length) = self.trace.others.add(&bytes).unwrap();
        let event = self.trace.names.intern(name);
        self.body(tid, Body::Other { event, at, length });
    }

    fn enter(&mut self, tid: u32, number: i64) {
        self.body(tid, Body::SysEnter { number, first: 5, third: 0, sixth: 0 });
    }

    fn exit(&mut self, tid: u32, number: i64, result: i64) {
        self.body(tid, Body::SysExit { number, result });
    }

    fn wakes(&mut self, tid: u32, woken: u32) {
        let thread = ThreadRef { tid: woken, ..ThreadRef::default() };
        self.body(tid, Body::Waking { thread, target_cpu: 0, context: EventContext::default() });
    }

    fn told(&mut self) -> Vec<(Operation, u32, u64, u64, i64)> {
        let told = std::mem::take(&mut self.observed).into_iter();
        told.map(|one| (one.operation, one.tid, one.start_ns, one.end_ns, one.result)).collect()
    }
}

#[test]
fn direct_writes_end_when_they_are_done_in_any_order() {
    let mut kernel = Kernel::new();
    kernel.enter(7, IO_SUBMIT);
    kernel.event(7, BEGIN, 0, DURABLE, 4096);
    kernel.event(7, BEGIN, 4096, DURABLE, 4096);
    kernel.event(7, BEGIN, 8192, WRITE, 4096);
    kernel.exit(7, IO_SUBMIT, 3);
    // Each completion has the position after what was written, and a failed one that before it.
    kernel.event(71, COMPLETE, 8192, DURABLE, 4096);
    kernel.event(71, COMPLETE, 12288, WRITE, 4096);
    kernel.event(71, COMPLETE, 0, DURABLE, -5);
    let write = Operation::AioWrite;
    assert_eq!(kernel.told(), [(write, 7, 1, 6, 4096), (write, 7, 1, 8, -5)]);
    // A direct write outside io_submit is that of another call.
    kernel.event(7, BEGIN, 0, DURABLE, 4096);
    kernel.event(7, COMPLETE, 4096, DURABLE, 4096);
    assert_eq!(kernel.told(), []);
    assert_eq!(kernel.matcher.unmatched(), Unmatched::default());
}

#[test]
fn a_direct_write_that_io_submit_waits_for_is_no_second_write() {
    let mut kernel = Kernel::new();
    kernel.enter(7, IO_SUBMIT);
    kernel.event(7, BEGIN, 0, DURABLE, 4096);
    kernel.event(7, SYNC, 0, 0, 0);
    kernel.event(7, COMPLETE, 4096, DURABLE, 4096);
    kernel.exit(7, IO_SUBMIT, 1);
    assert_eq!(kernel.told(), [(Operation::AioWrite, 7, 1, 4, 4096)]);
    // What goes through the page cache has no other event.
    kernel.enter(7, IO_SUBMIT);
    kernel.event(7, SYNC, 0, 0, 0);
    kernel.exit(7, IO_SUBMIT, 1);
    assert_eq!(kernel.told(), [(Operation::IoSubmit, 7, 6, 8, 0)]);
}

#[test]
fn an_fsync_ends_when_its_worker_wakes_who_waits_or_is_done() {
    let mut kernel = Kernel::new();
    let function = Name::default();
    for waits in [true, false] {
        kernel.now_ns = 0;
        kernel.enter(7, IO_SUBMIT);
        kernel.event(7, QUEUE, 99, 0, 0);
        kernel.exit(7, IO_SUBMIT, 1);
        if waits {
            kernel.enter(7, IO_GETEVENTS);
        }
        kernel.body(71, Body::WorkStart { work: 99, function });
        // The fsync is not done yet.
        kernel.wakes(71, 7);
        kernel.event(71, SYNC, 0, 0, 0);
        kernel.wakes(71, 8);
        kernel.wakes(71, 7);
        kernel.body(71, Body::WorkEnd { work: 99 });
        // In io_getevents, it is woken by the ninth event. Else, that is the end of the work.
        let end_ns = 9;
        assert_eq!(kernel.told(), [(Operation::AioFsync, 7, 1, end_ns, 0)]);
        if waits {
            kernel.exit(7, IO_GETEVENTS, 1);
        }
    }
    // Other work makes nothing durable.
    kernel.enter(7, IO_SUBMIT);
    kernel.event(7, QUEUE, 98, 0, 0);
    kernel.exit(7, IO_SUBMIT, 1);
    kernel.body(71, Body::WorkStart { work: 98, function });
    kernel.body(71, Body::WorkEnd { work: 98 });
    assert_eq!(kernel.told(), []);
    assert_eq!(kernel.matcher.oldest_ns(), None);
}

#[test]
fn operations_whose_end_may_be_lost_are_counted_and_memory_is_bounded() {
    let mut kernel = Kernel::new();
    kernel.enter(7, IO_SUBMIT);
    for at in 0..6 {
        kernel.event(7, BEGIN, at * 4096, DURABLE, 4096);
    }
    kernel.exit(7, IO_SUBMIT, 6);
    assert_eq!(kernel.matcher.unmatched().forgotten, 2);
    kernel.matcher.lost(&[Loss { cpu: 0, after_ns: 8, before_ns: 9, events: None, damaged: false }]);
    kernel.now_ns = 10;
    kernel.event(71, COMPLETE, 4096, DURABLE, 4096);
    assert_eq!((kernel.told(), kernel.matcher.unmatched().not_ended), (Vec::new(), 4));
}

#[test]
fn what_is_made_durable_for_an_unknown_call_is_passed_on_only_where_asked_for() {
    let exit = "ext4/ext4_sync_file_exit";
    for asked in [false, true] {
        let mut kernel = Kernel::new();
        if asked {
            kernel.matcher = Matcher::new("x86_64", 4).with_other_calls();
        }
        kernel.event(7, SYNC, 0, 0, 0);
        let event = kernel.trace.names.intern(exit);
        kernel.body(7, Body::Other { event, at: 0, length: 0 });
        let expected: &[_] = if asked { &[(Operation::FileSync, 7, 1, 2, 0)] } else { &[] };
        assert_eq!(kernel.told(), expected);
        assert_eq!(kernel.matcher.unmatched(), Unmatched::default());
    }
}
