//! Events whose layout differs on kernels without fixtures. Each test uses a format of such a
//! kernel, and one record.

use roundtrip_tracefs::{
    Body, CpuPages, Event, EventContext, Formats, Period, TaskState, ThreadRef, Trace, Value,
};

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "\ttype_len : 5 bits\n\ttime_delta : 27 bits\n";

/// A format: (declaration, offset, size, signed) of each field after the common ones.
fn format(fields: &[(&str, usize, usize, u8)], print: &str) -> String {
    let common = [("unsigned short common_type", 0, 2, 0), ("int common_pid", 4, 4, 1)];
    let lines = common.iter().chain(fields).map(|(declaration, offset, size, signed)| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    format!("ID: 9\nformat:\n{}\nprint fmt: {print}\n", lines.collect::<String>())
}

/// A record with these values at these offsets. The current thread is 7.
fn record(length: usize, values: &[(usize, &[u8])]) -> Vec<u8> {
    let mut record = vec![0; length];
    record[0] = 9;
    record[4] = 7;
    for (at, value) in values {
        record[*at..at + value.len()].copy_from_slice(value);
    }
    record
}

fn read(event: &str, format: &str, addresses: &str, record: &[u8]) -> Trace {
    let (system, name) = event.split_once('/').unwrap();
    let formats = Formats::parse(HEADER_PAGE, HEADER_EVENT, [(system, name, format)], addresses).unwrap();
    let mut page = 1_000_u64.to_le_bytes().to_vec();
    page.extend((record.len() as u64 + 8).to_le_bytes());
    page.extend(0_u32.to_le_bytes());
    page.extend((record.len() as u32 + 4).to_le_bytes());
    page.extend(record);
    page.resize(4096, 0);
    let cpus = [CpuPages { cpu: 0, bytes: &page, dropped: 0 }];
    roundtrip_tracefs::read(&formats, &cpus, Period::default()).unwrap()
}

fn event(trace: &Trace) -> Event {
    assert_eq!((trace.events.len(), trace.losses.as_slice()), (1, [].as_slice()));
    assert_eq!((trace.events[0].time_ns, trace.events[0].tid), (1_000, 7));
    trace.events[0]
}

const STATES: &str = r#"REC->prev_state & 0x3 ? __print_flags(REC->prev_state & 0x3, "|", { 1, "S"} , { 2, "D" }, { 64, "x" }) : "R", REC->prev_state & 2048 ? "+" : """#;

#[test]
fn a_switch_of_a_32_bit_kernel_with_its_own_state_bits() {
    let format = format(
        &[
            ("char prev_comm[TASK_COMM_LEN]", 8, 16, 1),
            ("pid_t prev_pid", 24, 4, 1),
            ("int prev_prio", 28, 4, 1),
            ("long prev_state", 32, 4, 1),
            ("char next_comm[TASK_COMM_LEN]", 36, 16, 1),
            ("pid_t next_pid", 52, 4, 1),
            ("int next_prio", 56, 4, 1),
        ],
        STATES,
    );
    for (kernels, state) in [
        (0, TaskState(0)),
        (1, TaskState(1)),
        (2, TaskState(2)),
        (64, TaskState(0x10)),
        (2048, TaskState::PREEMPTED),
        (2049, TaskState::PREEMPTED),
    ] {
        let record = record(
            60,
            &[
                (8, b"ab"),
                (24, &[5]),
                (28, &[120]),
                (32, &u32::to_le_bytes(kernels)),
                (36, b"swapper/0"),
                (56, &(-1_i32).to_le_bytes()),
            ],
        );
        let trace = read("sched/sched_switch", &format, "", &record);
        let Body::Switch { prev, prev_state, next } = event(&trace).body else {
            panic!("{:?}", trace.events)
        };
        assert_eq!((prev.tid, prev.prio, trace.names.text(prev.comm)), (5, 120, "ab"));
        assert_eq!((next.tid, next.prio, trace.names.text(next.comm)), (0, -1, "swapper/0"));
        assert_eq!(prev_state, state, "{kernels:#x}");
    }
}

#[test]
fn a_switch_whose_states_are_not_said_is_left_undecoded() {
    let fields = [
        ("char prev_comm[16]", 8, 16, 1),
        ("pid_t prev_pid", 24, 4, 1),
        ("int prev_prio", 28, 4, 1),
        ("long prev_state", 32, 8, 1),
    ];
    let next = [("char next_comm[16]", 40, 16, 1), ("pid_t next_pid", 56, 4, 1), ("int next_prio", 60, 4, 1)];
    let trace = read(
        "sched/sched_switch",
        &format(&[&fields[..], &next].concat(), "\"\""),
        "",
        &record(64, &[(24, &[5])]),
    );
    assert!(matches!(event(&trace).body, Body::Other { .. }));
    assert_eq!(trace.field(&trace.events[0], "prev_pid"), Some(Value::Signed(5)));
}

#[test]
fn a_waking_with_success_and_a_real_time_kernels_common_fields() {
    let format = format(
        &[
            ("unsigned char common_flags", 2, 1, 0),
            ("unsigned char common_migrate_disable", 8, 1, 0),
            ("char comm[16]", 12, 16, 1),
            ("pid_t pid", 28, 4, 1),
            ("int prio", 32, 4, 1),
            ("int success", 36, 4, 1),
            ("int target_cpu", 40, 4, 1),
        ],
        "\"\"",
    );
    let record = record(44, &[(2, &[8]), (12, b"work"), (28, &[9]), (32, &[49]), (36, &[1]), (40, &[3])]);
    let trace = read("sched/sched_waking", &format, "", &record);
    let Body::Waking { thread: ThreadRef { tid, prio, comm }, target_cpu, context } = event(&trace).body
    else {
        panic!("{:?}", trace.events)
    };
    assert_eq!((tid, prio, trace.names.text(comm), target_cpu), (9, 49, "work", 3));
    assert_eq!(
        (context, trace.occurred.as_slice()),
        (EventContext::Interrupt, ["sched/sched_waking".to_owned()].as_slice())
    );
}

#[test]
fn what_only_androids_kernels_have() {
    let blocked =
        format(&[("pid_t pid", 8, 4, 1), ("void* caller", 16, 8, 0), ("bool io_wait", 24, 1, 0)], "\"\"");
    let values: [(usize, &[u8]); 3] = [(8, &[5]), (16, &0xffff_ff80_0812_3456_u64.to_le_bytes()), (24, &[1])];
    let trace = read(
        "sched/sched_blocked_reason",
        &blocked,
        "0xffffff8008123456 : \"wait_on_page\"\n",
        &record(28, &values),
    );
    let Body::BlockedReason { tid, io_wait, caller } = event(&trace).body else {
        panic!("{:?}", trace.events)
    };
    assert_eq!((tid, io_wait, trace.names.text(caller)), (5, true, "wait_on_page"));

    let priority = format(
        &[
            ("int proc", 8, 4, 1),
            ("int thread", 12, 4, 1),
            ("unsigned int old_prio", 16, 4, 0),
            ("unsigned int new_prio", 20, 4, 0),
            ("unsigned int desired_prio", 24, 4, 0),
        ],
        "\"\"",
    );
    let trace = read(
        "binder/binder_set_priority",
        &priority,
        "",
        &record(28, &[(12, &[5]), (16, &[120]), (20, &[98])]),
    );
    assert_eq!(event(&trace).body, Body::BinderSetPriority { tid: 5, old_prio: 120, new_prio: 98 });
}

#[test]
fn the_rust_driver_names_its_system_and_events_otherwise() {
    let fields = [
        ("int debug_id", 8, 4, 1),
        ("int target_node", 12, 4, 1),
        ("int to_proc", 16, 4, 1),
        ("int to_thread", 20, 4, 1),
        ("int reply", 24, 4, 1),
        ("unsigned int code", 28, 4, 0),
        ("unsigned int flags", 32, 4, 0),
    ];
    let record =
        record(36, &[(8, &[42]), (12, &[77]), (16, &[50]), (20, &[51]), (24, &[1]), (28, &[3]), (32, &[16])]);
    let expected = Body::BinderTransaction {
        debug_id: 42,
        target_node: 77,
        to_proc: 50,
        to_thread: 51,
        reply: true,
        code: 3,
        flags: 16,
    };
    for name in
        ["binder/binder_transaction", "rust_binder/binder_transaction", "rust_binder/rust_binder_transaction"]
    {
        assert_eq!(event(&read(name, &format(&fields, "\"\""), "", &record)).body, expected, "{name}");
    }
}

#[test]
fn the_rust_driver_of_androids_kernels_names_no_receiving_thread_and_returns_ret() {
    let fields = [
        ("int debug_id", 8, 4, 1),
        ("int target_node", 12, 4, 1),
        ("int from_proc", 16, 4, 1),
        ("int to_proc", 20, 4, 1),
        ("int reply", 24, 4, 1),
        ("unsigned int code", 28, 4, 0),
        ("unsigned int flags", 32, 4, 0),
    ];
    let values: [(usize, &[u8]); 5] = [(8, &[42]), (12, &[77]), (16, &[40]), (20, &[50]), (28, &[3])];
    let name = "rust_binder/rust_binder_transaction";
    let expected = Body::BinderTransaction {
        debug_id: 42,
        target_node: 77,
        to_proc: 50,
        to_thread: 0,
        reply: false,
        code: 3,
        flags: 0,
    };
    assert_eq!(event(&read(name, &format(&fields, "\"\""), "", &record(36, &values))).body, expected);
    let returned = format(&[("uint32_t ret", 8, 4, 0)], "\"\"");
    let trace = read("rust_binder/rust_binder_return", &returned, "", &record(12, &[(8, &[5, 0x72])]));
    assert_eq!(event(&trace).body, Body::BinderReturn { command: 0x7205 });
}

#[test]
fn interrupts_named_relative_to_their_field_and_vectors_in_another_order() {
    let entry = format(&[("int irq", 8, 4, 1), ("__rel_loc char[] name", 12, 4, 0)], "\"\"");
    let trace = read(
        "irq/irq_handler_entry",
        &entry,
        "",
        &record(24, &[(8, &[36]), (12, &[0, 0, 6, 0]), (16, b"mmc0\0\0")]),
    );
    let Body::IrqEntry { irq, name } = event(&trace).body else { panic!("{:?}", trace.events) };
    assert_eq!((irq, trace.names.text(name)), (36, "mmc0"));
    let softirq = format(
        &[("unsigned int vec", 8, 4, 0)],
        r#""vec=%u", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "NET_RX" }, { 2, "NEW" })"#,
    );
    for (kernels, vector) in [(0, 0), (1, 3), (2, 2)] {
        let trace = read("irq/softirq_entry", &softirq, "", &record(12, &[(8, &[kernels])]));
        assert_eq!(event(&trace).body, Body::SoftirqEntry { vector });
    }
}

#[test]
fn a_cpu_mask_with_one_bit_names_the_cpu_and_no_other_does() {
    let format = format(
        &[
            ("__data_loc cpumask_t cpumask", 8, 4, 0),
            ("void * callsite", 16, 8, 0),
            ("void * callback", 24, 8, 0),
        ],
        "\"\"",
    );
    for (mask, target_cpu) in [([0, 4], Some(10)), ([0, 5], None), ([1, 4], None), ([0, 0], None)] {
        let values: [(usize, &[u8]); 3] = [(8, &[32, 0, 8, 0]), (16, &[0x10]), (32, &mask)];
        let trace = read("ipi/ipi_send_cpumask", &format, "", &record(40, &values));
        let Body::IpiRaise { target_cpu: found, reason } = event(&trace).body else {
            panic!("{:?}", trace.events)
        };
        assert_eq!((found, trace.names.text(reason)), (target_cpu, "0x10"), "{mask:?}");
    }
}

#[test]
fn a_record_that_ends_before_its_fields_is_damage() {
    let format = format(&[("int irq", 8, 4, 1), ("__data_loc char[] name", 12, 4, 0)], "\"\"");
    for record in
        [record(12, &[]), record(16, &[(12, &[16, 0, 5, 0])]), record(16, &[(12, &[0xff, 0xff, 0xff, 0xff])])]
    {
        let trace = read("irq/irq_handler_entry", &format, "", &record);
        assert!(trace.events.is_empty() && trace.losses[0].damaged, "{trace:?}");
    }
}
