//! Tests the matcher with events as the driver writes them.

use super::*;

const FAILED_REPLY: u32 = 0x7211;
const TRANSACTION_COMPLETE: u32 = 0x7206;
/// The process to which everything is sent.
const SERVER: u32 = 90;

/// Events of threads, one nanosecond apart, and the transactions that the matcher finds in them.
struct Driver {
    now_ns: u64,
    matcher: Matcher,
    observed: Vec<Observed>,
}

impl Driver {
    fn new() -> Self {
        Self { now_ns: 0, matcher: Matcher::new(8), observed: Vec::new() }
    }

    fn event(&mut self, tid: u32, body: Body) {
        self.now_ns += 1;
        let event = Event { time_ns: self.now_ns, cpu: 0, tid, body };
        self.matcher.add(&event, &mut |observed| self.observed.push(observed));
    }

    fn wait(&mut self, tid: u32, transaction_stack: bool) {
        self.event(
            tid,
            Body::BinderWait { proc_work: !transaction_stack, transaction_stack, thread_todo: false },
        );
    }

    fn send(&mut self, tid: u32, debug_id: i32, flags: u32) {
        let body = Body::BinderTransaction {
            debug_id,
            target_node: 7,
            to_proc: SERVER,
            to_thread: 0,
            reply: false,
            code: 3,
            flags,
        };
        self.event(tid, body);
    }

    fn reply(&mut self, tid: u32, debug_id: i32, to_thread: u32) {
        let body = Body::BinderTransaction {
            debug_id,
            target_node: 0,
            to_proc: 80,
            to_thread,
            reply: true,
            code: 0,
            flags: 0,
        };
        self.event(tid, body);
    }

    fn receive(&mut self, tid: u32, debug_id: i32) {
        self.event(tid, Body::BinderReceived { debug_id });
    }

    fn calls(&self) -> Vec<Call> {
        let call = |observed: &Observed| match observed {
            Observed::Call(call) => Some(*call),
            _ => None,
        };
        self.observed.iter().filter_map(call).collect()
    }
}

#[test]
fn a_call_is_reported_with_its_times_and_threads() {
    let mut driver = Driver::new();
    driver.wait(91, false);
    driver.send(81, 1, 0);
    driver.wait(81, true);
    driver.receive(91, 1);
    driver.reply(91, 2, 81);
    driver.receive(81, 2);
    let [call] = driver.calls()[..] else { panic!("{:?}", driver.observed) };
    assert_eq!((call.sent.client, call.sent.to_process, call.server), (81, 90, 91));
    assert_eq!((call.sent.node, call.sent.code, call.sent.parent), (7, 3, None));
    assert_eq!([call.sent.start_ns, call.received_ns, call.replied_ns, call.end_ns], [2, 4, 5, 6]);
    assert_eq!((call.latency_ns(), call.behind_pool_ns), (4, Some(0)));
    assert_eq!(driver.matcher.unmatched(), Unmatched::default());
}

#[test]
fn a_request_behind_a_busy_pool_waits_until_a_thread_reads() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.event(5, Body::Exit);
    driver.event(5, Body::Exit);
    driver.wait(91, false);
    driver.receive(91, 1);
    driver.reply(91, 2, 81);
    driver.receive(81, 2);
    assert_eq!(driver.calls()[0].behind_pool_ns, Some(3));
    let mut unknown = Driver::new();
    unknown.send(81, 1, 0);
    unknown.receive(91, 1);
    unknown.reply(91, 2, 81);
    unknown.receive(81, 2);
    assert_eq!(unknown.calls()[0].behind_pool_ns, None, "no event tells when the thread was ready");
}

#[test]
fn nested_calls_name_their_outer_call_even_back_into_the_caller() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.receive(91, 1);
    // The server calls the waiting client, which calls a third process meanwhile.
    driver.send(91, 2, 0);
    driver.receive(81, 2);
    driver.send(81, 3, 0);
    driver.receive(101, 3);
    driver.reply(101, 4, 81);
    driver.receive(81, 4);
    driver.reply(81, 5, 91);
    driver.receive(91, 5);
    driver.reply(91, 6, 81);
    driver.receive(81, 6);
    let calls: Vec<_> =
        driver.calls().iter().map(|call| (call.sent.id, call.sent.parent, call.server)).collect();
    assert_eq!(calls, [(3, Some(2), 101), (2, Some(1), 81), (1, None, 91)]);
    assert_eq!(driver.matcher.unmatched(), Unmatched::default());
}

#[test]
fn a_reply_without_a_thread_belongs_to_the_call_that_its_sender_took_last() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.receive(91, 1);
    driver.send(91, 2, 0);
    driver.receive(81, 2);
    driver.reply(81, 3, 0);
    driver.receive(91, 3);
    driver.reply(91, 4, 0);
    driver.receive(81, 4);
    let calls: Vec<_> = driver.calls().iter().map(|call| (call.sent.id, call.server)).collect();
    assert_eq!(calls, [(2, 81), (1, 91)]);
    driver.reply(91, 5, 0);
    assert_eq!(driver.matcher.unmatched(), Unmatched { replies: 1, ..Unmatched::default() });
}

#[test]
fn a_oneway_transaction_ends_when_a_thread_takes_it() {
    let mut driver = Driver::new();
    driver.send(81, 1, TF_ONE_WAY | 0x10);
    driver.send(81, 2, 0);
    driver.receive(91, 1);
    let [Observed::Oneway(oneway)] = driver.observed[..] else { panic!("{:?}", driver.observed) };
    assert_eq!((oneway.sent.id, oneway.server, oneway.received_ns - oneway.sent.start_ns), (1, 91, 2));
}

#[test]
fn a_failed_call_is_reported_with_its_request_if_it_had_one() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.receive(91, 1);
    driver.event(91, Body::Exit);
    driver.event(81, Body::BinderReturn { command: DEAD_REPLY });
    driver.event(81, Body::BinderReturn { command: DEAD_REPLY });
    let failed: Vec<_> = driver
        .observed
        .iter()
        .map(|observed| match observed {
            Observed::Failed(failed) => failed.sent.map(|sent| sent.id),
            other => panic!("{other:?}"),
        })
        .collect();
    // The server has ended, so the request that it served is unknown. The driver never gave the
    // second call an id.
    assert_eq!(failed, [Some(1), None]);
    driver.event(81, Body::BinderReturn { command: 0x7203 });
    assert_eq!(driver.observed.len(), 2, "other returns are no failures");
}

#[test]
fn a_request_that_the_driver_refuses_is_reported_with_its_server() {
    let refused = |driver: &mut Driver| {
        driver.wait(81, false);
        driver.event(81, Body::BinderReturn { command: FAILED_REPLY });
        let Some(Observed::Failed(failed)) = driver.observed.pop() else { panic!("{:?}", driver.observed) };
        failed.sent.map(|sent| (sent.id, sent.to_process))
    };
    let mut driver = Driver::new();
    // Too large: the driver forgets the call before the thread reads the error.
    driver.send(81, 1, 0);
    assert_eq!(refused(&mut driver), Some((1, SERVER)));
    // No room for oneway requests. The first one was accepted.
    driver.send(81, 2, TF_ONE_WAY);
    driver.wait(81, false);
    driver.event(81, Body::BinderReturn { command: TRANSACTION_COMPLETE });
    driver.send(81, 3, TF_ONE_WAY);
    assert_eq!(refused(&mut driver), Some((3, SERVER)));
    driver.receive(91, 2);
    assert!(matches!(driver.observed[..], [Observed::Oneway(_)]), "{:?}", driver.observed);
    driver.observed.clear();
    // To an unknown handle, after an accepted request: without an event.
    driver.send(81, 4, TF_ONE_WAY);
    driver.event(81, Body::BinderReturn { command: TRANSACTION_COMPLETE });
    assert_eq!(refused(&mut driver), None);
    // The reply is too large: the server has replied, and its client gets the error.
    driver.send(81, 5, 0);
    driver.receive(91, 5);
    driver.reply(91, 6, 81);
    driver.event(81, Body::BinderReturn { command: FAILED_REPLY });
    assert!(matches!(driver.observed[..], [Observed::Failed(Failed { sent: Some(Sent { id: 5, .. }), .. })]));
    assert_eq!(driver.matcher.replies.len(), 0);
    assert_eq!(driver.matcher.unmatched(), Unmatched::default());
}

#[test]
fn a_call_without_a_recorded_end_is_counted_once() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.wait(81, false);
    assert_eq!(driver.matcher.unmatched().ended, 1);
    driver.send(81, 2, 0);
    driver.wait(81, true);
    assert_eq!(driver.matcher.unmatched().ended, 1);
    driver.event(81, Body::Exit);
    assert_eq!(driver.matcher.unmatched().ended, 2);
}

#[test]
fn an_error_in_a_nested_call_is_not_attributed_to_the_outer_call() {
    let mut driver = Driver::new();
    driver.send(81, 1, 0);
    driver.receive(91, 1);
    driver.send(91, 2, 0);
    driver.receive(81, 2);
    // While it serves 2, the driver refuses a call at once.
    driver.event(81, Body::BinderReturn { command: DEAD_REPLY });
    assert!(
        matches!(driver.observed[..], [Observed::Failed(Failed { sent: None, client: 81, .. })]),
        "{:?}",
        driver.observed
    );
    driver.reply(81, 3, 91);
    driver.receive(91, 3);
    driver.reply(91, 4, 81);
    driver.receive(81, 4);
    assert_eq!(driver.calls().len(), 2);
}

#[test]
fn unseen_and_lost_events_are_counted_and_affect_no_later_call() {
    let mut driver = Driver::new();
    driver.receive(91, 1);
    driver.reply(91, 2, 81);
    driver.receive(81, 2);
    assert_eq!(driver.matcher.unmatched(), Unmatched { received: 2, replies: 1, ..Unmatched::default() });
    // The reply's event is lost. The thread waits again without a transaction.
    driver.send(81, 3, 0);
    driver.receive(91, 3);
    driver.wait(91, false);
    driver.wait(81, false);
    driver.send(81, 5, 0);
    driver.receive(91, 5);
    driver.reply(91, 6, 81);
    driver.receive(81, 6);
    assert_eq!(driver.calls().iter().map(|call| call.sent.id).collect::<Vec<_>>(), [5]);
    assert_eq!(driver.matcher.unmatched().ended, 2, "the call, at both ends");
}

#[test]
fn memory_is_bounded_and_dropped_requests_are_counted() {
    let mut driver = Driver::new();
    for id in 1..=20 {
        let client = 100 + u32::try_from(id).unwrap();
        driver.send(client, id, TF_ONE_WAY);
        driver.event(client, Body::BinderReturn { command: TRANSACTION_COMPLETE });
    }
    assert_eq!(driver.matcher.unmatched().forgotten, 12);
    driver.receive(91, 1);
    driver.receive(91, 20);
    assert_eq!(driver.observed.len(), 1);
    assert_eq!(driver.matcher.threads.len(), 0, "a thread without anything under way is forgotten");
}
