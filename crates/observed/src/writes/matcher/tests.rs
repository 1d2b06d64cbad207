//! Tests the matcher with events in the order in which the kernel emits them, and with a recording.

use std::path::Path;

use roundtrip_tracefs::{Formats, Others, Recording, TaskState, ThreadRef};

use super::*;

/// System call numbers on x86-64.
const WRITE: i64 = 1;
const MSYNC: i64 = 26;
const FSYNC: i64 = 74;
const PWRITEV2: i64 = 328;

/// Feeds a matcher with events of threads, one nanosecond apart, and collects its writes.
struct Kernel {
    now_ns: u64,
    matcher: Matcher,
    observed: Vec<Observed>,
}

impl Kernel {
    fn new() -> Self {
        Self { now_ns: 0, matcher: Matcher::new("x86_64", 4), observed: Vec::new() }
    }

    fn event(&mut self, tid: u32, body: Body) {
        self.now_ns += 1;
        let event = Event { time_ns: self.now_ns, cpu: 0, tid, body };
        self.matcher.add(&Trace::default(), &event, &mut |observed| self.observed.push(observed));
    }

    fn enter(&mut self, tid: u32, number: i64, [third, sixth]: [u32; 2]) {
        self.event(tid, Body::SysEnter { number, first: 5, third, sixth });
    }

    fn exit(&mut self, tid: u32, number: i64, result: i64) {
        self.event(tid, Body::SysExit { number, result });
    }

    fn sleep(&mut self, tid: u32, state: u32) {
        let (prev, next) = (ThreadRef { tid, ..ThreadRef::default() }, ThreadRef::default());
        self.event(tid, Body::Switch { prev, prev_state: TaskState(state), next });
    }
}

#[test]
fn a_durable_call_is_reported_with_its_return_value() {
    let mut kernel = Kernel::new();
    kernel.enter(7, FSYNC, [0, 0]);
    kernel.enter(8, FSYNC, [0, 0]);
    kernel.exit(7, FSYNC, -5);
    let [call] = kernel.observed[..] else { panic!("{:?}", kernel.observed) };
    assert_eq!((call.operation, call.asked, call.tid), (Operation::Fsync, Asked::Call, 7));
    assert_eq!((call.start_ns, call.end_ns, call.result, call.descriptor), (1, 3, -5, Some(5)));
    assert_eq!(kernel.matcher.oldest_ns(), Some(2));
}

#[test]
fn a_32_bit_programs_calls_are_its_own_and_unknown_ones_are_no_writes() {
    // 82 and 98 are fsync and futex of 64-bit programs, 118 and 322 fsync and openat of others.
    let enter = |tid, number| {
        let body = Body::SysEnter { number, first: 5, third: 0, sixth: 0 };
        Event { time_ns: 0, cpu: 0, tid, body }
    };
    let events = vec![enter(7, 98), enter(8, 322)];
    let numbers = Numbers::of(&Trace { events, ..Trace::default() }, "aarch64");
    let mut kernel = Kernel::new();
    kernel.matcher = Matcher::new("aarch64", 4).numbered(numbers);
    for (tid, number) in [(7, 82), (8, 118), (8, 82), (7, 118), (9, 82), (9, 118)] {
        kernel.enter(tid, number, [0, 0]);
        kernel.exit(tid, number, 0);
    }
    let found: Vec<_> = kernel.observed.iter().map(|call| (call.tid, call.operation)).collect();
    assert_eq!(found, [(7, Operation::Fsync), (8, Operation::Fsync)]);
}

#[test]
fn a_write_is_reported_if_a_flag_makes_it_durable_or_if_it_waited() {
    let mut kernel = Kernel::new();
    for sixth in [0, 0x2, 0x4, 0x8] {
        kernel.enter(7, PWRITEV2, [1, sixth]);
        kernel.exit(7, PWRITEV2, 512);
    }
    assert_eq!(kernel.observed.iter().map(|call| call.asked).collect::<Vec<_>>(), [Asked::Flag; 2]);
    // A writer to a pipe sleeps interruptibly.
    for state in [0, 1, 2] {
        kernel.enter(7, WRITE, [512, 0]);
        kernel.sleep(7, state);
        kernel.exit(7, WRITE, 512);
    }
    assert_eq!(kernel.observed.len(), 3);
    assert_eq!((kernel.observed[2].asked, kernel.observed[2].operation), (Asked::Unknown, Operation::Write));
}

#[test]
fn a_write_that_queues_a_read_is_reported_even_if_the_read_ends_before_it_sleeps() {
    let format = "ID: 9\nfield:unsigned short common_type; offset:0; size:2; signed:0;\n\
                  field:char rwbs[8]; offset:2; size:8; signed:0;\n";
    let formats = Formats::of_events([("block", "block_bio_queue", format)]).unwrap();
    let mut trace = Trace { others: Others::new(formats), ..Trace::default() };
    let mut queue = |kind: &[u8; 8]| {
        let (at, length) = trace.others.add(&[&[9, 0], &kind[..]].concat()).unwrap();
        Body::Other { event: trace.names.intern("block/block_bio_queue"), at, length }
    };
    let (read, write) = (queue(b"RM\0\0\0\0\0\0"), queue(b"WS\0\0\0\0\0\0"));
    let (enter, exit) = (
        Body::SysEnter { number: WRITE, first: 5, third: 512, sixth: 0 },
        Body::SysExit { number: WRITE, result: 512 },
    );
    let mut matcher = Matcher::new("x86_64", 4);
    let mut reported = |bodies: &[(u32, Body)]| {
        let mut count = 0;
        for &(tid, body) in bodies {
            matcher.add(&trace, &Event { time_ns: 1, cpu: 0, tid, body }, &mut |_| count += 1);
        }
        count
    };
    assert_eq!(reported(&[(7, enter), (7, read), (7, exit)]), 1);
    assert_eq!(reported(&[(7, enter), (7, write), (7, exit)]), 0, "a write to the device is no read");
    assert_eq!(reported(&[(7, enter), (8, read), (7, exit)]), 0, "another thread's read");
    assert_eq!(reported(&[(7, read), (7, enter), (7, exit)]), 0, "a read before the call");
}

/// Events of io_uring and ext4 with the fields `req`, `opcode`, `res` or `error`, `dev` and `ino`.
struct Ring {
    trace: Trace,
    matcher: Matcher,
    now_ns: u64,
}

impl Ring {
    fn new() -> Self {
        let field = |kind: &str, name: &str, offset: u32, size: u32, signed: u32| {
            format!("field:{kind} {name}; offset:{offset}; size:{size}; signed:{signed};\n")
        };
        let format = |id: u32, result: &str| {
            let fields = [
                field("unsigned short", "common_type", 0, 2, 0),
                field("void *", "req", 8, 8, 0),
                field("u8", "opcode", 16, 1, 0),
                field("int", result, 20, 4, 1),
                field("dev_t", "dev", 24, 4, 0),
                field("u64", "ino", 32, 8, 0),
            ];
            format!("ID: {id}\n{}", fields.concat())
        };
        let [submit, complete, failed, sync, queued] =
            [(1, "res"), (2, "res"), (3, "error"), (4, "res"), (5, "res")]
                .map(|(id, result)| format(id, result));
        let formats = Formats::of_events([
            ("io_uring", "io_uring_submit_req", submit.as_str()),
            ("io_uring", "io_uring_complete", &complete),
            ("io_uring", "io_uring_req_failed", &failed),
            ("io_uring", "io_uring_queue_async_work", &queued),
            ("ext4", "ext4_sync_file_enter", &sync),
        ]);
        let trace = Trace { others: Others::new(formats.unwrap()), ..Trace::default() };
        Self { trace, matcher: Matcher::new("x86_64", 4), now_ns: 0 }
    }

    fn event(&mut self, tid: u32, (id, name): (u8, &str), req: u8, opcode: u8, result: i32) -> Vec<Observed> {
        let mut bytes = [0; 40];
        (bytes[0], bytes[8], bytes[16], bytes[24], bytes[32]) = (id, req, opcode, 9, 12);
        bytes[20..24].copy_from_slice(&result.to_le_bytes());
        let (at, length) = self.trace.others.add(&bytes).unwrap();
        let body = Body::Other { event: self.trace.names.intern(name), at, length };
        self.now_ns += 1;
        let mut told = Vec::new();
        let event = Event { time_ns: self.now_ns, cpu: 0, tid, body };
        self.matcher.add(&self.trace, &event, &mut |observed| told.push(observed));
        told
    }

    fn submit(&mut self, tid: u32, req: u8, opcode: u8) {
        assert!(self.event(tid, (1, "io_uring/io_uring_submit_req"), req, opcode, 0).is_empty());
    }

    fn complete(&mut self, tid: u32, req: u8, result: i32) -> Vec<Observed> {
        self.event(tid, (2, "io_uring/io_uring_complete"), req, 0, result)
    }

    /// Leaves a request to a worker.
    fn leave(&mut self, tid: u32, req: u8) {
        assert!(self.event(tid, (5, "io_uring/io_uring_queue_async_work"), req, 0, 0).is_empty());
    }

    fn sync(&mut self, tid: u32) {
        assert!(self.event(tid, (4, "ext4/ext4_sync_file_enter"), 0, 0, 0).is_empty());
    }
}

#[test]
fn a_rings_write_is_durable_if_who_performs_it_makes_the_file_durable() {
    const WRITE: u8 = 23;
    const FSYNC: u8 = 3;
    let mut ring = Ring::new();
    let file = Some(FileId { dev: 9, inode: 12 });
    // A worker performs it.
    ring.submit(7, 1, WRITE);
    ring.sync(71);
    let [write] = ring.complete(71, 1, 4096)[..] else { panic!("one write") };
    assert_eq!((write.tid, write.start_ns, write.end_ns, write.result), (7, 1, 3, 4096));
    assert_eq!((write.asked, write.file), (Asked::Flag, file));
    // Its next one is not made durable.
    ring.submit(7, 1, WRITE);
    let [write] = ring.complete(71, 1, 4096)[..] else { panic!("one write") };
    assert_eq!((write.asked, write.file), (Asked::Unknown, None));
    // The thread itself performs the second of two at once, and both complete afterwards.
    ring.submit(7, 1, WRITE);
    ring.submit(7, 2, WRITE);
    ring.sync(7);
    let asked = [1, 2].map(|req| ring.complete(7, req, 4096)[0].asked);
    assert_eq!(asked, [Asked::Unknown, Asked::Flag]);
    // An operation of another kind does not make the write before it durable.
    ring.submit(7, 1, WRITE);
    ring.submit(7, 2, 22);
    ring.sync(7);
    assert_eq!(ring.complete(72, 1, 4096)[0].asked, Asked::Unknown);
    ring.submit(7, 1, FSYNC);
    ring.sync(71);
    let fsync = ring.complete(71, 1, -5)[0];
    assert_eq!((fsync.asked, fsync.file, fsync.result), (Asked::Call, file, -5));
    assert_eq!(ring.matcher.unmatched(), Unmatched::default());
}

#[test]
fn a_rings_write_is_durable_even_if_its_submitter_completes_what_a_worker_performed() {
    const WRITE: u8 = 23;
    let mut ring = Ring::new();
    for (tid, req) in [(7, 1), (7, 2), (8, 3)] {
        ring.submit(tid, req, WRITE);
        ring.leave(tid, req);
    }
    for (tid, name) in [(71, "iou-wrk-7"), (72, "iou-wrk-7"), (81, "iou-wrk-8"), (9, "iou-wrk-x")] {
        let comm = ring.trace.names.intern(name);
        let event = Event { time_ns: ring.now_ns, cpu: 0, tid, body: Body::Rename { tid, comm } };
        ring.matcher.add(&ring.trace, &event, &mut |_| panic!("nothing ended"));
    }
    ring.sync(71);
    ring.sync(72);
    ring.sync(9);
    let asked = [(7, 1), (7, 2), (8, 3)].map(|(tid, req)| ring.complete(tid, req, 4096)[0].asked);
    assert_eq!(asked, [Asked::Flag, Asked::Flag, Asked::Unknown]);
    assert!(ring.matcher.performed.is_empty(), "what other threads did is forgotten");
    // What the submitter performed itself is not a worker's.
    ring.submit(7, 1, WRITE);
    ring.sync(71);
    assert_eq!(ring.complete(7, 1, 4096)[0].asked, Asked::Unknown);
}

#[test]
fn what_a_ring_refuses_is_a_failed_call() {
    let mut ring = Ring::new();
    let mut refuse = |opcode| ring.event(7, (3, "io_uring/io_uring_req_failed"), 1, opcode, -22);
    let [fsync] = refuse(3)[..] else { panic!("one fsync") };
    assert_eq!((fsync.operation, fsync.asked, fsync.result), (Operation::UringFsync, Asked::Call, -22));
    assert_eq!(fsync.latency_ns(), 0);
    assert!(refuse(22).is_empty(), "a read");
    assert!(ring.complete(7, 1, -22).is_empty(), "it was told already");
}

#[test]
fn an_msync_without_ms_sync_is_not_reported() {
    let mut kernel = Kernel::new();
    for flags in [1, 2, MS_SYNC] {
        kernel.enter(7, MSYNC, [flags, 0]);
        kernel.exit(7, MSYNC, 0);
    }
    let [call] = kernel.observed[..] else { panic!("{:?}", kernel.observed) };
    assert_eq!((call.operation, call.descriptor), (Operation::Msync, None));
    assert_eq!(kernel.matcher.unmatched(), Unmatched::default());
}

#[test]
fn incomplete_calls_are_counted_and_memory_is_bounded() {
    let mut kernel = Kernel::new();
    kernel.exit(7, FSYNC, 0);
    kernel.enter(7, FSYNC, [0, 0]);
    // The event of the call's return was lost.
    kernel.enter(7, FSYNC, [0, 0]);
    kernel.event(7, Body::Exit);
    for tid in 0..6 {
        kernel.enter(tid, FSYNC, [0, 0]);
    }
    assert!(kernel.observed.is_empty());
    assert_eq!(kernel.matcher.unmatched(), Unmatched { begun_before: 1, not_ended: 2, forgotten: 2 });
}

#[test]
fn every_sync_in_a_recording_has_its_file_and_directory() {
    let run = Path::new("../../fixtures/runs/x86_64-6.18-observed-writes/recording");
    let trace = Recording::open(run).unwrap().read(1).unwrap();
    let mut matcher = Matcher::new("x86_64", 100);
    let mut calls = Vec::new();
    for event in &trace.events {
        matcher.add(&trace, event, &mut |observed| calls.push(observed));
    }
    // Three files in one directory on a loop device. Meanwhile, other programs wrote to the disk.
    let on_loop = |call: &&Observed| call.file.is_some_and(|file| file.dev == 7 << 20);
    let syncs = || calls.iter().filter(on_loop).filter(|call| call.operation == Operation::Fsync);
    assert!(syncs().count() > 10, "{}", syncs().count());
    assert!(syncs().all(|call| call.asked == Asked::Call && call.result == 0 && call.directory == Some(2)));
    let mut files: Vec<FileId> = syncs().filter_map(|call| call.file).collect();
    files.sort_unstable();
    files.dedup();
    assert_eq!(files.len(), 3, "{files:?}");
    let mut flagged = calls.iter().filter(on_loop).filter(|call| call.asked == Asked::Flag);
    assert!(flagged.all(|call| call.operation == Operation::Write && call.result == 512));
}
