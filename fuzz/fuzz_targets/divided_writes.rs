//! Divides the writes of a recording that repeats a few arbitrary events thousands of times. The
//! number of steps must grow with the events, not with what is under way beside each of them.

#![no_main]

#[path = "../steps.rs"]
mod steps;

use std::fmt::Write as _;
use std::sync::Once;

use libfuzzer_sys::fuzz_target;
use roundtrip_analysis::recorded_writes::recorded_writes;
use roundtrip_analysis::slow_calls::Wanted;
use roundtrip_layers::Basis;

/// How many events a recording has.
const EVENTS: u64 = 30_000;

/// The most steps for each event. What is under way is limited to two thousand requests.
const EACH: u64 = 25_000;

/// The most events that are repeated besides one of these.
const MOST_DIFFERENT: usize = 24;

/// Events to begin with, so that the fuzzer need not find them: writes beside requests without an
/// end, bios without a request, flushes, commits of many journals, and waits.
const HEADS: [&[u8]; 6] =
    [b"", b"\x80\x82\x87", b"\x80\x82\x84\xc7", b"\x80\x82\x86\x88\x85", b"\xa0\xa2\xb0", b"\x0d\x0b\x0f"];

/// An event: its kind, and whether its sector or thread is one of few or a new one.
fn event(byte: u8, at: u64) -> (u64, String) {
    let number = match byte >> 6 {
        0 => 7,
        1 => 8 + at % 4,
        2 => at,
        _ => EVENTS - at,
    };
    let tid = 10 + if byte & 0x20 == 0 { number % 8 } else { number };
    let sector = number * 8;
    let what = match byte & 0x1f {
        0 | 1 => "sys_enter: NR 74 (3, 0, 0, 0, 0, 0)".to_owned(),
        2 | 3 => "sys_exit: NR 74 = 0".to_owned(),
        4 => format!("block_bio_queue: 254,0 WS {sector} + 8 [x]"),
        5 => format!("block_bio_queue: 254,0 FWFS {sector} + 8 [x]"),
        6 => "block_bio_queue: 254,0 FWS 0 + 0 [x]".to_owned(),
        7 => format!("block_rq_issue: 254,0 WS 4096 () {sector} + 8 none,0,0 [x]"),
        8 => "block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [x]".to_owned(),
        9 => format!("block_rq_complete: 254,0 WS () {sector} + 8 none,0,0 [0]"),
        10 => "block_rq_complete: 254,0 FF () 18446744073709551615 + 0 none,0,0 [0]".to_owned(),
        11 => format!("sched_waking: comm=x pid={tid} prio=120 target_cpu=000"),
        12 => format!("sched_wakeup: comm=x pid={tid} prio=120 target_cpu=000"),
        13 => switch(tid, 'D', tid + 1),
        14 => switch(tid, 'R', tid + 1),
        15 => switch(0, 'R', tid),
        16 => "jbd2_start_commit: dev 254,0 transaction 5 sync 0".to_owned(),
        17 => "jbd2_end_commit: dev 254,0 transaction 5 sync 0 head 4".to_owned(),
        18 => "ext4_sync_file_enter: dev 254,0 ino 12 parent 2 datasync 1".to_owned(),
        19 => "ext4_sync_file_exit: dev 254,0 ino 12 ret 0".to_owned(),
        20 => "irq_handler_entry: irq=5 name=disk".to_owned(),
        21 => "irq_handler_exit: irq=5 ret=handled".to_owned(),
        22 => "softirq_entry: vec=4 [action=BLOCK]".to_owned(),
        23 => "softirq_exit: vec=4 [action=BLOCK]".to_owned(),
        24 => format!(
            "nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid={number}, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba={sector}, len=7, ctrl=0x0, dsmgmt=0, reftag=0)"
        ),
        25 => format!(
            "nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid={number}, res=0x0, retries=0, flags=0x0, status=0x0"
        ),
        _ => format!("sched_migrate_task: comm=x pid={tid} prio=120 orig_cpu=0 dest_cpu=1"),
    };
    (tid, what)
}

fn switch(from: u64, state: char, to: u64) -> String {
    format!(
        "sched_switch: prev_comm=x prev_pid={from} prev_prio=120 prev_state={state} ==> next_comm=y next_pid={to} next_prio=120"
    )
}

fuzz_target!(|input: (u8, &[u8])| {
    static ALONE: Once = Once::new();
    ALONE.call_once(|| HEADS.iter().skip(1).for_each(|head| divide(head)));
    let (head, bytes) = input;
    if bytes.len() <= MOST_DIFFERENT {
        divide(&[HEADS[usize::from(head) % HEADS.len()], bytes].concat());
    }
});

/// Repeats these events, and divides the writes.
fn divide(bytes: &[u8]) {
    let mut text = String::new();
    for (at, &byte) in (0..EVENTS).zip(bytes.iter().cycle()) {
        let (tid, what) = event(byte, at);
        let _ = writeln!(text, "x-{tid} [{:03}] d..2. 1.{at:06}: {what}", at % 2);
    }
    let Ok(foreign) = roundtrip_foreign::read(text.as_bytes()) else { return };
    let basis = Basis::of(&foreign.trace);
    let wanted = Wanted { deadline_ns: 20_000_000, slowest: false, limit: 20 };
    steps::linear(EVENTS as usize, EACH, || recorded_writes(&basis, wanted));
}
