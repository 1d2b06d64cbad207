//! Reads arbitrary bytes as the ring-buffer pages of two CPUs, of 32-bit and 64-bit kernels. The
//! reader must end, after a number of steps that grows with the bytes, return its events in order,
//! and count every lost event.

#![no_main]

#[path = "../steps.rs"]
mod steps;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use roundtrip_tracefs::{CpuPages, Formats, Period};

/// The most steps for each byte.
const EACH: u64 = 1000;

const HEADER_EVENT: &str = include_str!("../../fixtures/tracefs/x86_64-6.18/events/header_event");

macro_rules! formats {
    ($($event:literal),*) => { [$(include_str!(concat!("../../fixtures/tracefs/x86_64-6.18/events/", $event, "/format"))),*] };
}

/// Small pages, so that an input of a few hundred bytes has several.
fn formats(long: usize) -> Formats {
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\tfield: char data;\toffset:{};\tsize:{};\tsigned:0;\n",
        8 + long,
        248 - long
    );
    let texts = formats!(
        "sched/sched_switch",
        "sched/sched_waking",
        "irq/irq_handler_entry",
        "ipi/ipi_send_cpumask",
        "raw_syscalls/sys_enter",
        "block/block_rq_issue",
        "ftrace/print"
    );
    let names = [
        "sched_switch",
        "sched_waking",
        "irq_handler_entry",
        "ipi_send_cpumask",
        "sys_enter",
        "block_rq_issue",
        "print",
    ];
    let systems = ["sched", "sched", "irq", "ipi", "raw_syscalls", "block", "ftrace"];
    // Event numbers of one byte, which the fuzzer finds quickly.
    let texts: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(id, text)| {
            text.lines()
                .map(|line| if line.starts_with("ID:") { format!("ID: {id}\n") } else { format!("{line}\n") })
                .collect()
        })
        .collect();
    let events =
        systems.iter().zip(names).zip(&texts).map(|((system, name), text)| (*system, name, text.as_str()));
    Formats::parse(&page, HEADER_EVENT, events, "").expect("the fixture's formats")
}

static FORMATS: LazyLock<[Formats; 2]> = LazyLock::new(|| [formats(4), formats(8)]);

fuzz_target!(|input: (bool, Option<u64>, &[u8], &[u8])| {
    let (wide, stopped_ns, first, second) = input;
    let cpus =
        [CpuPages { cpu: 0, bytes: first, dropped: 0 }, CpuPages { cpu: 1, bytes: second, dropped: 0 }];
    let period = Period { started_ns: None, stopped_ns };
    let formats = &FORMATS[usize::from(wide)];
    let read = || roundtrip_tracefs::read(formats, &cpus, period);
    let Ok(trace) = steps::linear(first.len() + second.len(), EACH, read) else { return };
    assert!(trace.events.is_sorted_by_key(|event| (event.time_ns, event.cpu)), "events out of order");
    assert!(
        trace.losses.iter().all(|loss| loss.after_ns <= loss.before_ns),
        "a loss that ends before it begins"
    );
    for pages in &cpus {
        let reported = trace.losses.iter().any(|loss| loss.cpu == pages.cpu);
        let found = trace.events.iter().any(|event| event.cpu == pages.cpu);
        assert!(
            reported || found || pages.bytes.chunks(256).all(|page| page.len() == 256),
            "a truncated page without a reported loss"
        );
    }
    for event in &trace.events {
        for field in ["common_pid", "dev", "rwbs", "cmd", "comm"] {
            let _ = trace.field(event, field);
        }
    }
});
