//! Perfetto's form.

use roundtrip_tracefs::EventContext;

use super::{contexts, groups, read};

/// A field with a number, or with bytes.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// An event of thread 10; `fields` are its flags and its message.
fn event(time_ns: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(2, &[number(1, time_ns), number(2, 10), fields.concat()].concat())
}

fn idle(time_ns: u64) -> Vec<u8> {
    event(time_ns, &[bytes(13, &[number(1, 1), number(2, 0)].concat())])
}

/// An event that has no decoder (rss_stat).
fn other(time_ns: u64) -> Vec<u8> {
    event(time_ns, &[bytes(313, &number(1, 1))])
}

fn waking(time_ns: u64, flags: Option<u64>) -> Vec<u8> {
    let woken = [bytes(1, b"app"), number(2, 20), number(3, 120), number(5, 0)].concat();
    event(time_ns, &[flags.map_or_else(Vec::new, |flags| number(5, flags)), bytes(20, &woken)])
}

/// A packet with a bundle of a CPU's events.
fn bundle(cpu: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(1, &bytes(1, &[number(1, cpu), parts.concat()].concat()))
}

#[test]
fn an_event_without_a_decoder_at_a_bundles_end_is_no_gap() {
    let trace = |field, ns| {
        let first = bundle(0, &[idle(100), other(200)]);
        read(&[first, bundle(0, &[number(field, ns), idle(300)])].concat())
    };
    assert_eq!(trace(10, 200).trace.losses, []);
    assert_eq!(trace(10, 250).trace.losses.len(), 1, "an event that was written is missing");
    // Up to version 46, Perfetto counted events that it read and did not write.
    assert_eq!(trace(9, 250).trace.losses, []);
}

#[test]
fn a_cpu_without_an_earlier_bundle_is_complete_from_the_start() {
    let trace = |parts: &[Vec<u8>]| {
        let second = [parts.concat(), idle(900)].concat();
        read(&[bundle(0, &[number(10, 0), idle(100)]), bundle(1, &[second])].concat())
    };
    let from = |parts: &[Vec<u8>]| trace(parts).trace.complete_from_ns.get(&1).copied();
    assert_eq!(from(&[number(10, 0)]), Some(100));
    assert_eq!(from(&[number(9, 0)]), Some(100));
    assert_eq!(from(&[number(10, 700)]), Some(700));
    assert_eq!(from(&[]), Some(900), "nothing says so");
    assert_eq!(from(&[number(10, 0), number(3, 1)]), Some(900), "events were lost");
}

#[test]
fn common_flags_say_whether_an_interrupt_woke_a_thread() {
    let flags = [Some(0), Some(1), Some(0x10), Some(0x19), None];
    let events: Vec<Vec<u8>> = (100..).zip(flags).map(|(ns, flags)| waking(ns, flags)).collect();
    let (thread, interrupt) = (EventContext::Thread, EventContext::Interrupt);
    let expected = [thread, thread, EventContext::Softirq, interrupt, EventContext::Unknown];
    assert_eq!(contexts(&read(&bundle(0, &events))), expected);

    // Wakings as columns, after a switch that shows the thread.
    let packed = |field, values: &[u64]| {
        let all: Vec<u8> = values.iter().flat_map(|&value| varint(value)).collect();
        bytes(field, &all)
    };
    let switch = [(1, 100), (2, 0), (3, 10), (4, 120), (6, 0)].map(|(field, value)| packed(field, &[value]));
    let columns = [(7, [200, 1]), (8, [20, 20]), (9, [0, 0]), (10, [120, 120]), (11, [0, 0]), (12, [8, 0])];
    let wakings = columns.map(|(field, values)| packed(field, &values));
    let compact = bytes(4, &[bytes(5, b"app"), switch.concat(), wakings.concat()].concat());
    assert_eq!(contexts(&read(&bundle(0, &[compact]))), [interrupt, thread]);
}

#[test]
fn the_process_tree_names_threads_and_kernel_threads_as_a_whole() {
    let process = |pid, parent, line: &str| {
        bytes(1, &[number(1, pid), number(2, parent), bytes(3, line.as_bytes())].concat())
    };
    let tree = [
        process(10, 1, "/system/bin/app_process64 -Xzygote"),
        process(20, 1, "jbd2/sda16-8"),
        process(30, 2, "kworker/u16:3-events"),
        bytes(2, &[number(1, 11), bytes(2, b"Binder:10_1"), number(3, 10)].concat()),
    ];
    let packet = bytes(1, &bytes(2, &tree.concat()));
    let foreign = read(&[bundle(0, &[idle(100)]), packet].concat());
    let name = |tid| foreign.trace.comms.get(&tid).map(String::as_str);
    assert_eq!((name(10), name(11)), (Some("app_process64"), Some("Binder:10_1")));
    assert_eq!((name(20), name(30)), (Some("jbd2/sda16-8"), Some("kworker/u16:3-events")));
    assert_eq!(foreign.trace.processes.get(&11), Some(&10));
}

#[test]
fn moves_between_control_groups_and_the_freezer_are_kept() {
    let attach = [number(1, 3), number(3, 20), bytes(4, b"app"), bytes(7, b"/background")].concat();
    let older = [number(1, 3), number(3, 21), bytes(4, b"app"), bytes(5, b"background")].concat();
    // Perfetto has no message for the freezer.
    let text = |name: &[u8], value: &[u8]| bytes(2, &[bytes(1, name), bytes(3, value)].concat());
    let int = |name: &[u8], value| bytes(2, &[bytes(1, name), number(4, value)].concat());
    let path = text(b"path", b"/uid_10123/pid_20");
    let freeze = [bytes(1, b"cgroup_freeze"), int(b"root", 0), path.clone()].concat();
    let notify = [bytes(1, b"cgroup_notify_frozen"), int(b"root", 0), path, int(b"val", 1)].concat();
    let events = [(67, attach), (71, older), (327, freeze), (327, notify)];
    let events: Vec<Vec<u8>> =
        (100..).zip(events).map(|(ns, (field, message))| event(ns, &[bytes(field, &message)])).collect();
    let foreign = read(&bundle(0, &events));
    let of = |path: &str, number| (path.to_owned(), number);
    let process = "/uid_10123/pid_20";
    assert_eq!(
        groups(&foreign),
        [of("/background", 20), of("background", 21), of(process, 0), of(process, 1)]
    );
    assert!(foreign.trace.has("cgroup/cgroup_freeze"));
}
