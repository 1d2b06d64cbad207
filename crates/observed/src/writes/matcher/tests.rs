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
