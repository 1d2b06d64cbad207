//! Reads arbitrary text as the `format` file of an event that has a decoder, and arbitrary bytes as
//! its records. For any offsets and sizes in the format, the decoder must not panic or read beyond
//! a record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roundtrip_tracefs::{CpuPages, Format, Formats, Period};

const HEADER_PAGE: &str = include_str!("../../fixtures/tracefs/x86_64-6.18/events/header_page");
const HEADER_EVENT: &str = include_str!("../../fixtures/tracefs/x86_64-6.18/events/header_event");

/// One event for each decoder.
const EVENTS: [&str; 16] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_process_fork",
    "sched/sched_blocked_reason",
    "task/task_rename",
    "irq/irq_handler_entry",
    "irq/softirq_entry",
    "ipi/ipi_raise",
    "ipi/ipi_send_cpumask",
    "power/cpu_idle",
    "raw_syscalls/sys_enter",
    "syscalls/sys_enter_futex",
    "workqueue/workqueue_execute_start",
    "ftrace/print",
    "binder/binder_transaction",
    "block/block_rq_issue",
];

fuzz_target!(|input: (u8, &str, &str, &[u8])| {
    let (which, text, addresses, record) = input;
    let (system, event) = EVENTS[usize::from(which) % EVENTS.len()].split_once('/').expect("a system");
    let Ok(format) = Format::parse(system, event, text) else { return };
    let Ok(formats) = Formats::parse(HEADER_PAGE, HEADER_EVENT, [(system, event, text)], addresses) else {
        return;
    };
    let formats = formats.with_kallsyms(addresses);
    for field in &format.fields {
        let _ = (format.symbols(&field.name), format.bits_choosing(&field.name, "+"));
    }

    // A page with one record of this event.
    let mut data = format.id.to_le_bytes().to_vec();
    data.extend(&record[..record.len().min(1024)]);
    data.resize(data.len().next_multiple_of(4), 0);
    let mut page = 1_000_u64.to_le_bytes().to_vec();
    page.extend((data.len() as u64 + 8).to_le_bytes());
    page.extend(0_u32.to_le_bytes());
    page.extend((data.len() as u32 + 4).to_le_bytes());
    page.extend(data);
    page.resize(4096, 0);
    let cpus = [CpuPages { cpu: 0, bytes: &page, dropped: 0 }];
    let trace = roundtrip_tracefs::read(&formats, &cpus, Period::default()).expect("a little-endian page");
    assert!(trace.events.len() == 1 || trace.losses.len() == 1, "the record is neither an event nor a loss");
    for (event, field) in
        trace.events.iter().flat_map(|event| format.fields.iter().map(move |field| (event, field)))
    {
        let _ = trace.field(event, &field.name);
    }
});
