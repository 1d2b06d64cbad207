//! Tests against Perfetto itself: its published schema, and its trace processor on traces that we wrote. They need
//! packages that `cargo xtask perfetto` fetches, and are run by it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};
use tracefs::{Body, Event, Loss, Name, TaskState, ThreadRef, Trace};

use super::schema::{ALL, Kind, NAMED};
use super::track::{Annotation, Parent, Slice, Track, Value};
use super::{Contents, write};

/// Where the packages are, said by whoever fetched them.
fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run cargo xtask perfetto"))
        .into()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/perfetto").join(name)
}

/// Runs a program with this input, and returns what it prints.
fn output(command: &mut Command, input: &Json) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
    child.stdin.take().expect("a pipe").write_all(input.to_string().as_bytes()).expect("write");
    let output = child.wait_with_output().expect("wait");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.chars().take(2000).collect();
    assert!(output.status.success(), "{text}\n{said}");
    text
}

/// What the trace processor answers to each query about these bytes.
fn ask_of(name: &str, bytes: &[u8], queries: &[&str]) -> Vec<Json> {
    let path = std::env::temp_dir().join(format!("roundtrip-{}-{name}.perfetto-trace", std::process::id()));
    std::fs::write(&path, bytes).expect("store the trace");
    let engine = folder("ROUNDTRIP_TRACE_PROCESSOR");
    let mut node = Command::new("node");
    let rows = output(node.arg(script("query.mjs")).arg(engine).arg(&path), &json!(queries));
    std::fs::remove_file(&path).expect("remove the trace");
    serde_json::from_str(&rows).expect("rows")
}

fn ask(name: &str, contents: &Contents<'_>, queries: &[&str]) -> Vec<Json> {
    let mut bytes = Vec::new();
    write(contents, &mut bytes).expect("write the trace");
    ask_of(name, &bytes, queries)
}

/// Everything that the processor did not like.
const COMPLAINTS: &str =
    "select name, idx, value, severity from stats where value > 0 and severity in ('error', 'data_loss')";

/// A trace in the making.
struct Made(Trace);

impl Made {
    fn new() -> Self {
        Self(Trace { machine: "x86_64".into(), ..Trace::default() })
    }

    fn name(&mut self, text: &str) -> Name {
        self.0.names.intern(text)
    }

    fn thread(&mut self, tid: u32, prio: i32, name: &str) -> ThreadRef {
        ThreadRef { tid, prio, comm: self.name(name) }
    }

    fn add(&mut self, time_ns: u64, cpu: u32, tid: u32, body: Body) {
        self.0.events.push(Event { time_ns, cpu, tid, body });
    }

    fn switch(&mut self, time_ns: u64, cpu: u32, prev: ThreadRef, prev_state: TaskState, next: ThreadRef) {
        self.add(time_ns, cpu, prev.tid, Body::Switch { prev, prev_state, next });
    }
}

/// The same of the text form.
fn ask_text(name: &str, made: &Made, queries: &[&str]) -> Vec<Json> {
    let mut bytes = Vec::new();
    crate::format::ftrace_text::write(&made.0, &BTreeMap::new(), &mut bytes).expect("write the text");
    ask_of(name, &bytes, queries)
}

/// The rows of queries about a trace whose kernel's release is known.
fn ask_modern(name: &str, made: &Made, tracks: &[Track], queries: &[&str]) -> Vec<Json> {
    let comms = [(200, "the server"), (7, "kthread")].map(|(tid, name)| (tid, name.to_owned())).into();
    ask(name, &Contents { trace: &made.0, release: "6.18.2", comms: &comms, tracks }, queries)
}

#[test]
#[ignore = "needs Perfetto's schema: cargo xtask perfetto"]
fn every_field_number_is_the_published_one() {
    let mut table: Vec<Json> = ALL.iter().map(|entry| json!(entry)).collect();
    for named in NAMED {
        table.push(json!(["FtraceEvent", named.event, named.field.0, "Nested"]));
        table.extend(named.fields.iter().map(|(field, kind)| {
            let (number, kind) = match kind {
                Kind::Int(number) => (number, "Int"),
                Kind::Uint(number) => (number, "Uint"),
                Kind::Text(number) => (number, "Text"),
            };
            json!([named.message, field, number, kind])
        }));
    }
    let mut python = Command::new("python3");
    python.arg(script("schema.py")).env("PYTHONPATH", folder("ROUNDTRIP_PERFETTO_SCHEMA"));
    let said = output(&mut python, &json!(table));
    assert_eq!(said.trim(), format!("{} fields are as published", table.len()));
}

#[test]
fn named_events_can_be_searched_by_name() {
    assert!(NAMED.is_sorted_by_key(|named| named.event));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn a_threads_state_is_read_as_it_was_recorded() {
    let mut made = Made::new();
    let (idle, client) = (ThreadRef::default(), made.thread(101, 0, "client"));
    let states = [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 1 << 31].map(TaskState);
    for (state, begin_ns) in states.into_iter().zip((1..).map(|step| step * 1000)) {
        made.switch(begin_ns, 0, idle, TaskState(0), client);
        made.switch(begin_ns + 100, 0, client, state, idle);
    }
    let comms = BTreeMap::new();
    for release in ["6.18.2", "4.19.3-android", "custom", ""] {
        let contents = Contents { trace: &made.0, release, comms: &comms, tracks: &[] };
        let query = "select ts, dur, end_state from sched where utid != 0 order by ts";
        let rows = ask("states", &contents, &[COMPLAINTS, query]);
        assert_eq!(rows[0], json!([]), "{release}");
        let expected: Vec<Json> = states
            .into_iter()
            .zip((1..).map(|step| step * 1000))
            .map(|(state, begin_ns)| json!([begin_ns, 100, state.letter()]))
            .collect();
        assert_eq!(rows[1], json!(expected), "{release}");
    }
}

/// One of each event, in an order that makes sense: 10 ns apart, on CPU 0 in the client's time.
fn one_of_each() -> Made {
    let mut made = Made::new();
    let idle = ThreadRef::default();
    let client = made.thread(101, 0, "client");
    let server = made.thread(201, 120, "server");
    made.0.processes.extend([(100, 100), (101, 100), (200, 200), (201, 200), (7, 7)]);
    made.switch(900, 1, idle, TaskState(0), server);
    made.switch(1_000, 0, idle, TaskState(0), client);
    made.switch(1_001, 1, server, TaskState(2), idle);
    let [worker, disk, timer, reschedule] =
        ["do_work", "disk", "local_timer", "reschedule"].map(|name| made.name(name));
    let [mark, end, count, free] =
        ["B|100|marked", "E|100", "C|100|queue|7", "just words"].map(|text| made.name(text));
    let [caller, renamed, other, child] =
        ["blocker", "renamed", "sched/sched_kthread_stop", "child"].map(|text| made.name(text));
    let lock = 0xffff_8000_0000_1234;
    let bodies = [
        Body::SysEnter { number: 0, first: 3 },
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
        Body::Waking { thread: server, target_cpu: 1 },
        Body::BlockedReason { tid: 201, io_wait: true, caller },
        Body::Migrate { thread: server, from_cpu: 1, to_cpu: 0 },
        Body::Other { event: other, at: 0, length: 0 },
        Body::Wakeup { thread: server, target_cpu: 1, new: false },
    ];
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
    made.add(1_660, 1, 201, Body::Wakeup { thread: client, target_cpu: 0, new: true });
    made.switch(1_700, 0, idle, TaskState(0), client);
    made.add(1_710, 0, 101, Body::BinderReceived { debug_id: 6 });
    made.add(1_720, 1, 201, Body::Rename { tid: 201, comm: renamed });
    made.add(1_750, 1, 201, Body::Exit);
    let renamed = made.thread(201, 120, "renamed");
    made.switch(1_800, 1, renamed, TaskState(0x10), idle);
    made
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn every_kind_of_event_arrives() {
    let made = one_of_each();
    let expected = [
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
        ("select count(*) from ftrace_event", json!([[made.0.events.len()]])),
        ("select str_value from metadata where name = 'system_release'", json!([["6.18.2"]])),
    ];
    let queries: Vec<&str> = expected.iter().map(|(query, _)| *query).collect();
    let rows = ask_modern("each", &made, &[], &queries);
    for ((query, expected), rows) in expected.iter().zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}

/// Numbers that look random and are the same each time (the constants are Knuth's for MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Threads that sleep, wake, run and preempt each other on several CPUs, the idle threads among them. Odd threads belong to
/// one process.
fn busy(events: usize) -> Made {
    const CPUS: usize = 4;
    const STATES: [TaskState; 4] = [TaskState(0), TaskState(1), TaskState(2), TaskState::PREEMPTED];
    let mut made = Made::new();
    let mut random = Random(7);
    let threads: Vec<ThreadRef> =
        (0..20u32).map(|n| made.thread(500 + n, 120, &format!("thread {n}"))).collect();
    for thread in &threads {
        let pid = if thread.tid % 2 == 1 { 501 } else { thread.tid };
        made.0.processes.insert(thread.tid, pid);
    }
    let idle = ThreadRef { tid: 0, prio: 120, comm: made.name("swapper") };
    let mut running = [idle; CPUS];
    let mut asleep = vec![true; threads.len()];
    let mut now_ns = 1_000_000_000_000;
    while made.0.events.len() < events {
        now_ns += 1 + random.below(90_000);
        let at = random.below(threads.len() as u64) as usize;
        let cpu = random.below(CPUS as u64) as usize;
        let (thread, current) = (threads[at], running[cpu]);
        let runs = running.iter().any(|one| one.tid == thread.tid);
        if asleep[at] {
            made.add(now_ns, cpu as u32, current.tid, Body::Waking { thread, target_cpu: 0 });
            now_ns += random.below(3);
            made.add(now_ns, cpu as u32, current.tid, Body::Wakeup { thread, target_cpu: 0, new: false });
            asleep[at] = false;
        } else {
            let next = if runs { idle } else { thread };
            if next.tid == current.tid {
                continue;
            }
            let state = if current.tid == 0 { TaskState(0) } else { STATES[random.below(4) as usize] };
            made.switch(now_ns, cpu as u32, current, state, next);
            running[cpu] = next;
            if current.tid != 0 {
                asleep[(current.tid - 500) as usize] = !state.runnable();
            }
        }
    }
    made
}

/// How long each thread ran between the first and the last event of the trace, in nanoseconds: what a switch brings to a CPU
/// runs there until the next one.
fn running_ns(trace: &Trace) -> BTreeMap<u32, u64> {
    let mut total: BTreeMap<u32, u64> = BTreeMap::new();
    let mut on: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for event in &trace.events {
        if let Body::Switch { next, .. } = event.body
            && let Some((tid, since_ns)) = on.insert(event.cpu, (next.tid, event.time_ns))
        {
            *total.entry(tid).or_default() += event.time_ns - since_ns;
        }
    }
    let end_ns = trace.events.last().map_or(0, |event| event.time_ns);
    for (tid, since_ns) in on.into_values() {
        *total.entry(tid).or_default() += end_ns - since_ns;
    }
    total.retain(|&tid, &mut ns| tid != 0 && ns > 0);
    total
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn each_threads_running_time_is_ours_to_the_nanosecond() {
    let made = busy(60_000);
    let expected: Vec<Json> = running_ns(&made.0).into_iter().map(|total| json!(total)).collect();
    assert_eq!(expected.len(), 20, "all threads run");
    let total = |table: &str, condition: &str| {
        format!(
            "select tid, sum(iif(dur < 0, trace_end() - {table}.ts, dur)) from {table} join thread using (utid) \
             where tid != 0 {condition} group by tid having sum(dur) != 0 order by tid"
        )
    };
    let states = total("thread_state", "and state = 'Running'");
    let sched = total("sched", "");
    let counts = "select name, count(*) from ftrace_event group by name order by name";
    let odd = "select count(*) from thread join process using (upid) where pid = 501";
    let rows = ask_modern("running", &made, &[], &[COMPLAINTS, &states, &sched, counts, odd]);
    assert_eq!(rows[0], json!([]));
    assert_eq!(rows[1], json!(expected));
    assert_eq!(rows[2], json!(expected));
    let count = |is: fn(&Body) -> bool| made.0.events.iter().filter(|event| is(&event.body)).count();
    let switches = count(|body| matches!(body, Body::Switch { .. }));
    let wakings = count(|body| matches!(body, Body::Waking { .. }));
    assert_eq!(
        rows[3],
        json!([["sched_switch", switches], ["sched_wakeup", wakings], ["sched_waking", wakings]])
    );
    assert_eq!(rows[4], json!([[10]]));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn what_kernels_have_recorded_arrives() {
    for fixture in crate::format::ftrace_text::fixtures::Fixture::all() {
        let mut trace = fixture.trace();
        let (machine, version) = fixture.name.split_once('-').expect("MACHINE-VERSION");
        trace.machine = machine.to_owned();
        let expected: Vec<Json> = running_ns(&trace).into_iter().map(|total| json!(total)).collect();
        assert!(!expected.is_empty(), "{}: a thread runs", fixture.name);
        let contents = Contents { trace: &trace, release: version, comms: &BTreeMap::new(), tracks: &[] };
        let running = "select tid, sum(iif(dur < 0, trace_end() - sched.ts, dur)) from sched join thread using (utid) \
                       where tid != 0 group by tid order by tid";
        let calls = "select count(*) from slice where name like 'sys_%'";
        let rows =
            ask("fixture", &contents, &[COMPLAINTS, running, "select count(*) from ftrace_event", calls]);
        assert_eq!(rows[0], json!([]), "{}", fixture.name);
        assert_eq!(rows[1], json!(expected), "{}", fixture.name);
        assert_eq!(rows[2], json!([[trace.events.len()]]), "{}", fixture.name);
        let calls = trace.events.iter().filter(|event| matches!(event.body, Body::SysEnter { .. })).count();
        assert_eq!(rows[3][0][0].as_u64().is_some_and(|slices| slices > 0), calls > 0, "{}", fixture.name);
    }
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn what_was_lost_is_said() {
    let mut made = busy(2_000);
    let (first_ns, last_ns) = (made.0.events[0].time_ns, made.0.events.last().unwrap().time_ns);
    let loss =
        |cpu, after_ns, before_ns, events| Loss { cpu, after_ns, before_ns, events, damaged: cpu == 2 };
    let middle_ns = (first_ns + last_ns) / 2;
    made.0
        .events
        .retain(|event| event.cpu != 1 || !(middle_ns..middle_ns + 5_000_000).contains(&event.time_ns));
    made.0.losses = vec![
        // What was overwritten before the recording begins is not a loss within it.
        loss(0, 0, first_ns, Some(9)),
        loss(1, middle_ns, middle_ns + 5_000_000, Some(77)),
        loss(2, last_ns - 1_000, u64::MAX, None),
    ];
    let slices = "select t.name, slice.name, slice.ts, slice.dur, display_value from slice \
                  join track t on t.id = track_id join args using (arg_set_id) order by slice.ts";
    let rows = ask_modern(
        "lost",
        &made,
        &[],
        &[
            "select name, idx, value from stats where severity = 'data_loss' and value > 0 and name like 'ftrace%'",
            slices,
        ],
    );
    assert_eq!(rows[0], json!([["ftrace_cpu_has_data_loss", 1, 1], ["ftrace_cpu_has_data_loss", 2, 1]]));
    assert_eq!(
        rows[1],
        json!([
            ["CPU 1 not recorded", "events lost", middle_ns, 5_000_000, "77"],
            ["CPU 2 not recorded", "events damaged", last_ns - 1_000, 1_000, "not counted"]
        ])
    );
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn slices_keep_their_length_wherever_they_lie() {
    let made = one_of_each();
    let slice =
        |name: &str, begin_ns, end_ns| Slice { name: name.into(), begin_ns, end_ns, ..Slice::default() };
    let linked = |name: &str, begin_ns, end_ns| Slice { flows: vec![9], ..slice(name, begin_ns, end_ns) };
    let annotated = Slice {
        annotations: vec![
            Annotation::text("behind", "hog"),
            Annotation::uint("deadline_ns", 2_500_000u32),
            Annotation { name: "priority", value: Value::Int(-3) },
        ],
        ..slice("round trip", 1_000, 1_700)
    };
    let tracks = [
        Track {
            name: "pair 0".into(),
            parent: Parent::Top,
            // Parts within the whole, one that takes no time, and one after the other without a gap.
            slices: vec![
                slice("reply", 1_500, 1_700),
                annotated,
                slice("nothing", 1_500, 1_500),
                slice("request", 1_000, 1_300),
                slice("handling", 1_300, 1_500),
                slice("round trip", 1_700, 1_800),
            ],
        },
        Track { name: "why".into(), parent: Parent::Track(0), slices: vec![slice("a", 1_000, 1_500)] },
        // Overlapping, none within the other.
        Track {
            name: "calls".into(),
            parent: Parent::Thread { pid: 100, tid: 101 },
            slices: vec![slice("x", 1_100, 1_400), slice("y", 1_200, 1_600), slice("z", 1_300, 1_700)],
        },
        Track {
            name: "server".into(),
            parent: Parent::Process(200),
            slices: vec![linked("in", 1_300, 1_500)],
        },
        Track {
            name: "client".into(),
            parent: Parent::Process(100),
            slices: vec![linked("out", 1_250, 1_280)],
        },
    ];
    let of = |track: &str| {
        format!(
            "select slice.name, slice.ts, slice.dur, depth from slice join track t on t.id = track_id \
             where t.name = '{track}' order by slice.ts, depth, slice.dur desc"
        )
    };
    let queries = [
        COMPLAINTS.to_owned(),
        of("pair 0"),
        of("why"),
        of("calls"),
        "select t.name, p.name from track t left join track p on p.id = t.parent_id where t.name in ('why', 'calls') \
         order by 1"
            .into(),
        "select key, display_value from slice join args using (arg_set_id) where slice.name = 'round trip' order by 1".into(),
        "select o.name, i.name from flow join slice o on o.id = slice_out join slice i on i.id = slice_in \
         where o.name = 'out'"
            .into(),
        "select t.name, pid, process.name from process_track t join process using (upid) where t.name in ('server', 'client') \
         order by 1"
            .into(),
        "select t.name, tid from thread_track t join thread using (utid) where t.name = 'calls'".into(),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let rows = ask_modern("slices", &made, &tracks, &queries);
    assert_eq!(rows[0], json!([]));
    assert_eq!(
        rows[1],
        json!([
            ["round trip", 1000, 700, 0],
            ["request", 1000, 300, 1],
            ["handling", 1300, 200, 1],
            ["reply", 1500, 200, 1],
            ["nothing", 1500, 0, 2],
            ["round trip", 1700, 100, 0]
        ])
    );
    assert_eq!(rows[2], json!([["a", 1000, 500, 0]]));
    assert_eq!(rows[3], json!([["x", 1100, 300, 0], ["y", 1200, 400, 0], ["z", 1300, 400, 0]]));
    assert_eq!(rows[4], json!([["calls", null], ["calls", null], ["calls", null], ["why", "pair 0"]]));
    for fact in [["debug.behind", "hog"], ["debug.deadline_ns", "2500000"], ["debug.priority", "-3"]] {
        assert!(rows[5].as_array().expect("rows").contains(&json!(fact)), "{fact:?}: {}", rows[5]);
    }
    assert_eq!(rows[6], json!([["out", "in"]]));
    assert_eq!(rows[7], json!([["client", 100, null], ["server", 200, "the server"]]));
    assert_eq!(rows[8], json!([["calls", 101], ["calls", 101], ["calls", 101]]));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn an_explained_call_arrives_with_its_legs_and_parts() {
    use crate::format::explanation_tracks::{tests, tracks};
    let made = one_of_each();
    let miss = tests::miss(1_300, 1_500);
    let explained = tests::explained(&miss, &made.0);
    let parts = &explained.explanation.parts;
    assert!(parts.len() > 1, "{parts:?}");
    let parts: Vec<Json> = parts.iter().map(|part| json!([part.begin_ns, part.duration_ns()])).collect();
    let expected = [
        (COMPLAINTS, json!([])),
        (
            "select slice.name, slice.ts, slice.dur from slice join track t on t.id = track_id \
             where t.name = 'hwbinder, pair P0' order by slice.ts, slice.dur desc",
            json!([
                ["slow call 3", 1000, 700],
                ["request", 1000, 300],
                ["handling", 1300, 200],
                ["reply", 1500, 200],
                ["round trip", 1700, 100],
                ["request", 1700, 20],
                ["handling", 1720, 30],
                ["reply", 1750, 50]
            ]),
        ),
        (
            "select slice.ts, slice.dur from slice join track t on t.id = track_id \
             where t.name = 'explanation' and depth = 0 order by slice.ts",
            json!(parts),
        ),
        (
            "select tid, slice.ts, slice.dur from slice join thread_track t on t.id = track_id \
             join thread using (utid) where t.name = 'slow calls' order by slice.ts",
            json!([[101, 1000, 700], [201, 1300, 200]]),
        ),
    ];
    let queries: Vec<&str> = expected.iter().map(|(query, _)| *query).collect();
    let rows = ask_modern("explained", &made, &tracks(&[explained], &[tests::calls(&miss)]), &queries);
    for ((query, expected), rows) in expected.iter().zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn the_text_form_is_read_too() {
    // A microsecond apart, which is as fine as the text is.
    let mut made = one_of_each();
    made.0.events.iter_mut().for_each(|event| event.time_ns *= 1000);
    // Perfetto takes words of one's own for a damaged mark, also where the kernel wrote the text.
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
        // It reads times as floating-point numbers.
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

#[test]
fn a_slice_that_ends_before_it_begins_is_refused() {
    let made = Made::new();
    let slices = vec![Slice { name: "odd".into(), begin_ns: 5, end_ns: 4, ..Slice::default() }];
    let tracks = [Track { name: "track".into(), parent: Parent::Top, slices }];
    let contents = Contents { trace: &made.0, release: "", comms: &BTreeMap::new(), tracks: &tracks };
    let error = write(&contents, &mut Vec::new()).expect_err("a slice of negative length");
    assert_eq!(error.to_string(), "slice 'odd' of track 'track' ends before it begins");
}
