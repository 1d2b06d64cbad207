//! Control groups: frozen threads, and threads that were moved to other CPUs.

use roundtrip_layers::reasons::Stop;
use roundtrip_layers::storage::{Devices, Layer, Write, Writes};
use roundtrip_layers::{Explanation, Flag, Kind, State, What};
use roundtrip_tracefs::{Body, EventContext, Formats, Others, TaskState};

use super::{CLIENT, HOG, HOLDER, SERVER, SLEEPS, Tape, blamed};

/// The kernel's formats, shortened: each text has a fixed size.
const EVENTS: [(&str, &str); 4] = [
    (
        "cgroup_attach_task",
        "ID: 1\nfield:int dst_root; offset:8; size:4; signed:1;\nfield:int pid; offset:12; size:4; \
         signed:1;\nfield:char dst_path[32]; offset:16; size:32; signed:0;\n",
    ),
    (
        "cgroup_freeze",
        "ID: 2\nfield:int root; offset:8; size:4; signed:1;\nfield:int val; offset:12; size:4; \
         signed:1;\nfield:char path[32]; offset:16; size:32; signed:0;\n",
    ),
    (
        "cgroup_unfreeze",
        "ID: 3\nfield:int root; offset:8; size:4; signed:1;\nfield:int val; offset:12; size:4; \
         signed:1;\nfield:char path[32]; offset:16; size:32; signed:0;\n",
    ),
    (
        "cgroup_notify_frozen",
        "ID: 4\nfield:int root; offset:8; size:4; signed:1;\nfield:int val; offset:12; size:4; \
         signed:1;\nfield:char path[32]; offset:16; size:32; signed:0;\n",
    ),
];

/// A recording that has these events.
fn with_groups() -> Tape {
    let mut tape = Tape::new();
    let events = EVENTS.map(|(name, text)| ("cgroup", name, text));
    tape.trace.others = Others::new(Formats::of_events(events).unwrap());
    tape.trace.recorded.extend(EVENTS.map(|(name, _)| format!("cgroup/{name}")));
    tape
}

/// An event of a group in hierarchy `root`. `number` is the moved thread, or whether it is frozen.
fn group(tape: &mut Tape, us: u64, cpu: u32, event: &str, (root, path): (u32, &str), number: u32) {
    let id = 1 + EVENTS.iter().position(|(name, _)| *name == event).unwrap();
    let mut record = (id as u64).to_le_bytes().to_vec();
    record.extend([root, number].map(u32::to_le_bytes).concat());
    record.extend(path.bytes().chain([0; 32]).take(32));
    let (at, length) = tape.trace.others.add(&record).unwrap();
    let event = tape.trace.names.intern(&format!("cgroup/{event}"));
    tape.event(us, cpu, Body::Other { event, at, length });
}

/// A call whose server is frozen by another thread at 107, and thawed at 3,000.
fn frozen(path: &str, events: [bool; 2]) -> (Tape, Explanation) {
    let mut tape = with_groups();
    tape.request();
    tape.switch(106, 0, TaskState(0), HOLDER);
    if events[0] {
        group(&mut tape, 107, 0, "cgroup_freeze", (0, path), 0);
    }
    tape.switch(108, 1, SLEEPS, 0);
    if events[1] {
        group(&mut tape, 3_000, 0, "cgroup_unfreeze", (0, path), 0);
        // The group of process 3 does not contain the server.
        let thawed_us = if path.ends_with("pid_3") { 3_000 } else { 3_002 };
        group(&mut tape, thawed_us, 0, "cgroup_notify_frozen", (0, path), 0);
    }
    tape.wake_in(3_001, 0, SERVER, 1, EventContext::Thread);
    tape.trace.events.sort_by_key(|event| event.time_ns);
    tape.switch(3_004, 1, TaskState(0), SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    (tape, explanation)
}

fn stops(explanation: &Explanation) -> Vec<(u64, Stop, Option<u32>)> {
    let of = |part: &roundtrip_layers::Part| match &part.state {
        State::Stopped { how, by, .. } => {
            Some((part.duration_ns() / 1000, *how, by.as_ref().map(|by| by.tid)))
        }
        _ => None,
    };
    explanation.parts.iter().filter_map(of).collect()
}

#[test]
fn a_server_that_was_frozen_is_a_cause_with_who_froze_and_who_thawed_it() {
    // Android's group of process 2, to which the server belongs.
    let (_, explanation) = frozen("/uid_10001/pid_2", [true; 2]);
    assert_eq!(blamed(&explanation), (Kind::Stopped, Some(HOLDER)));
    assert_eq!(explanation.main().unwrap().what, Some(What::Frozen("server".into())));
    assert_eq!(stops(&explanation), [(2_893, Stop::Frozen, Some(HOLDER))]);
    // Another process's group, and no event of any group.
    for (path, events) in [("/uid_10001/pid_3", [true; 2]), ("/uid_10001/pid_2", [false; 2])] {
        let (_, explanation) = frozen(path, events);
        assert_eq!(blamed(&explanation), (Kind::WaitedFor, Some(HOLDER)), "{path}");
        assert_eq!(stops(&explanation), []);
    }
}

#[test]
fn a_server_that_was_frozen_before_the_recording_is_known_by_its_thaw() {
    let (_, explanation) = frozen("/uid_10001/pid_2", [false, true]);
    assert_eq!(stops(&explanation), [(2_893, Stop::Frozen, None)]);
    assert_eq!(blamed(&explanation), (Kind::Stopped, Some(HOLDER)));
}

#[test]
fn a_thread_that_is_woken_while_its_group_is_thawed_was_frozen_with_it() {
    // No event shows which threads are in the group, except for who is woken by whom, and when.
    let woken = |by_thaw: bool, context| {
        let mut tape = with_groups();
        tape.request();
        tape.switch(106, 0, TaskState(0), HOLDER);
        group(&mut tape, 107, 0, "cgroup_freeze", (0, "/apps"), 0);
        tape.switch(108, 1, SLEEPS, 0);
        group(&mut tape, 3_000, 0, "cgroup_unfreeze", (0, "/apps"), 0);
        if !by_thaw {
            group(&mut tape, 3_000, 0, "cgroup_notify_frozen", (0, "/apps"), 0);
        }
        tape.wake_in(3_001, 0, SERVER, 1, context);
        group(&mut tape, 3_002, 0, "cgroup_notify_frozen", (0, "/apps"), 0);
        tape.switch(3_004, 1, TaskState(0), SERVER);
        tape.reply(3_010);
        stops(&tape.explain(3_016))
    };
    let frozen = [(2_893, Stop::Frozen, Some(HOLDER))];
    assert_eq!(woken(true, EventContext::Thread), frozen);
    assert_eq!(woken(false, EventContext::Thread), []);
    assert_eq!(woken(true, EventContext::Interrupt), []);
}

#[test]
fn a_process_is_in_the_group_that_it_was_moved_to_in_the_same_hierarchy() {
    let moved_to = |root| {
        let mut tape = with_groups();
        group(&mut tape, 4, 0, "cgroup_attach_task", (root, "/background"), 2);
        tape.request();
        tape.switch(106, 0, TaskState(0), HOLDER);
        group(&mut tape, 107, 0, "cgroup_freeze", (7, "/background"), 0);
        tape.switch(108, 1, SLEEPS, 0);
        tape.wake_in(3_001, 0, SERVER, 1, EventContext::Thread);
        tape.switch(3_004, 1, TaskState(0), SERVER);
        tape.reply(3_010);
        stops(&tape.explain(3_016)).len()
    };
    assert_eq!((moved_to(7), moved_to(3)), (1, 0));
}

#[test]
fn a_wait_that_ends_before_the_thread_reaches_the_freezer_is_no_freeze() {
    let mut tape = with_groups();
    tape.request();
    // The server waits for a device and has the signal already. Only then does it freeze.
    tape.switch(106, 0, TaskState(0), HOLDER);
    tape.switch(108, 1, super::WAITS, 0);
    group(&mut tape, 109, 0, "cgroup_freeze", (0, "/uid_10001/pid_2"), 0);
    tape.wake_in(2_000, 0, SERVER, 1, EventContext::Thread);
    tape.switch(2_004, 1, TaskState(0), SERVER);
    tape.switch(2_010, 1, super::WAITS, 0);
    tape.wake_in(2_900, 0, SERVER, 1, EventContext::Thread);
    tape.switch(2_904, 1, TaskState(0), SERVER);
    tape.reply(2_910);
    assert_eq!(stops(&tape.explain(2_916)), []);
}

#[test]
fn a_write_whose_thread_is_frozen_is_held_and_stopped() {
    // From 3 to 101, it waits for another thread, also if it was frozen before the recording.
    for events in [[true, true], [false, true]] {
        let (tape, _) = frozen("/uid_10001/pid_2", events);
        let writes = Writes::new(&tape.trace, Devices::default());
        let layers = writes.layers(Write { start_ns: 50_000, end_ns: 3_008_000, tid: SERVER });
        assert_eq!(layers.total_ns(Layer::Held), 2_893_000);
        let reasons = layers.summed();
        let main = reasons.known().next().unwrap();
        let named = main.processes[0].process.as_ref().unwrap().name.clone();
        assert_eq!((main.kind.name(), main.sum_ns, named.as_str()), ("stopped", 2_893_000, "holder"));
    }
}

/// A call whose server waits for a CPU behind a hog from 105 to 3,000. A thread moves the server at
/// `moved_us`, and the client's process to a group that says nothing of CPUs.
fn moved(moved_us: u64, paths: &[&str]) -> Vec<Flag> {
    let mut tape = with_groups();
    let move_at = |tape: &mut Tape, us| {
        if us == moved_us {
            for (root, path) in (3..).zip(paths) {
                group(tape, us, 0, "cgroup_attach_task", (root, path), SERVER);
            }
            group(tape, us, 0, "cgroup_attach_task", (0, "/uid_10001/pid_1"), 1);
        }
    };
    move_at(&mut tape, 5);
    tape.wake(101, 0, SERVER, 1);
    tape.switch(102, 0, SLEEPS, 0);
    tape.switch(104, 1, TaskState(0), HOG);
    tape.switch(110, 0, TaskState(0), HOLDER);
    move_at(&mut tape, 200);
    tape.switch(3_000, 1, SLEEPS, SERVER);
    tape.reply(3_010);
    let explanation = tape.explain(3_016);
    assert_eq!(blamed(&explanation), (Kind::Competitor, Some(HOG)));
    explanation.flags
}

#[test]
fn a_move_to_another_control_group_is_said_where_a_thread_then_waited() {
    let said = |flags: &[Flag]| -> Vec<(u32, String, u32, i64)> {
        let of = |flag: &Flag| match flag {
            Flag::Moved { thread, group, by, after_ns } => {
                Some((thread.tid, group.clone(), by.tid, after_ns / 1000))
            }
            _ => None,
        };
        flags.iter().filter_map(of).collect()
    };
    let both = ["/background", "/bg"];
    let each = |by, after_us| {
        both.iter().rev().map(|path| (SERVER, (*path).to_owned(), by, after_us)).collect::<Vec<_>>()
    };
    assert_eq!(said(&moved(200, &both)), each(HOLDER, 100));
    assert_eq!(said(&moved(5, &both)), each(CLIENT, -95));
    assert_eq!(said(&moved(9, &both)), []);
}

#[test]
fn a_move_that_nothing_waited_after_is_not_said() {
    let mut tape = with_groups();
    group(&mut tape, 5, 0, "cgroup_attach_task", (3, "/background"), SERVER);
    tape.request();
    tape.reply(3_010);
    assert_eq!(tape.explain(3_016).flags, [], "it worked all the time, and was moved before");
}
