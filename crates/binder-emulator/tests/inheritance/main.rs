#![allow(clippy::print_stdout, reason = "the test that is ignored reports figures")]
//! Real-time callers without permission to set their servers' policy: the servers inherit the
//! priority through a PI futex.
//!
//! Tests start as root, so that a thread can make itself real-time, and drop all privileges before
//! they use the driver. They are skipped if this user is not root.

mod figures;
mod hogs;
mod party;
mod unprivileged;

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use roundtrip_binder_conformance::signals;
use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_binder_driver::{Driver, Profile};
use roundtrip_binder_emulator::{Context, InheritBy};

use hogs::{Hogs, Kind};
use party::{CALL_BACK, FORWARD, FORWARD_BACK, KEEP, Party, RUNS_AT, WAIT};
use unprivileged::{OTHER, unprivileged};

/// The priority of the callers, above that of the hogs.
const PRIORITY: u32 = 60;
/// The boosted priority in /proc: field 18 of /proc/PID/stat (proc_pid_stat(5)).
const SHOWN: i64 = -1 - PRIORITY as i64;

/// Makes the calling thread an ordinary one, as servers are. Keeps its nice value, because lowering
/// it needs privileges.
fn become_ordinary() {
    let nice = rustix::process::getpriority_process(None).expect("this thread's own");
    sched_attr::set(0, SchedAttr { policy: OTHER, nice, ..Default::default() }).expect("a lower policy");
}

/// Makes calls until 50 of them got their reply before the caller's own first check, which it makes
/// after a millisecond and then less often. A call that ends only by such a check takes longer, on
/// any machine.
fn asks_until_some_are_quick(client: &mut Party, code: u32) {
    const LOOKS_AFTER: Duration = Duration::from_millis(1);
    let (begin, mut quick, mut calls) = (Instant::now(), 0, 0);
    while quick < 50 {
        let called = Instant::now();
        assert_eq!(client.ask(0, code, Some(7)), SHOWN);
        quick += usize::from(called.elapsed() < LOOKS_AFTER);
        calls += 1;
        assert!(begin.elapsed() < party::PATIENCE, "{quick} of {calls} calls were quick");
    }
}

fn context() -> Context {
    Context::create_unlisted(Profile::Ack).expect("a context")
}

#[test]
fn a_pi_futex_passes_on_the_callers_priority_without_a_policy_change() {
    unprivileged(PRIORITY, || {
        let context = context();
        let server = Party::manager(&context);
        let mut client = Party::join(&context);
        for _ in 0..20 {
            assert_eq!(client.ask(0, RUNS_AT, None), SHOWN);
        }
        assert_eq!(server.driver.inherited_by_pi_futex(), 20);
        assert_eq!(server.driver.limits(), [""; 0], "nothing was denied");
        let shown = sched_attr::get(server.looper()).expect("a living thread");
        assert_eq!((shown.policy, shown.priority), (OTHER, 0));
        client.driver.set_inherit_by(InheritBy::Policy);
        assert_eq!(client.ask(0, RUNS_AT, None), party::ordinary());
        assert_eq!(server.driver.inherited_by_pi_futex(), 20);
        assert!(!server.driver.limits().is_empty(), "this was denied");
    });
}

#[test]
fn a_privileged_process_can_choose_the_pi_futex() {
    unprivileged::as_root(PRIORITY, || {
        let context = context();
        let server = Party::manager(&context);
        let mut client = Party::join(&context);
        assert_eq!(client.ask(0, RUNS_AT, None), SHOWN);
        assert_eq!(server.driver.inherited_by_pi_futex(), 0, "the policy was set");
        client.driver.set_inherit_by(InheritBy::PiFutex);
        assert_eq!(client.ask(0, RUNS_AT, None), SHOWN);
        assert_eq!(server.driver.inherited_by_pi_futex(), 1);
    });
}

#[test]
fn a_nested_call_back_to_the_caller_keeps_the_inherited_priority() {
    unprivileged(PRIORITY, || {
        let context = context();
        let _server = Party::manager(&context);
        let mut client = Party::join(&context);
        asks_until_some_are_quick(&mut client, CALL_BACK);
    });
}

#[test]
fn a_server_passes_its_callers_priority_on_to_the_next_server() {
    unprivileged(PRIORITY, || {
        let context = context();
        let _first = Party::manager(&context);
        let second = Party::serving(&context);
        let mut client = Party::join(&context);
        for _ in 0..100 {
            assert_eq!(client.ask(0, FORWARD, None), SHOWN);
        }
        assert!(second.driver.inherited_by_pi_futex() >= 100);
    });
}

#[test]
fn a_chain_of_calls_that_ends_at_its_first_caller_completes() {
    unprivileged(PRIORITY, || {
        let context = context();
        let _first = Party::manager(&context);
        let _second = Party::serving(&context);
        let mut client = Party::join(&context);
        asks_until_some_are_quick(&mut client, FORWARD_BACK);
    });
}

#[test]
fn a_thread_that_takes_a_queued_transaction_inherits_the_callers_priority() {
    unprivileged(PRIORITY, || {
        let context = context();
        let server = Party::manager(&context);
        let address = context.address().to_owned();
        let ordinary = std::thread::spawn(move || {
            become_ordinary();
            Party::join_at(&address).ask(0, WAIT, None)
        });
        server.wait_until_called();
        let (answer, answered) = channel();
        let mut client = Party::join(&context);
        let waiting = std::thread::spawn(move || answer.send(client.ask(0, RUNS_AT, None)));
        // It found no thread to boost.
        while !context.state().contains("pending transaction") {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        server.go_on();
        assert_eq!(ordinary.join().expect("an answer"), 0);
        assert_eq!(answered.recv_timeout(Duration::from_secs(20)), Ok(SHOWN));
        waiting.join().expect("no panic").expect("a test that waits");
    });
}

#[test]
fn boosting_callers_notice_their_servers_death_and_servers_survive_theirs() {
    unprivileged(PRIORITY, || {
        let context = context();
        for round in 0..20 {
            let server = Party::manager(&context);
            let address = context.address().to_owned();
            let caller = std::thread::spawn(move || Party::join_at(&address).try_ask(0, WAIT, None));
            server.wait_until_called();
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            let begin = Instant::now();
            // The looper leaves in the middle of the call.
            server.leave();
            assert_eq!(caller.join().expect("no panic"), None, "no reply, and no waiting for one");
            assert!(begin.elapsed() < party::PATIENCE, "{:?}", begin.elapsed());
        }
    });
}

/// The reply to a call whose thread handles signals while it waits; `None` if there is no reply.
/// The server inherits the thread's priority as `inherit_by` says.
fn called_amid_signals(inherit_by: InheritBy) -> Option<i64> {
    let context = context();
    let server = Party::manager(&context);
    let address = context.address().to_owned();
    let (sender, caller) = channel();
    let calling = std::thread::spawn(move || {
        let mut party = Party::join_at(&address);
        party.driver.set_inherit_by(inherit_by);
        sender.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a test that waits");
        party.try_ask(0, WAIT, None)
    });
    server.wait_until_called();
    let caller = caller.recv_timeout(party::PATIENCE).expect("a caller");
    let begin = Instant::now();
    for send in [signals::restarting_signal, signals::signal].repeat(10) {
        let before = signals::SIGNALS_HANDLED.load(Ordering::Relaxed);
        send(caller);
        while signals::SIGNALS_HANDLED.load(Ordering::Relaxed) == before {
            assert!(begin.elapsed() < party::PATIENCE, "no thread handled the signal");
            std::thread::sleep(Duration::from_millis(1));
        }
        if calling.is_finished() {
            break;
        }
    }
    server.go_on();
    calling.join().expect("no panic")
}

#[test]
fn signals_do_not_interrupt_a_caller_that_boosts_through_a_pi_futex() {
    unprivileged(PRIORITY, || {
        assert_eq!(called_amid_signals(InheritBy::Auto), Some(0), "the server's answer");
        assert_eq!(called_amid_signals(InheritBy::Policy), None, "the server inherits nothing: EINTR");
    });
}

#[test]
fn calls_complete_beside_fifo_hogs_only_with_inheritance() {
    /// Calls among these that take no longer than this.
    const CALLS: usize = 5;
    const QUICK: Duration = Duration::from_millis(20);
    unprivileged(PRIORITY, || {
        let context = context();
        let _server = Party::manager(&context);
        let mut client = Party::join(&context);
        client.ask(0, KEEP, None);
        let mut quick = [0; 2];
        for (inherit_by, quick) in [InheritBy::Auto, InheritBy::Policy].into_iter().zip(&mut quick) {
            client.driver.set_inherit_by(inherit_by);
            let hogs = Hogs::start(&[Kind::Ordinary, Kind::Realtime], PRIORITY - 10, Duration::from_secs(1));
            for _ in 0..CALLS {
                // The kernel reserves 50 ms of each second for ordinary threads.
                std::thread::sleep(Duration::from_millis(60));
                let begin = Instant::now();
                client.ask(0, KEEP, None);
                *quick += usize::from(hogs.all_run() && begin.elapsed() < QUICK);
            }
        }
        assert!(quick[0] >= 3, "{} of {CALLS} calls were quick through the futex", quick[0]);
        assert!(quick[1] <= 2, "{} of {CALLS} calls were quick without inheritance", quick[1]);
    });
}

#[test]
fn a_context_can_choose_the_pi_futex_for_all_participants() {
    unprivileged::as_root(PRIORITY, || {
        let context = context();
        context.set_inherit_by(InheritBy::PiFutex);
        let server = Party::manager(&context);
        assert_eq!(Party::join(&context).ask(0, RUNS_AT, None), SHOWN);
        assert_eq!(server.driver.inherited_by_pi_futex(), 1);
    });
}
