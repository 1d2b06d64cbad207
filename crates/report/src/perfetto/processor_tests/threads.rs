//! Tests of thread states in the trace processor: for artificial traces, for fixtures, and with
//! lost events.

use super::*;

/// Reproducible pseudorandom numbers (with Knuth's constants for MMIX).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Threads that sleep, wake, run and preempt each other on several CPUs, including idle threads.
/// Odd threads belong to one process.
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
            made.add(
                now_ns,
                cpu as u32,
                current.tid,
                Body::Waking { thread, target_cpu: 0, context: roundtrip_tracefs::EventContext::Unknown },
            );
            now_ns += random.below(3);
            made.add(
                now_ns,
                cpu as u32,
                current.tid,
                Body::Wakeup {
                    thread,
                    target_cpu: 0,
                    new: false,
                    context: roundtrip_tracefs::EventContext::Unknown,
                },
            );
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

/// How long each thread ran between the first and the last event of the trace, in nanoseconds:
/// after a switch, the new thread runs until the next switch on that CPU.
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
fn each_threads_running_time_equals_ours_to_the_nanosecond() {
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
fn recordings_of_real_kernels_are_read() {
    for fixture in crate::ftrace_text::fixtures::Fixture::all() {
        let mut trace = fixture.trace();
        let (machine, version) = fixture.name.split_once('-').expect("MACHINE-VERSION");
        trace.machine = machine.to_owned();
        let expected: Vec<Json> = running_ns(&trace).into_iter().map(|total| json!(total)).collect();
        assert!(!expected.is_empty(), "{}: a thread runs", fixture.name);
        let contents = Contents { trace: &trace, release: version, tracks: &[] };
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
fn lost_events_are_reported() {
    let mut made = busy(2_000);
    let (first_ns, last_ns) = (made.0.events[0].time_ns, made.0.events.last().unwrap().time_ns);
    let loss =
        |cpu, after_ns, before_ns, events| Loss { cpu, after_ns, before_ns, events, damaged: cpu == 2 };
    let middle_ns = (first_ns + last_ns) / 2;
    made.0
        .events
        .retain(|event| event.cpu != 1 || !(middle_ns..middle_ns + 5_000_000).contains(&event.time_ns));
    made.0.losses = vec![
        // Events that were overwritten before the start of the recording are not a loss within it.
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
