use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::*;
use crate::mutex::own_tid;
use crate::sleep_word::{ENTERS_TRAP, GOES_TO_LEND, GOES_TO_SLEEP, GOES_TO_TRAP};

fn id(index: u64) -> Id<Thread> {
    Id::new(index).expect("an index")
}

/// Runs `act` on a thread that may use the last CPU only, and gives that CPU's number.
fn on_the_last_cpu(act: impl FnOnce(u32) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let all = sched_getaffinity(None).expect("one's own");
            let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| all.is_set(cpu)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(last);
            sched_setaffinity(None, &one).expect("one of one's own");
            act(last as u32);
        });
    });
}

#[test]
fn a_sleeper_learns_its_wakers_cpu_if_that_waits_for_it() {
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
fn a_thread_on_its_way_into_the_trap_is_kept_from_it_and_one_inside_is_claimed() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    for index in 1..=3 {
        region.sleep_word(index).set_out(GOES_TO_TRAP);
    }
    assert!(claim(&mut guard, id(1), true).is_none());
    assert_eq!(region.sleep_word(1).state(), Awake);
    // The keeper is roused by the first.
    for (index, rouses) in [(2, true), (3, false)] {
        assert!(region.sleep_word(index).make(ENTERS_TRAP));
        let wake = claim(&mut guard, id(index as u64), true).expect("it is in the trap");
        assert!(matches!(wake.way, Way::Answer(None)), "its process has no listener: {wake:?}");
        assert_eq!((wake.rouse, region.sleep_word(index).state()), (rouses, Claimed));
        assert!(claim(&mut guard, id(index as u64), true).is_none(), "it was claimed before");
    }
}

#[test]
fn the_keeper_looks_as_long_as_threads_are_claimed_and_once_more() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let mut claimed = vec![id(9)];
    assert!(!sweep(&mut guard, &mut claimed), "nothing has happened");
    assert!(claimed.is_empty());
    let threads = [(); 3].map(|()| guard.alloc::<Thread>().expect("a record"));
    let word = region.sleep_word(threads[2].index());
    word.set_out(GOES_TO_TRAP);
    assert!(word.make(ENTERS_TRAP));
    assert!(claim(&mut guard, threads[2], true).is_some_and(|wake| wake.rouse));
    for _ in 0..2 {
        assert!(sweep(&mut guard, &mut claimed));
        assert_eq!(claimed, [threads[2]]);
    }
    assert!(word.make(crate::sleep_word::LEAVES_TRAP));
    assert!(!sweep(&mut guard, &mut claimed) && claimed.is_empty());
    // One that was claimed and has left again: a last look.
    word.set_out(GOES_TO_TRAP);
    assert!(word.make(ENTERS_TRAP));
    assert!(claim(&mut guard, threads[2], true).is_some_and(|wake| wake.rouse));
    assert!(word.make(crate::sleep_word::LEAVES_TRAP));
    assert!(sweep(&mut guard, &mut claimed) && claimed.is_empty());
    assert!(!sweep(&mut guard, &mut claimed), "it may doze");
}

#[test]
fn after_a_death_every_sleeper_is_woken_in_the_way_that_it_sleeps() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    region.sleep_word(1).set_out(GOES_TO_SLEEP);
    for index in 2..=4 {
        region.sleep_word(index).set_out(GOES_TO_TRAP);
    }
    for index in 3..=4 {
        assert!(region.sleep_word(index).make(ENTERS_TRAP));
    }
    assert!(claim(&mut guard, id(4), true).is_some(), "by the one that died");
    let mut kicked = |index| kick(&mut guard, id(index));
    // It sleeps, or was said to be awake by a waker that died before it woke it.
    for index in [1, 2, 5] {
        let wake = kicked(index);
        assert!(matches!(wake, Some(Wake { way: Way::Futex, here: false, .. })), "{index}: {wake:?}");
    }
    for (index, rouses) in [(3, false), (4, false)] {
        let wake = kicked(index).expect("it is in the trap");
        assert!(matches!(wake.way, Way::Answer(None)), "{index}: {wake:?}");
        assert_eq!(wake.rouse, rouses, "the keeper looks already");
    }
}

#[test]
fn a_lender_is_woken_by_the_last_of_those_that_lend_in_turn() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let lends = |index: usize, to: u32| {
        region.sleep_word(index).set_out(GOES_TO_LEND);
        region.hold(index).store(u32::MAX >> 2, Relaxed);
        region.holder(index).store(to, Relaxed);
    };
    // The first lends to the second, that one to the third, which sleeps.
    lends(1, 2);
    lends(2, 3);
    region.sleep_word(3).set_out(GOES_TO_SLEEP);
    let wake = claim(&mut guard, id(1), true).expect("someone to wake");
    assert!(matches!(wake.way, Way::Futex), "{wake:?}");
    assert_eq!((wake.thread, wake.here), (id(3), false));
    assert!((1..=3).all(|index| region.sleep_word(index).is(Awake)));
    // The calling thread holds what the second waits for.
    lends(1, 2);
    lends(2, 3);
    region.hold(2).store(own_tid(), Relaxed);
    let wake = claim(&mut guard, id(1), true).expect("someone to wake");
    assert!(matches!(wake.way, Way::GiveBack), "{wake:?}");
    assert_eq!(wake.thread, id(2));
    // The holder runs: the lender looks by itself.
    lends(1, 2);
    assert!(claim(&mut guard, id(1), true).is_none());
    // They lend to each other, as only garbage says.
    lends(1, 2);
    lends(2, 1);
    assert!(claim(&mut guard, id(1), true).is_none());
}

#[test]
fn what_was_received_is_noted_for_the_thread_that_it_belongs_to_only() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let guard = Guard::lock(&region, &mut scratch);
    region.words()[TAG].store(5, Relaxed);
    for index in [1, 2] {
        region.sleep_word(index).set_out(GOES_TO_TRAP);
        assert!(region.sleep_word(index).make(ENTERS_TRAP));
    }
    let receives = |id: u64, of: u64, tag: u64| {
        let received = region.received();
        received[0].store(id, Relaxed);
        received[ARGUMENTS].store(of, Relaxed);
        received[ARGUMENTS + 1].store(tag, Relaxed);
        assert!(settle(&guard, None));
        assert!(received.iter().all(|word| word.load(Relaxed) == 0), "the place is free again");
    };
    let noted = || [1, 2, 3].map(|index| region.trap_id(index).load(Relaxed));
    receives(71, 1, 5);
    assert_eq!(noted(), [71, 0, 0]);
    receives(72, 2, 6);
    assert_eq!(noted(), [71, 0, 0], "another context's");
    receives(73, 3, 5);
    assert_eq!(noted(), [71, 0, 0], "it is not in the trap");
    receives(74, 2, 5);
    assert_eq!(noted(), [71, 74, 0]);
}

#[test]
fn a_claimed_thread_whose_listener_is_unknown_is_left_to_the_keeper() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    assert!(matches!(attempt(&region, id(1)), Attempt::Done), "it is awake");
    region.sleep_word(1).set_out(GOES_TO_TRAP);
    assert!(region.sleep_word(1).make(ENTERS_TRAP));
    assert!(region.sleep_word(1).make(CLAIMS));
    assert!(matches!(attempt(&region, id(1)), Attempt::Done), "it is nobody's");
    let mut guard = Guard::lock(&region, &mut scratch);
    let owner = Id::<Process>::new(7).expect("a slot");
    guard.set(id(1), thread::PROCESS, Some(owner));
    guard.set(owner, process::GENERATION, 3);
    drop(guard);
    assert!(matches!(attempt(&region, id(1)), Attempt::Unknown(slot, 3) if slot == owner));
    // This is the keeper, which takes it up itself.
    wake(&region, &Wake { thread: id(1), way: Way::Answer(None), here: true, rouse: false });
    assert_eq!(region.wakers().take_left(), [id(1)]);
    assert!(region.wakers().take_left().is_empty());
    wake(&region, &Wake { thread: id(2), way: Way::Futex, here: true, rouse: true });
    assert_eq!(region.wakers().take_left(), [id(2)]);
}

#[test]
fn a_participant_asks_for_help_only_for_threads_that_stay_claimed() {
    let region = Region::create().expect("memory");
    let (own, keeper) = std::os::unix::net::UnixStream::pair().expect("sockets");
    keeper.set_nonblocking(true).expect("a socket");
    region.wakers().set_keeper(Arc::new(std::sync::Mutex::new(own)));
    let asked = || std::io::Read::read(&mut &keeper, &mut [0; 2]).is_ok();
    let answer = || Wake { thread: id(1), way: Way::Answer(None), here: true, rouse: false };
    wake(&region, &answer());
    assert!(!asked(), "it is awake already");
    wake(&region, &Wake { rouse: true, ..answer() });
    assert!(asked() && !asked(), "to look after those that were claimed");
}
