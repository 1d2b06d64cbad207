//! Tests of one event of each kind in the trace processor, from the binary and from the text
//! format.

use super::*;

/// One event of each kind in a plausible order: 10 ns apart, on CPU 0, while the client runs.
pub(super) fn one_of_each() -> Made {
    let mut made = Made::new();
    let idle = ThreadRef::default();
    let client = made.thread(101, 0, "client");
    let server = made.thread(201, 120, "server");
    made.0.processes.extend([(100, 100), (101, 100), (200, 200), (201, 200), (7, 7)]);
    made.switch(900, 1, idle, TaskState(0), server);
    made.switch(1_000, 0, idle, TaskState(0), client);
    made.switch(1_001, 1, server, TaskState(2), idle);
    let bodies = bodies_of_client(&mut made, server);
    for (body, time_ns) in bodies.into_iter().zip((0..).map(|step| 1_010 + 10 * step)) {
        made.add(time_ns, 0, 101, body);
    }
    made.switch(1_500, 0, client, TaskState(1), idle);
    made.switch(1_600, 1, idle, TaskState(0), server);
    made.add(1_610, 1, 201, Body::BinderReceived { debug_id: 5 });
    let reply = Body::BinderTransaction {
        debug_id: 6,
        target_node: 0,
        to_proc: 100,
        to_thread: 101,
        reply: true,
        code: 0,
        flags: 0,
    };
    made.add(1_650, 1, 201, reply);
    made.add(
        1_660,
        1,
        201,
        Body::Wakeup {
            thread: client,
            target_cpu: 0,
            new: true,
            context: roundtrip_tracefs::EventContext::Unknown,
        },
    );
    made.switch(1_700, 0, idle, TaskState(0), client);
    made.add(1_710, 0, 101, Body::BinderReceived { debug_id: 6 });
    let comm = made.name("renamed");
    made.add(1_720, 1, 201, Body::Rename { tid: 201, comm });
    made.add(1_750, 1, 201, Body::Exit);
    let renamed = made.thread(201, 120, "renamed");
    made.switch(1_800, 1, renamed, TaskState(0x10), idle);
    made
}

/// What the client does on its CPU.
fn bodies_of_client(made: &mut Made, server: ThreadRef) -> Vec<Body> {
    let [worker, disk, timer, reschedule] =
        ["do_work", "disk", "local_timer", "reschedule"].map(|name| made.name(name));
    let [mark, end, count, free] =
        ["B|100|marked", "E|100", "C|100|queue|7", "just words"].map(|text| made.name(text));
    let lock = 0xffff_8000_0000_1234;
    let mut bodies = vec![
        Body::SysEnter { number: 0, first: 3, third: 0, sixth: 0 },
        Body::IrqEntry { irq: 14, name: disk },
        Body::IrqExit { irq: 14, handled: true },
        Body::SoftirqRaise { vector: 4 },
        Body::SoftirqEntry { vector: 4 },
        Body::SoftirqExit { vector: 4 },
        Body::VectorEntry { kind: timer },
        Body::VectorExit { kind: timer },
        Body::VectorEntry { kind: reschedule },
        Body::VectorExit { kind: reschedule },
        Body::IpiRaise { target_cpu: Some(1), reason: reschedule },
        Body::IpiEntry { reason: reschedule },
        Body::IpiExit { reason: reschedule },
        Body::Frequency { cpu: 0, khz: 1_800_000 },
        Body::Idle { cpu: 1, state: Some(2) },
        Body::Idle { cpu: 1, state: None },
        Body::SysExit { number: 0, result: -11 },
        Body::PiSetprio { tid: 201, old_prio: 120, new_prio: 0 },
        Body::StatRuntime { tid: 101, runtime_ns: 77 },
        Body::ContentionBegin { lock, flags: 1 },
        Body::ContentionEnd { lock },
        Body::WorkStart { work: 0x1234, function: worker },
        Body::WorkEnd { work: 0x1234 },
        Body::Print { text: mark },
        Body::Print { text: end },
        Body::Print { text: count },
        Body::Print { text: free },
    ];
    bodies.extend(bodies_of_call(made, server));
    bodies
}

/// The call to the server, and what happens to other threads during that time.
fn bodies_of_call(made: &mut Made, server: ThreadRef) -> [Body; 8] {
    let [caller, other, child] = ["blocker", "sched/sched_kthread_stop", "child"].map(|text| made.name(text));
    [
        Body::BinderTransaction {
            debug_id: 5,
            target_node: 3,
            to_proc: 200,
            to_thread: 201,
            reply: false,
            code: 1,
            flags: 0x10,
        },
        Body::BinderSetPriority { tid: 201, old_prio: 120, new_prio: 0 },
        Body::Fork { child: 301, comm: child },
        Body::Waking { thread: server, target_cpu: 1, context: roundtrip_tracefs::EventContext::Unknown },
        Body::BlockedReason { tid: 201, io_wait: true, caller },
        Body::Migrate { thread: server, from_cpu: 1, to_cpu: 0 },
        Body::Other { event: other, at: 0, length: 0 },
        Body::Wakeup {
            thread: server,
            target_cpu: 1,
            new: false,
            context: roundtrip_tracefs::EventContext::Unknown,
        },
    ]
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn the_trace_processor_reads_every_kind_of_event() {
    let made = one_of_each();
    let expected = [&on_cpus()[..], &of_threads(), &of_trace(made.0.events.len())].concat();
    let queries: Vec<&str> = expected.iter().map(|(query, _)| *query).collect();
    let rows = ask_modern("each", &made, &[], &queries);
    for ((query, expected), rows) in expected.iter().zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}

/// What ran on the CPUs: queries and their rows.
fn on_cpus() -> [(&'static str, Json); 5] {
    [
        (COMPLAINTS, json!([])),
        (
            "select sched.ts, dur, cpu, tid, end_state, priority from sched join thread using (utid) \
             where tid != 0 order by sched.ts",
            json!([
                [900, 101, 1, 201, "D", 120],
                [1000, 500, 0, 101, "S", 0],
                [1600, 200, 1, 201, "X", 120],
                [1700, -1, 0, 101, null, 0]
            ]),
        ),
        (
            "select slice.ts, slice.dur, slice.name, track.name from slice join track on track.id = track_id \
             order by slice.ts",
            json!([
                [1010, 160, "sys_read", null],
                [1020, 10, "IRQ (disk)", "Irq Cpu 0"],
                [1050, 10, "BLOCK", "SoftIrq Cpu 0"],
                [1070, 10, "IRQ (LocalTimer)", "Irq Cpu 0"],
                [1090, 10, "reschedule", "CPU 0 other interrupts"],
                [1120, 10, "reschedule", "CPU 0 other interrupts"],
                [1220, 10, "do_work", null],
                [1240, 10, "marked", null],
                [1280, 430, "binder transaction", null],
                [1610, 40, "binder reply", null]
            ]),
        ),
        (
            "select o.name, i.name from flow join slice o on o.id = slice_out join slice i on i.id = slice_in",
            json!([["binder transaction", "binder reply"]]),
        ),
        (
            "select ts, value, name, cpu from counter join cpu_counter_track t on t.id = track_id order by ts",
            json!([[1140, 1_800_000, "cpufreq", 0], [1150, 2, "cpuidle", 1], [1160, u32::MAX, "cpuidle", 1]]),
        ),
    ]
}

/// What happened to threads.
fn of_threads() -> [(&'static str, Json); 3] {
    [
        (
            "select tid, thread.name, pid, process.name from thread left join process using (upid) \
             where tid in (101, 200, 201, 7) order by tid",
            json!([
                [7, "kthread", 7, "kthread"],
                [101, "client", 100, null],
                [200, "the server", 200, "the server"],
                [201, "renamed", 200, "the server"]
            ]),
        ),
        (
            "select ts, dur, blocked_function, io_wait from thread_state where blocked_function is not null",
            json!([[1001, 309, "blocker", 1]]),
        ),
        (
            "select waker.tid, ts from thread_state s join thread waker on waker.utid = s.waker_utid order by ts",
            json!([[101, 1310]]),
        ),
    ]
}

/// Events that Perfetto shows without interpretation, and the metadata of the trace.
fn of_trace(events: usize) -> [(&'static str, Json); 3] {
    [
        (
            "select ftrace_event.name, key, display_value from ftrace_event join args using (arg_set_id) \
             where ftrace_event.name in ('print', 'contention_begin', 'sched_stat_runtime') and key != 'buf' \
             order by ts, key",
            json!([
                ["sched_stat_runtime", "pid", "101"],
                ["sched_stat_runtime", "runtime", "77"],
                ["contention_begin", "flags", "1"],
                ["contention_begin", "lock_addr", "0xffff800000001234"]
            ]),
        ),
        ("select count(*) from ftrace_event", json!([[events]])),
        ("select str_value from metadata where name = 'system_release'", json!([["6.18.2"]])),
    ]
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn the_trace_processor_reads_the_text_format() {
    // A microsecond apart, which is the precision of the text format.
    let mut made = one_of_each();
    made.0.events.iter_mut().for_each(|event| event.time_ns *= 1000);
    // Perfetto treats any other text as a damaged mark, even in the kernel's text format.
    let words = made.name("just words");
    made.0.events.retain(|event| event.body != Body::Print { text: words });
    let expected = [
        (COMPLAINTS, json!([])),
        (
            "select ts, dur, cpu, tid, end_state, priority from sched join thread using (utid) \
             where tid != 0 order by ts",
            json!([
                [900_000, 101_000, 1, 201, "D", 120],
                [1_000_000, 500_000, 0, 101, "S", 0],
                [1_600_000, 200_000, 1, 201, "X", 120],
                [1_700_000, -1, 0, 101, null, 0]
            ]),
        ),
        (
            "select ts, dur, name from slice order by ts",
            json!([
                [1_220_000, 10_000, "do_work"],
                [1_240_000, 10_000, "marked"],
                [1_280_000, 430_000, "binder transaction"],
                [1_610_000, 40_000, "binder reply"]
            ]),
        ),
        (
            "select ts, value, name, cpu from counter join cpu_counter_track t on t.id = track_id order by ts",
            json!([
                [1_140_000, 1_800_000, "cpufreq", 0],
                [1_150_000, 2, "cpuidle", 1],
                [1_160_000, u32::MAX, "cpuidle", 1]
            ]),
        ),
        (
            "select tid, thread.name, pid from thread left join process using (upid) where tid in (101, 201) order by tid",
            json!([[101, "client", 100], [201, "renamed", 200]]),
        ),
    ];
    let queries: Vec<&str> = expected.iter().map(|(query, _)| *query).collect();
    for ((query, expected), rows) in expected.iter().zip(&ask_text("text", &made, &queries)) {
        // Perfetto reads the times in this format as floating-point numbers.
        let rounded = |rows: &Json| -> Vec<Vec<Json>> {
            let number =
                |cell: &Json| cell.as_i64().filter(|&ns| ns > 100).map(|ns| json!((ns + 50) / 100 * 100));
            let cells = |row: &Json| -> Vec<Json> {
                row.as_array()
                    .expect("a row")
                    .iter()
                    .map(|cell| number(cell).unwrap_or(cell.clone()))
                    .collect()
            };
            rows.as_array().expect("rows").iter().map(cells).collect()
        };
        assert_eq!(rounded(rows), rounded(expected), "{query}");
    }
}
