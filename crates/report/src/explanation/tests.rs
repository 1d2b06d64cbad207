use roundtrip_analysis::slow_calls::Kept;
use roundtrip_layers::{Owner, Part, RoundTrip, explain_without_events};

use super::{Flag, Shown, State, Stop, Waker, flag_text, parts, state_text, text};

fn part(begin_ns: u64, end_ns: u64, state: State) -> Part {
    Part { begin_ns, end_ns, owner: Owner::Server, thread: None, cpu: Some(1), state, because: Vec::new() }
}

#[test]
fn slow_calls_that_are_not_kept_are_counted() {
    let mut kept = Kept { limit: 3, ..Kept::default() };
    let text = |kept: &Kept| text(&[], kept, Shown::default());
    assert!(text(&kept).starts_with("No call was slow: "), "{}", text(&kept));
    kept.over_limit = 2;
    assert_eq!(text(&kept), "Not explained: 2 more slow calls, beyond --explain-limit 3.\n");
}

#[test]
fn short_parts_are_combined_and_long_ones_have_their_time_and_cpu() {
    let trip = RoundTrip {
        start_ns: 1_000,
        received_ns: Some(2_000),
        replied_ns: Some(3_000),
        end_ns: 1_001_000,
        ..RoundTrip::default()
    };
    let mut explanation = explain_without_events(&trip);
    explanation.parts = vec![
        part(1_000, 2_000, State::Running),
        part(2_000, 3_000, State::WakeUpPending),
        part(3_000, 901_000, State::RunnableOnIdle),
        part(901_000, 1_001_000, State::User),
    ];
    let expected = "       at us      for us  of      CPU  what\n\u{20}        0.0         2.0  server       \
                    2 short parts: running, woken, not on a run queue yet\n\u{20}        2.0       898.0  \
                    server    1  runnable while its CPU was idle\n\u{20}      900.0       100.0  server    \
                    1  running in user code\n";
    assert_eq!(parts(&explanation, usize::MAX), expected);
}

fn thread_of(tid: u32, comm: &str) -> roundtrip_layers::Thread {
    roundtrip_layers::Thread { tid, pid: None, comm: comm.into(), prio: None }
}

#[test]
fn a_frozen_thread_is_shown_with_who_froze_and_who_thawed_it() {
    let waker = Waker::Thread { thread: thread_of(8, "thaw") };
    let frozen = |by| State::Stopped { how: Stop::Frozen, by, waker: waker.clone() };
    assert_eq!(state_text(&frozen(Some(thread_of(7, "freeze")))), "frozen by freeze (7), woken by thaw (8)");
    assert_eq!(state_text(&frozen(None)), "frozen, woken by thaw (8)");
    let stopped = State::Stopped { how: Stop::Signal, by: None, waker: waker.clone() };
    assert_eq!(state_text(&stopped), "stopped by a signal, woken by thaw (8)");
}

#[test]
fn a_move_to_a_control_group_is_shown_with_its_time_and_who_moved_it() {
    let moved = |by: u32, after_ns| {
        let (thread, by) = (thread_of(7, "server"), thread_of(by, "mover"));
        flag_text(&Flag::Moved { thread, group: "/back\nground".into(), by, after_ns })
    };
    let others = "; its CPUs, or its share of them, may be others there";
    assert_eq!(
        moved(8, 2_000_000),
        format!(
            "Control group: server (7) was moved to /back\\u000aground by mover (8), 2.00 ms after the call began{others}"
        )
    );
    let itself = moved(7, -30_000_000);
    assert!(itself.contains("by itself, 30.0 ms before the call;"), "{itself}");
}
