use std::sync::Arc;
use std::sync::mpsc::channel;

use super::*;
use crate::alone::{InSeccomp, PATIENCE, alone};
use crate::records::{Id, Thread};
use crate::region::End;
use crate::sleep::{Slept, sleep};
use crate::sleep_word::GOES_TO_SLEEP;

#[test]
fn threads_that_are_about_to_sleep_are_waited_for_once() {
    let region = Region::create().expect("memory");
    assert_eq!(wake_to_leave_in_rounds(&region), 1);
}

/// Waits until a thread of this process sleeps in futex(2).
fn wait_until_at_futex(tid: i32) {
    for _ in 0..20_000 {
        let call = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).expect("a thread");
        if call.split(' ').next() == Some(&libc::SYS_futex.to_string()) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("the thread does not sleep");
}

#[test]
fn every_thread_on_its_futex_is_woken_to_leave() {
    let region = Arc::new(Region::create().expect("memory"));
    let (result_sender, results) = channel();
    for index in [1, 2, THREADS - 1] {
        let (region, result_sender) = (Arc::clone(&region), result_sender.clone());
        let (name, named) = channel();
        std::thread::spawn(move || {
            let own = Id::<Thread>::new(index as u64).expect("an index");
            region.sleep_word(index).set_out(GOES_TO_SLEEP);
            name.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("a test that waits");
            let _ = result_sender.send(sleep(&region, own, false));
        });
        wait_until_at_futex(named.recv().expect("its id"));
    }
    region.end(End::Gone);
    assert!(results.try_recv().is_err(), "they sleep until then");
    wake_to_leave(&region);
    for _ in 0..3 {
        assert_eq!(results.recv_timeout(PATIENCE), Ok(Slept::Woken));
    }
}

#[test]
fn a_thread_in_seccomp_is_woken_to_leave_by_its_answer() {
    alone(concat!(module_path!(), "::a_thread_in_seccomp_is_woken_to_leave_by_its_answer"), || {
        let Some(context) = InSeccomp::new() else { return };
        let (_, first) = context.sleeper();
        // The notification of the first one was received already.
        let mut scratch = Scratch::default();
        wake::receive_all(&Guard::lock(&context.region, &mut scratch), context.listener.as_fd());
        let (_, second) = context.sleeper();
        assert_eq!(context.region.wakers().trapped(), 2);
        context.region.end(End::Gone);
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        answer_notifications(&context.region);
        for sleeper in [first, second] {
            assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
        }
        assert_eq!(context.region.wakers().trapped(), 0);
    });
}

#[test]
fn a_thread_whose_notification_is_lost_is_woken_to_leave() {
    alone(concat!(module_path!(), "::a_thread_whose_notification_is_lost_is_woken_to_leave"), || {
        let Some(context) = InSeccomp::new() else { return };
        let (own, sleeper) = context.sleeper();
        let mut scratch = Scratch::default();
        wake::receive_all(&Guard::lock(&context.region, &mut scratch), context.listener.as_fd());
        let known = context.region.notification_id(own.index());
        assert_ne!(known.load(Relaxed), 0, "it was received, so it cannot be received again");
        known.store(0, Relaxed);
        context.region.end(End::Gone);
        let rounds = wake_to_leave_in_rounds(&context.region);
        assert!((PATIENT + 1..MOST).contains(&rounds), "{rounds}");
        assert_eq!(context.region.wakers().trapped(), 0, "it is waited for");
        assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
    });
}

#[test]
fn no_notification_is_received_if_no_thread_of_the_context_is_in_seccomp() {
    alone(
        concat!(module_path!(), "::no_notification_is_received_if_no_thread_of_the_context_is_in_seccomp"),
        || {
            let Some(context) = InSeccomp::new() else { return };
            assert_eq!(receiving(&context.region, || 1), None);
            let (_, sleeper) = context.sleeper();
            assert_eq!(receiving(&context.region, || 1), Some(1));
            assert_eq!(context.region.wakers().trapped(), 1);
            context.region.end(End::Gone);
            answer_notifications(&context.region);
            assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
        },
    );
}
