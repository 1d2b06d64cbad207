use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;
use crate::alone::{InSeccomp, PATIENCE, alone};
use crate::mutex::own_tid;
use crate::sleep::Slept;
use crate::sleep_word::{ENTERS_SECCOMP, GOES_TO_BOOST, GOES_TO_SECCOMP, GOES_TO_SLEEP};

fn id(index: u64) -> Id<Thread> {
    Id::new(index).expect("an index")
}

/// Runs `act` on a thread that may use only the last CPU, with that CPU's number.
fn on_the_last_cpu(act: impl FnOnce(u32) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let all = sched_getaffinity(None).expect("this thread's own");
            let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| all.is_set(cpu)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(last);
            sched_setaffinity(None, &one).expect("one of the thread's CPUs");
            act(last as u32);
        });
    });
}

#[test]
fn a_sleeper_learns_the_cpu_of_a_waker_that_waits_for_it() {
    on_the_last_cpu(|cpu| {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let waker = |region: &Region| region.waker(1).load(Relaxed);
        for (here, noted) in [(true, cpu + 1), (false, 0)] {
            region.waker(1).store(77, Relaxed);
            region.sleep_word(1).set_out(GOES_TO_SLEEP);
            let wake = claim(&mut guard, id(1), here).expect("it sleeps");
            assert!(matches!(wake, Wake { way: Way::Futex, rouse: false, .. }), "{wake:?}");
            assert_eq!((wake.here, waker(&region)), (here, noted));
        }
        region.waker(1).store(77, Relaxed);
        assert!(claim(&mut guard, id(1), true).is_none(), "it is awake");
        assert_eq!(waker(&region), 77);
    });
}

#[test]
fn a_thread_that_is_about_to_enter_seccomp_is_stopped_and_one_inside_is_claimed() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    for index in 1..=3 {
        region.sleep_word(index).set_out(GOES_TO_SECCOMP);
    }
    assert!(claim(&mut guard, id(1), true).is_none());
    assert_eq!(region.sleep_word(1).state(), Awake);
    // Only the first one wakes the supervisor.
    for (index, rouses) in [(2, true), (3, false)] {
        assert!(region.sleep_word(index).make(ENTERS_SECCOMP));
        let wake = claim(&mut guard, id(index as u64), true).expect("it is in seccomp");
        assert!(matches!(wake.way, Way::Answer(None)), "its process has no listener: {wake:?}");
        assert_eq!((wake.rouse, region.sleep_word(index).state()), (rouses, Claimed));
        assert!(claim(&mut guard, id(index as u64), true).is_none(), "it was claimed before");
    }
}

#[test]
fn the_supervisor_checks_while_threads_are_claimed_and_once_more() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let mut claimed = vec![id(9)];
    assert!(!sweep(&mut guard, &mut claimed), "nothing has happened");
    assert!(claimed.is_empty());
    let threads = [(); 3].map(|()| guard.alloc::<Thread>().expect("a record"));
    let word = region.sleep_word(threads[2].index());
    word.set_out(GOES_TO_SECCOMP);
    assert!(word.make(ENTERS_SECCOMP));
    assert!(claim(&mut guard, threads[2], true).is_some_and(|wake| wake.rouse));
    for _ in 0..2 {
        assert!(sweep(&mut guard, &mut claimed));
        assert_eq!(claimed, [threads[2]]);
    }
    assert!(word.make(crate::sleep_word::LEAVES_SECCOMP));
    assert!(!sweep(&mut guard, &mut claimed) && claimed.is_empty());
    // A thread was claimed and has left again: one last look.
    word.set_out(GOES_TO_SECCOMP);
    assert!(word.make(ENTERS_SECCOMP));
    assert!(claim(&mut guard, threads[2], true).is_some_and(|wake| wake.rouse));
    assert!(word.make(crate::sleep_word::LEAVES_SECCOMP));
    assert!(sweep(&mut guard, &mut claimed) && claimed.is_empty());
    assert!(!sweep(&mut guard, &mut claimed), "it may doze");
}

#[test]
fn after_a_death_every_sleeper_is_woken_by_its_own_mechanism() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    region.sleep_word(1).set_out(GOES_TO_SLEEP);
    for index in 2..=4 {
        region.sleep_word(index).set_out(GOES_TO_SECCOMP);
    }
    for index in 3..=4 {
        assert!(region.sleep_word(index).make(ENTERS_SECCOMP));
    }
    assert!(claim(&mut guard, id(4), true).is_some(), "by the one that died");
    let mut kicked = |index| kick(&mut guard, id(index));
    // It sleeps, or was marked awake by a waker that died before waking it.
    for index in [1, 2, 5] {
        let wake = kicked(index);
        assert!(matches!(wake, Some(Wake { way: Way::Futex, here: false, .. })), "{index}: {wake:?}");
    }
    for (index, rouses) in [(3, false), (4, false)] {
        let wake = kicked(index).expect("it is in seccomp");
        assert!(matches!(wake.way, Way::Answer(None)), "{index}: {wake:?}");
        assert_eq!(wake.rouse, rouses, "the supervisor looks already");
    }
}

#[test]
fn a_waiter_is_woken_by_the_last_of_its_boosting_callers() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let boosts = |index: usize, to: u32| {
        region.sleep_word(index).set_out(GOES_TO_BOOST);
        region.reply_lock(index).store(u32::MAX >> 2, Relaxed);
        region.lock_owner(index).store(to, Relaxed);
    };
    // The first boosts the second, which boosts the third, which sleeps.
    boosts(1, 2);
    boosts(2, 3);
    region.sleep_word(3).set_out(GOES_TO_SLEEP);
    let wake = claim(&mut guard, id(1), true).expect("a thread to wake");
    assert!(matches!(wake.way, Way::Futex), "{wake:?}");
    assert_eq!((wake.thread, wake.here), (id(3), false));
    assert!((1..=3).all(|index| region.sleep_word(index).is(Awake)));
    // The calling thread owns the second one's reply lock.
    boosts(1, 2);
    boosts(2, 3);
    region.reply_lock(2).store(own_tid(), Relaxed);
    let wake = claim(&mut guard, id(1), true).expect("a thread to wake");
    assert!(matches!(wake.way, Way::GiveBack), "{wake:?}");
    assert_eq!(wake.thread, id(2));
    // The owner is running: the waiter checks by itself.
    boosts(1, 2);
    assert!(claim(&mut guard, id(1), true).is_none());
    // They boost each other, which only garbage can say.
    boosts(1, 2);
    boosts(2, 1);
    assert!(claim(&mut guard, id(1), true).is_none());
}

#[test]
fn a_notification_is_recorded_only_for_its_own_thread() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let guard = Guard::lock(&region, &mut scratch);
    region.words()[TAG].store(5, Relaxed);
    for index in [1, 2] {
        region.sleep_word(index).set_out(GOES_TO_SECCOMP);
        assert!(region.sleep_word(index).make(ENTERS_SECCOMP));
    }
    let receives = |id: u64, of: u64, tag: u64| {
        let received = region.received();
        received[0].store(id, Relaxed);
        received[ARGUMENTS].store(of, Relaxed);
        received[ARGUMENTS + 1].store(tag, Relaxed);
        assert!(settle(&guard, None));
        assert!(received.iter().all(|word| word.load(Relaxed) == 0), "the place is free again");
    };
    let noted = || [1, 2, 3].map(|index| region.notification_id(index).load(Relaxed));
    receives(71, 1, 5);
    assert_eq!(noted(), [71, 0, 0]);
    receives(72, 2, 6);
    assert_eq!(noted(), [71, 0, 0], "another context's");
    receives(73, 3, 5);
    assert_eq!(noted(), [71, 0, 0], "it is not in seccomp");
    receives(74, 2, 5);
    assert_eq!(noted(), [71, 74, 0]);
}

#[test]
fn a_claimed_thread_whose_listener_is_unknown_is_left_to_the_supervisor() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    assert!(matches!(attempt(&region, id(1)), Attempt::Done), "it is awake");
    region.sleep_word(1).set_out(GOES_TO_SECCOMP);
    assert!(region.sleep_word(1).make(ENTERS_SECCOMP));
    assert!(region.sleep_word(1).make(CLAIMS));
    assert!(matches!(attempt(&region, id(1)), Attempt::Done), "it belongs to no process");
    let mut guard = Guard::lock(&region, &mut scratch);
    let owner = Id::<Process>::new(7).expect("a slot");
    guard.set(id(1), thread::PROCESS, Some(owner));
    guard.set(owner, process::GENERATION, 3);
    drop(guard);
    assert!(matches!(attempt(&region, id(1)), Attempt::Unknown(slot, 3) if slot == owner));
    // This is the supervisor, which takes it over itself.
    wake(&region, &Wake { thread: id(1), way: Way::Answer(None), here: true, rouse: false });
    assert_eq!(region.wakers().take_left(), [id(1)]);
    assert!(region.wakers().take_left().is_empty());
    wake(&region, &Wake { thread: id(2), way: Way::Futex, here: true, rouse: true });
    assert_eq!(region.wakers().take_left(), [id(2)]);
}

#[test]
fn a_participant_asks_for_help_only_for_threads_that_stay_claimed() {
    let region = Region::create().expect("memory");
    let (own, supervisor) = std::os::unix::net::UnixStream::pair().expect("sockets");
    supervisor.set_nonblocking(true).expect("a socket");
    region.wakers().set_supervisor(Arc::new(std::sync::Mutex::new(own)));
    let asked = || std::io::Read::read(&mut &supervisor, &mut [0; 2]).is_ok();
    let answer = || Wake { thread: id(1), way: Way::Answer(None), here: true, rouse: false };
    wake(&region, &answer());
    assert!(!asked(), "it is awake already");
    wake(&region, &Wake { rouse: true, ..answer() });
    assert!(asked() && !asked(), "to look after those that were claimed");
}

#[test]
fn a_notification_that_cannot_be_answered_here_stays_recorded() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let guard = Guard::lock(&region, &mut scratch);
    region.words()[TAG].store(5, Relaxed);
    // A notification of another context, from a process whose listener is unknown here.
    let received = region.received();
    received[0].store(71, Relaxed);
    received[ARGUMENTS + 1].store(6, Relaxed);
    region.words()[RECEIVED_FROM].store(7, Relaxed);
    assert!(!settle(&guard, None));
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    assert!(!receive_next(&guard, reader.as_fd(), None));
    assert_eq!([0, ARGUMENTS + 1].map(|word| received[word].load(Relaxed)), [71, 6]);
}

/// Connects a participant to its supervisor, which is this test, and returns the supervisor's end.
fn with_supervisor(region: &Region) -> std::os::unix::net::UnixStream {
    let (own, supervisor) = std::os::unix::net::UnixStream::pair().expect("sockets");
    supervisor.set_nonblocking(true).expect("a socket");
    region.wakers().set_supervisor(Arc::new(std::sync::Mutex::new(own)));
    supervisor
}

/// Whether the supervisor has received a request.
fn was_asked(supervisor: &std::os::unix::net::UnixStream) -> bool {
    std::io::Read::read(&mut &*supervisor, &mut [0; 64]).is_ok()
}

#[test]
fn the_answer_of_the_claiming_thread_wakes_a_thread_in_seccomp() {
    alone(concat!(module_path!(), "::the_answer_of_the_claiming_thread_wakes_a_thread_in_seccomp"), || {
        let Some(context) = InSeccomp::new() else { return };
        let region = &context.region;
        for here in [true, false] {
            let (own, sleeper) = context.sleeper();
            let mut scratch = Scratch::default();
            let claimed = claim(&mut Guard::lock(region, &mut scratch), own, here).expect("it sleeps");
            assert!(matches!(claimed.way, Way::Answer(Some(_))) && claimed.here == here, "{claimed:?}");
            assert!(region.sleep_word(own.index()).is(Claimed));
            wake(region, &Wake { rouse: false, ..claimed });
            assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
            assert!(region.sleep_word(own.index()).is(Awake));
            assert!(region.wakers().take_left().is_empty(), "nothing is left to the supervisor");
        }
    });
}

#[test]
fn a_thread_whose_notification_was_replaced_is_woken_by_its_next_one() {
    alone(
        concat!(module_path!(), "::a_thread_whose_notification_was_replaced_is_woken_by_its_next_one"),
        || {
            let Some(context) = InSeccomp::new() else { return };
            let (region, listener) = (&context.region, context.listener.as_fd());
            let supervisor = with_supervisor(region);
            let mut scratch = Scratch::default();
            let (own, sleeper) = context.sleeper();
            receive_all(&Guard::lock(region, &mut scratch), listener);
            let first = region.notification_id(own.index()).load(Relaxed);
            // It was not claimed, so it enters seccomp again, as after a signal.
            seccomp::answer(listener, first).expect("it waits for that");
            context.wait_for_notification();
            assert_eq!(region.notification_id(own.index()).load(Relaxed), first, "which is answered");
            let claimed = claim(&mut Guard::lock(region, &mut scratch), own, true).expect("it sleeps");
            wake(region, &Wake { rouse: false, ..claimed });
            assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
            assert!(!was_asked(&supervisor), "it could be woken from here");
        },
    );
}

#[test]
fn a_process_can_look_up_its_own_listener_again() {
    alone(concat!(module_path!(), "::a_process_can_look_up_its_own_listener_again"), || {
        let Some(context) = InSeccomp::new() else { return };
        let region = &context.region;
        let supervisor = with_supervisor(region);
        let (own, sleeper) = context.sleeper();
        region.wakers().forget(InSeccomp::slot(), InSeccomp::GENERATION);
        let mut scratch = Scratch::default();
        let claimed = claim(&mut Guard::lock(region, &mut scratch), own, true).expect("it sleeps");
        assert!(matches!(claimed.way, Way::Answer(None)), "{claimed:?}");
        wake(region, &Wake { rouse: false, ..claimed });
        assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
        assert!(!was_asked(&supervisor), "it could be woken from here");
    });
}

#[test]
fn a_claimed_thread_that_does_not_reach_seccomp_is_left_to_the_supervisor() {
    alone(
        concat!(module_path!(), "::a_claimed_thread_that_does_not_reach_seccomp_is_left_to_the_supervisor"),
        || {
            let Some(context) = InSeccomp::new() else { return };
            let region = &context.region;
            let supervisor = with_supervisor(region);
            let mut scratch = Scratch::default();
            let mut guard = Guard::lock(region, &mut scratch);
            let own = guard.alloc::<Thread>().expect("a record");
            guard.set(own, thread::PROCESS, Some(InSeccomp::slot()));
            region.sleep_word(own.index()).set_out(GOES_TO_SECCOMP);
            assert!(region.sleep_word(own.index()).make(ENTERS_SECCOMP));
            let claimed = claim(&mut guard, own, true).expect("it seems to sleep");
            drop(guard);
            assert!(matches!(attempt(region, own), Attempt::Later(_)));
            wake(region, &Wake { rouse: false, ..claimed });
            assert!(was_asked(&supervisor));
            // An id of no notification is tried and dropped.
            region.notification_id(own.index()).store(1, Relaxed);
            assert!(matches!(attempt(region, own), Attempt::Later(_)));
            assert_eq!(region.notification_id(own.index()).load(Relaxed), 0);
        },
    );
}

#[test]
fn a_notification_of_another_context_is_answered_and_its_thread_sleeps_again() {
    alone(
        concat!(
            module_path!(),
            "::a_notification_of_another_context_is_answered_and_its_thread_sleeps_again"
        ),
        || {
            let Some(context) = InSeccomp::new() else { return };
            let (region, listener) = (&context.region, context.listener.as_fd());
            let (own, sleeper) = context.sleeper();
            // Not the tag in its notification.
            region.words()[TAG].store(0xc2, Relaxed);
            let mut scratch = Scratch::default();
            let guard = Guard::lock(region, &mut scratch);
            assert!(receive_next(&guard, listener, Some(InSeccomp::slot())));
            assert_eq!(region.notification_id(own.index()).load(Relaxed), 0, "it is not its thread's");
            // It has checked its word, and was not woken.
            context.wait_for_notification();
            assert!(sleeper.try_recv().is_err());
            // A receiver that dies before answering leaves the notification to the next one.
            seccomp::receive(listener, region.received()).expect("it is pending");
            region.words()[RECEIVED_FROM].store(InSeccomp::SLOT, Relaxed);
            assert!(settle(&guard, None));
            context.wait_for_notification();
            region.words()[TAG].store(0xc1, Relaxed);
            drop(guard);
            let claimed = claim(&mut Guard::lock(region, &mut scratch), own, true).expect("it sleeps");
            // Its tag is the one that it went to sleep with.
            wake(region, &claimed);
            assert_eq!(sleeper.recv_timeout(PATIENCE), Ok(Slept::Woken));
        },
    );
}
