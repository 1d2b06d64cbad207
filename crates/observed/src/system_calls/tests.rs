//! Tests the matcher with events in the order in which the kernel emits them.

use super::*;

const WRITE: i64 = 1;
const CLONE: i64 = 56;
const EXIT_GROUP: i64 = 231;
const SIGRETURN: i64 = 15;

/// Feeds a matcher with events of threads, ten nanoseconds apart, and collects its calls.
fn returned(most: usize, events: &[(u32, Body)]) -> (Vec<Returned>, Unmatched) {
    let mut matcher = Matcher::new(most);
    let events = (1..).zip(events);
    let events = events.map(|(at, &(tid, body))| Event { time_ns: 10 * at, cpu: 0, tid, body });
    let calls = events.filter_map(|event| matcher.add(&event)).collect();
    (calls, matcher.unmatched())
}

fn enter(tid: u32, number: i64) -> (u32, Body) {
    (tid, Body::SysEnter { number, first: 0, third: 0, sixth: 0 })
}

fn exit(tid: u32, number: i64, result: i64) -> (u32, Body) {
    (tid, Body::SysExit { number, result })
}

#[test]
fn a_call_lasts_from_its_entry_to_its_return_on_the_same_thread() {
    let (calls, unmatched) =
        returned(8, &[enter(1, WRITE), enter(2, WRITE), exit(1, WRITE, 5), exit(2, WRITE, -28)]);
    let [one, two] = calls[..] else { panic!("{calls:?}") };
    assert_eq!((one.tid, one.latency_ns, one.failed()), (1, 20, false));
    assert_eq!((two.tid, two.latency_ns, two.failed()), (2, 20, true));
    assert_eq!(unmatched, Unmatched::default());
}

#[test]
fn what_a_new_thread_returns_from_and_what_never_returns_are_no_calls() {
    let (calls, unmatched) = returned(
        8,
        &[
            enter(1, CLONE),
            exit(2, CLONE, 0),
            exit(1, CLONE, 2),
            enter(2, EXIT_GROUP),
            (2, Body::Exit),
            // Of a signal's handler, on x86-64.
            enter(1, SIGRETURN),
            exit(1, -1, 7),
        ],
    );
    let numbers: Vec<_> = calls.iter().map(|call| (call.tid, call.number)).collect();
    assert_eq!(numbers, [(1, CLONE), (1, SIGRETURN)]);
    assert_eq!(unmatched, Unmatched::default());
}

#[test]
fn calls_without_their_other_end_are_counted() {
    let (calls, unmatched) =
        returned(2, &[exit(1, WRITE, 5), enter(1, WRITE), enter(1, WRITE), enter(2, WRITE), enter(3, WRITE)]);
    assert!(calls.is_empty());
    assert_eq!((unmatched.begun_before, unmatched.not_ended, unmatched.forgotten), (1, 1, 1));
}

#[test]
fn numbers_have_their_machines_names() {
    assert_eq!((name("x86_64", 1), name("aarch64", 64)), (Some("write"), Some("write")));
    assert_eq!((name("x86_64", 74), name("riscv64", 82)), (Some("fsync"), Some("fsync")));
    assert_eq!((name("x86_64", -1), name("x86_64", 9999), name("arm", 4)), (None, None, None));
}
