//! The kernel's text, and systrace's page.

use roundtrip_tracefs::{Body, EventContext, TaskState};

use super::{contexts, groups, read};

const SWITCH: &str = "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app \
                      next_pid=10 next_prio=120";

/// A line of an event of the thread `app`.
fn line(cpu: u32, us: u32, event: &str) -> String {
    format!("             app-10    (   10) [{cpu:03}] .... 100.{us:06}: {event}\n")
}

fn with_header(header: &str, lines: &[String]) -> Vec<u8> {
    format!("# tracer: nop\n#\n{header}#\n{}", lines.concat()).into_bytes()
}

/// A recording of which the kernel's header says that nothing was overwritten.
fn whole(lines: &[String]) -> Vec<u8> {
    let count = lines.len();
    with_header(&format!("# entries-in-buffer/entries-written: {count}/{count}   #P:2\n"), lines)
}

#[test]
fn a_cpu_that_is_idle_at_first_is_complete_if_nothing_was_overwritten() {
    let lines = [line(0, 100, SWITCH), line(1, 900, SWITCH)];
    let from = |bytes: &[u8]| read(bytes).trace.complete_from_ns.get(&1).copied();
    assert_eq!(from(&whole(&lines)), Some(100_000_100_000));
    let overwritten = "# entries-in-buffer/entries-written: 2/5   #P:2\n";
    assert_eq!(from(&with_header(overwritten, &lines)), Some(100_000_900_000));
    assert_eq!(from(&with_header("", &lines)), Some(100_000_900_000), "nothing says so");
    let lost = [lines[0].clone(), "CPU:1 [LOST 3 EVENTS]\n".to_owned(), lines[1].clone()];
    assert_eq!(from(&whole(&lost)), Some(100_000_900_000), "events were lost before");
}

#[test]
fn the_latency_format_the_pipe_and_perf_give_the_same_events() {
    let wakes = "comm=app pid=10 prio=120 target_cpu=001";
    let wait = SWITCH.strip_prefix("sched_switch: ").expect("it is one");
    let usual = [line(1, 100, &format!("sched_waking: {wakes}")), line(1, 900, SWITCH)];
    let latency = format!(
        "# latency: 0 us, #2/2, CPU#0 | (M:PREEMPT VP:0, KP:0, SP:0 HP:0 #P:2)\n#    -----------------\n   \
         app-10        1..... 100000100us+: sched_waking: {wakes}\n     app-10        1..... 100000900us : {SWITCH}\n => \
         schedule\n"
    );
    let verbose = format!(
        "# latency: 0 us, #2/2, CPU#0 | (M:PREEMPT VP:0, KP:0, SP:0 HP:0 #P:2)\n             app      10   1 0 \
         00000000 00000000 [05f5e164] 17.001ms (+0.800ms): sched_waking: {wakes}\n             app      10   1 4 \
         00000000 00000001 [05f5e484] 17.801ms (+0.000ms): {SWITCH}\n"
    );
    let perf = format!(
        "             app    10/10    [001]   100.000100:          1 sched:sched_waking: {wakes}\n\
         \tffffffff8110a0b1 try_to_wake_up+0x21 ([kernel.kallsyms])\n\n\
         app    10/10    [001]   100.000900:          1 sched:sched_switch: {wait}\n"
    );
    let bodies = |bytes: &[u8]| -> Vec<(u64, u32, String)> {
        let foreign = read(bytes);
        assert_eq!(foreign.damage, None);
        let events = foreign.trace.events.iter();
        events.map(|event| (event.time_ns, event.cpu, format!("{:?}", event.body))).collect()
    };
    let expected = bodies(&whole(&usual));
    assert_eq!(expected.len(), 2);
    // The pipe has no header.
    assert_eq!(bodies(usual.concat().as_bytes()), expected, "trace_pipe");
    assert_eq!(bodies(latency.as_bytes()), expected, "latency format");
    assert_eq!(bodies(verbose.as_bytes()), expected, "verbose latency format");
    // perf prints no flags.
    let mut without_flags = expected;
    without_flags[0].2 = without_flags[0].2.replace("context: Thread", "context: Unknown");
    assert_eq!(bodies(perf.as_bytes()), without_flags, "perf script");
}

#[test]
fn what_perf_lost_is_a_gap_of_that_cpu() {
    let waking = "sched:sched_waking: comm=app pid=10 prio=120 target_cpu=001";
    let event = |cpu, us| format!("   app    10 [{cpu:03}]   100.{us:06}: {waking}\n");
    let lost = "   perf    7 [001]   100.000500: PERF_RECORD_LOST lost 41\n";
    let others = "   perf    7 [001]     0.000000: PERF_RECORD_FORK(7:7):(1:1)\n   app 10 [001] 100.000050: \
                  PERF_RECORD_COMM exec: app:10/10\n";
    let text = [others, &event(0, 100), &event(1, 200), lost, &event(1, 900), &event(0, 950)].concat();
    let foreign = read(text.as_bytes());
    assert_eq!((foreign.damage.as_deref(), foreign.lost_events, foreign.trace.event_count()), (None, 41, 4));
    let [loss] = foreign.trace.losses.as_slice() else { panic!("{:?}", foreign.trace.losses) };
    assert_eq!((loss.cpu, loss.events), (1, Some(41)));
    assert_eq!((loss.after_ns, loss.before_ns), (100_000_200_000, 100_000_900_000));
    // Without that option of perf's, nothing says whether events were lost.
    let says =
        |text: &str| read(text.as_bytes()).notes.iter().any(|note| note.contains("--show-lost-events"));
    assert!(!says(&text) && says(&text.replace(lost, "")));
}

#[test]
fn the_flags_of_a_line_say_whether_an_interrupt_woke_a_thread() {
    let waking = "sched_waking: comm=app pid=10 prio=120 target_cpu=001";
    let flagged = |flags: &str| format!("<idle>-0 [000] {flags} 100.000100: {waking}\n");
    let flags = ["d..2", "d.s3", "d.h4", "dNH.", "d..2.", "dnh3. +0.5", ""];
    let lines: Vec<String> = flags.into_iter().map(flagged).collect();
    let (thread, softirq, interrupt) = (EventContext::Thread, EventContext::Softirq, EventContext::Interrupt);
    let expected = [thread, softirq, interrupt, interrupt, thread, interrupt, EventContext::Unknown];
    assert_eq!(contexts(&read(&whole(&lines))), expected);
}

#[test]
fn events_without_a_decoder_and_names_with_dots_are_no_damage() {
    let mut lines = vec![line(0, 1, "tracing_mark_write.llvm.8232844412049014381: B|10|call")];
    for us in 2..60 {
        lines.push(line(0, us, "binder_transaction_alloc_buf: transaction=1 data_size=88 offsets_size=0"));
        lines.push(line(1, us, "a.b-c: anything"));
        lines.push(line(1, us, "binder_return: something=else"));
    }
    let foreign = read(&whole(&lines));
    assert_eq!(foreign.damage, None);
    assert!(matches!(foreign.trace.events[..], [roundtrip_tracefs::Event { body: Body::Print { .. }, .. }]));
    assert!(foreign.trace.has("binder/binder_transaction_alloc_buf"));
    assert!(!foreign.trace.has("binder/binder_return"), "nothing of it was understood");
    assert!(foreign.notes.iter().any(|note| note.contains("binder_return (58)")), "{:?}", foreign.notes);
}

#[test]
fn a_file_is_damaged_from_the_first_line_that_is_none_of_the_kernels() {
    let garbage = (0..30).map(|_| "\u{1}garbage\n".to_owned());
    let lines: Vec<String> = [line(0, 1, SWITCH)].into_iter().chain(garbage).collect();
    let damage = read(&whole(&lines)).damage.expect("30 lines are garbage");
    assert!(damage.contains("30 lines") && damage.ends_with("line 6"), "{damage}");
}

#[test]
fn a_state_of_another_kernel_does_not_hide_the_switch() {
    let state = |letters: &str| {
        let switch = SWITCH.replace("prev_state=R ", &format!("prev_state={letters} ")) + " extra=1";
        let foreign = read(&whole(&[line(0, 1, &switch)]));
        let Body::Switch { prev_state, next, .. } = foreign.trace.events[0].body else {
            panic!("{letters}: {:?}", foreign.trace.events)
        };
        assert_eq!(next.tid, 10);
        prev_state
    };
    assert_eq!((state("S|0x800"), state("D|K")), (TaskState(1), TaskState(2)));
    assert_eq!((state("R"), state("R+")), (TaskState(0), TaskState::PREEMPTED));
    for unknown in ["p", "K", "0x100", "0x800"] {
        assert_eq!(state(unknown), TaskState::UNKNOWN, "{unknown}");
    }
    assert!(!TaskState::UNKNOWN.runnable() && TaskState::UNKNOWN.off().is_none());
}

#[test]
fn a_systrace_pages_list_of_processes_names_threads_and_their_processes() {
    let page = [
        "<script class=\"trace-data\">\nPROCESS DUMP\n",
        "USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM\n",
        "u0_a7           10     1   32904   4604 0      0 S com.example.app             ample.app\n",
        "root           582     2       0      0 kjournald2 0 S [jbd2/sda16-8]          5\n",
        "USER           PID   TID CMD\n",
        "u0_a7           10    11 Binder:10_1\n",
        "</script>\n<script class=\"trace-data\">\n",
    ];
    let text = page.concat() + &String::from_utf8(whole(&[line(0, 1, SWITCH)])).unwrap() + "</script>\n";
    let foreign = read(text.as_bytes());
    assert_eq!(foreign.damage, None);
    let name = |tid| foreign.trace.comms.get(&tid).map(String::as_str);
    assert_eq!((name(10), name(11)), (Some("com.example.app"), Some("Binder:10_1")));
    assert_eq!(name(582), Some("jbd2/sda16-8"));
    assert_eq!(foreign.trace.processes.get(&11), Some(&10));
}

/// 30 calls between two CPUs; the clock of CPU 1 is `late_us` behind.
fn calls(late_us: u32) -> Vec<String> {
    let mut lines = Vec::new();
    for call in 0..30 {
        let (us, id) = (1000 * call + 500, 2 * call + 1);
        let sent = |id: u32, proc: u32, reply: u32| {
            format!(
                "binder_transaction: transaction={id} dest_node=1 dest_proc={proc} dest_thread=0 reply={reply} \
                 flags=0x0 code=0x1"
            )
        };
        let received = |id: u32| format!("binder_transaction_received: transaction={id}");
        lines.extend([
            line(0, us, &sent(id, 20, 0)),
            line(1, us + 30 - late_us, &received(id)),
            line(1, us + 130 - late_us, &sent(id + 1, 10, 1)),
            line(0, us + 150, &received(id + 1)),
        ]);
    }
    lines
}

#[test]
fn clocks_that_differ_between_cpus_are_named_and_mended() {
    let order = |late_us| {
        let foreign = read(&whole(&calls(late_us)));
        let cpus: Vec<u32> = foreign.trace.events.iter().map(|event| event.cpu).collect();
        let note = foreign.notes.iter().find(|note| note.contains("clocks")).cloned();
        (cpus, note)
    };
    let (right, note) = order(0);
    assert_eq!(note, None);
    let (mended, note) = order(60);
    assert_eq!(mended, right);
    let note = note.expect("the clocks differ");
    assert!(note.contains("CPU 1") && note.contains("moved by 55.0 us"), "{note}");
}

#[test]
fn moves_between_control_groups_and_the_freezer_are_kept_with_their_whole_path() {
    let long = "x".repeat(256);
    let lines = [
        line(0, 1, SWITCH),
        line(
            0,
            2,
            "cgroup_attach_task: dst_root=3 dst_id=3 dst_level=1 dst_path=/background pid=20 comm=Task #192",
        ),
        // Before Linux 4.20.
        line(0, 3, "cgroup_transfer_tasks: dst_root=3 dst_id=3 cname=background pid=21 comm=app"),
        line(0, 4, "cgroup_freeze: root=0 id=77 level=2 path=/uid_10123/pid_20"),
        line(0, 5, "cgroup_notify_frozen: root=0 id=77 level=2 path=/uid_10123/pid_20 val=1"),
        line(0, 6, "cgroup_unfreeze: root=0 id=77 level=2 path=/uid_10123/pid_20"),
        line(0, 7, &format!("cgroup_freeze: root=0 id=78 level=2 path=/{long}")),
    ];
    let foreign = read(&whole(&lines));
    assert_eq!(foreign.damage, None);
    let of = |path: &str, number| (path.to_owned(), number);
    let process = "/uid_10123/pid_20";
    assert_eq!(
        groups(&foreign),
        [of("/background", 20), of("background", 21), of(process, 0), of(process, 1), of(process, 0)]
    );
    assert!(foreign.trace.has("cgroup/cgroup_freeze"));
    assert!(foreign.notes.iter().any(|note| note.contains("cgroup_freeze (1)")), "{:?}", foreign.notes);
}
