//! Under the context's lock: who is woken, and how. After the unlock: the waking.
//!
//! A sleeper's word says how it sleeps (`sleep_word.rs`), so a waker knows what its thread needs. One on its futex is woken there,
//! one that lends is given its hold back (`hold.rs`), and one in its trap must be answered.
//!
//! An answer needs the notification's id, and receiving gives *any* pending one of the process. So receiving happens
//! under the lock, into one place of the shared memory, and each id is kept with the thread that it belongs to. Death
//! loses nothing: the kernel stores a notification or leaves it pending, whoever finds the place occupied first gives
//! that id to its thread, and the keeper claims all trapped threads again after a death ([`kick`]). An answer too many
//! is harmless: a thread that nobody has claimed goes back to sleep.
//!
//! An answer can be lost: a thread that a signal takes out of its trap in the instant of the answer enters it again,
//! without running any code of ours. So while traps are answered, the keeper looks every [`SWEEP`] for threads that stay
//! claimed; when nothing happens it stops, and the next waker rouses it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;

use super::{Guard, Scratch};
use crate::hold;
use crate::records::{Id, Process, RECEIVED_FROM, Record, TAG, Thread, WATCH, process, thread};
use crate::region::Region;
use crate::sleep_word::State::{Awake, Claimed, Trapped};
use crate::sleep_word::{CLAIMS, KEEPS_FROM_TRAP, WAKES_LENDER, WAKES_SLEEPER};
use crate::trap::{self, ARGUMENTS};

// What the word `WATCH` says: since the keeper's last look, a trap was answered; none was; or it does not look.
const BUSY: u64 = 2;
const QUIET: u64 = 1;
const DOZES: u64 = 0;

/// How often the keeper looks for threads that stay claimed.
pub(crate) const SWEEP: Duration = Duration::from_millis(50);

/// A thread that must be woken after the unlock.
#[derive(Debug)]
pub(crate) struct Wake {
    thread: Id<Thread>,
    way: Way,
    here: bool,
    /// The keeper must be told to look after claimed threads.
    rouse: bool,
}

#[derive(Debug)]
enum Way {
    Futex,
    /// By giving its hold back.
    GiveBack,
    /// By answering this notification, where it could be found.
    Answer(Option<Notification>),
}

#[derive(Clone, Debug)]
struct Notification {
    listener: Arc<OwnedFd>,
    id: u64,
}

/// The CPU that the calling thread runs on, plus one.
pub(crate) fn own_cpu() -> u32 {
    (rustix::thread::sched_getcpu() as u32).saturating_add(1)
}

/// Under the lock: makes `lender` wait for nothing any more, whose hold the calling thread has.
pub(crate) fn give_back(lender: Id<Thread>) -> Wake {
    Wake { thread: lender, way: Way::GiveBack, here: true, rouse: false }
}

/// Tries again to wake a thread that is claimed, without the keeper, which has no real-time priority.
pub(crate) fn hurry_claimed(region: &Region, thread: Id<Thread>) {
    if region.sleep_word(thread.index()).is(Claimed) {
        attempt(region, thread);
    }
}

/// Under the lock: claims the wake-up of `thread`, if it sleeps or is about to. `here`: on this CPU, if possible,
/// since the caller is going to wait for it.
pub(crate) fn claim(guard: &mut Guard<'_>, thread: Id<Thread>, here: bool) -> Option<Wake> {
    let word = guard.region().sleep_word(thread.index());
    if !word.is(Awake) {
        let cpu = if here { own_cpu() } else { 0 };
        guard.region().waker(thread.index()).store(cpu, Relaxed);
    }
    if word.make(WAKES_SLEEPER) {
        return Some(Wake { thread, way: Way::Futex, here, rouse: false });
    }
    if word.make(KEEPS_FROM_TRAP) {
        return None;
    }
    if word.make(WAKES_LENDER) {
        return claim_holder(guard, thread);
    }
    if !word.make(CLAIMS) {
        return None;
    }
    let watch = &guard.region().words()[WATCH];
    let rouse = watch.load(Relaxed) == DOZES;
    watch.store(BUSY, Relaxed);
    Some(Wake { thread, way: Way::Answer(find(guard, thread, None)), here, rouse })
}

/// Under the lock: `lender`, which was lending, is claimed. It is woken by whoever has its hold: this thread, or one that must be
/// woken for that, perhaps by another in turn. One that runs gives it back before it sleeps; `lender` looks by itself after a while.
#[cold]
fn claim_holder(guard: &mut Guard<'_>, lender: Id<Thread>) -> Option<Wake> {
    let region = guard.region();
    let mut lender = lender;
    for _ in 0..Thread::COUNT {
        if hold::is_own(region, lender) {
            return Some(give_back(lender));
        }
        let holder = Id::<Thread>::new(region.holder(lender.index()).load(Relaxed).into())?;
        if !region.sleep_word(holder.index()).make(WAKES_LENDER) {
            return claim(guard, holder, false);
        }
        lender = holder;
    }
    None
}

/// Under the lock: makes `thread` look for work again, whoever claimed it: after a death, a wake-up that the dead
/// process had claimed may never have been sent.
pub(crate) fn kick(guard: &mut Guard<'_>, thread: Id<Thread>) -> Option<Wake> {
    let claimed = claim(guard, thread, false);
    let way = match guard.region().sleep_word(thread.index()).state() {
        Awake => Way::Futex,
        Claimed => Way::Answer(None),
        _ => return claimed,
    };
    claimed.or(Some(Wake { thread, way, here: false, rouse: false }))
}

/// After the unlock: wakes a thread whose wake-up was claimed.
pub(crate) fn wake(region: &Region, wake: &Wake) {
    match &wake.way {
        Way::Futex => region.sleep_word(wake.thread.index()).wake(1),
        Way::GiveBack => hold::give_back(region, wake.thread),
        Way::Answer(Some(found)) if found.answer(wake.here) => {}
        // The keeper waits for nobody: it comes back to those that it has not woken.
        Way::Answer(_) if region.wakers().is_keeper() => region.wakers().leave_to_keeper(wake.thread),
        Way::Answer(_) => pursue(region, wake.thread),
    }
    if wake.rouse {
        region.wakers().leave_to_keeper(wake.thread);
    }
}

impl Notification {
    fn answer(&self, here: bool) -> bool {
        let listener = self.listener.as_fd();
        // EINPROGRESS: someone has answered it, the thread has not run yet.
        let answer = || matches!(trap::answer(listener, self.id), Ok(()) | Err(Errno::INPROGRESS));
        if here {
            return answer();
        }
        // Killed in between, it leaves a listener without the hint; the keeper gives it back.
        let _ = trap::set_flags(listener, false);
        let answered = answer();
        let _ = trap::set_flags(listener, true);
        answered
    }
}

/// How long a waker waits at a time for a thread that has not quite reached its trap, and how often, before it leaves
/// it to the keeper.
const PATIENCE_NS: i64 = 200_000;
const ATTEMPTS: u32 = 3;

/// A claimed thread's notification was not there yet, or a signal has replaced it by another.
#[cold]
fn pursue(region: &Region, thread: Id<Thread>) {
    for _ in 0..ATTEMPTS {
        match attempt(region, thread) {
            Attempt::Done => return,
            Attempt::Again => {}
            Attempt::Later(listener) => {
                trap::is_pending(listener.as_fd(), PATIENCE_NS);
            }
            Attempt::Unknown(slot, generation) => {
                if !region.wakers().fetch(slot, generation) {
                    break;
                }
            }
        }
    }
    region.wakers().leave_to_keeper(thread);
}

/// How an [`attempt`] ended.
pub(crate) enum Attempt {
    /// The thread is awake, or going to be.
    Done,
    /// It is claimed and has not trapped yet.
    Later(Arc<OwnedFd>),
    /// What was known of its trap was wrong each time.
    Again,
    /// The listener of its process, which has this generation of a slot, is not known here.
    Unknown(Id<Process>, u64),
}

/// Tries to wake a thread that someone has claimed. Takes the lock.
pub(crate) fn attempt(region: &Region, thread: Id<Thread>) -> Attempt {
    let mut scratch = Scratch::default();
    let mut stale = None;
    for _ in 0..ATTEMPTS {
        let mut guard = Guard::lock(region, &mut scratch);
        if !region.sleep_word(thread.index()).is(Claimed) {
            return Attempt::Done;
        }
        let Some(found) = find(&mut guard, thread, stale) else {
            let Some(owner) = guard.get(thread, thread::PROCESS) else { return Attempt::Done };
            let generation = guard.get(owner, process::GENERATION);
            return match region.wakers().listener(owner, generation) {
                Some(listener) => Attempt::Later(listener),
                None => Attempt::Unknown(owner, generation),
            };
        };
        guard.unlock();
        if found.answer(false) {
            return Attempt::Done;
        }
        // It was answered already, or a signal ended it and the thread traps again.
        stale = Some(found.id);
    }
    Attempt::Again
}

/// Threads that are claimed now, for the keeper to look after. False when it need not look again until it is roused.
pub(crate) fn sweep(guard: &mut Guard<'_>, claimed: &mut Vec<Id<Thread>>) -> bool {
    let region = guard.region();
    let used = guard.word(Thread::UNUSED);
    let is_claimed = |id: &Id<Thread>| region.sleep_word(id.index()).is(Claimed);
    // All of them: those that were known are among them.
    claimed.clear();
    claimed.extend((1..used).map_while(Id::<Thread>::new).filter(is_claimed));
    let watch = &region.words()[WATCH];
    let next = if watch.load(Relaxed) == BUSY || !claimed.is_empty() { QUIET } else { DOZES };
    watch.store(next, Relaxed);
    next != DOZES
}

/// True while `thread` is in its trap or on its way out.
fn is_trapped(region: &Region, thread: Id<Thread>) -> bool {
    matches!(region.sleep_word(thread.index()).state(), Trapped | Claimed)
}

fn listener_of(guard: &Guard<'_>, thread: Id<Thread>) -> Option<Arc<OwnedFd>> {
    let owner = guard.get(thread, thread::PROCESS)?;
    guard.region().wakers().listener(owner, guard.get(owner, process::GENERATION))
}

/// Under the lock: the notification of a trapped thread, other than the one known to be `stale`.
fn find(guard: &mut Guard<'_>, thread: Id<Thread>, stale: Option<u64>) -> Option<Notification> {
    let region = guard.region();
    let listener = listener_of(guard, thread)?;
    let known = region.trap_id(thread.index());
    // Each round receives one; there cannot be more than threads.
    for _ in 0..=Thread::COUNT {
        match known.load(Relaxed) {
            0 => {}
            id if Some(id) != stale => return Some(Notification { listener, id }),
            _ => known.store(0, Relaxed),
        }
        let owner = guard.get(thread, thread::PROCESS)?;
        if !receive_next(guard, listener.as_fd(), Some(owner)) {
            return None;
        }
    }
    None
}

/// Under the lock: receives whatever a process's threads have waiting, so that their ids are known.
pub(crate) fn receive_all(guard: &Guard<'_>, listener: BorrowedFd<'_>) {
    for _ in 0..=Thread::COUNT {
        if !receive_next(guard, listener, None) {
            return;
        }
    }
}

/// Under the lock: receives a notification from the listener of `owner`, and gives its id to the thread that it belongs to. Should
/// the calling thread be killed in between, others go on by what stands of `owner`. False when there is none to receive.
fn receive_next(guard: &Guard<'_>, listener: BorrowedFd<'_>, owner: Option<Id<Process>>) -> bool {
    let region = guard.region();
    if !settle(guard, None) || !trap::is_pending(listener, 0) {
        return false;
    }
    if let Some(owner) = owner {
        region.words()[RECEIVED_FROM].store(owner.index() as u64, Relaxed);
    }
    Region::order();
    let _ = trap::receive(listener, region.received());
    settle(guard, Some(listener));
    true
}

/// Under the lock: gives the id that was received last to the thread that it belongs to. False when it is nobody's here, and
/// only the keeper can answer it. `from` is the listener that it was received from, where the caller did that.
fn settle(guard: &Guard<'_>, from: Option<BorrowedFd<'_>>) -> bool {
    let words = guard.region().words();
    let received = guard.region().received();
    let id = received[0].load(Relaxed);
    if id != 0 {
        let owner = Id::<Thread>::new(received[ARGUMENTS].load(Relaxed));
        let same_context = received[ARGUMENTS + 1].load(Relaxed) == words[TAG].load(Relaxed);
        if let Some(owner) = owner.filter(|&owner| same_context && is_trapped(guard.region(), owner)) {
            guard.region().trap_id(owner.index()).store(id, Relaxed);
        } else if let Some(listener) = from {
            let _ = trap::answer(listener, id);
        } else if let Some(from) = Id::<Process>::new(words[RECEIVED_FROM].load(Relaxed)) {
            let generation = guard.get(from, process::GENERATION);
            let Some(listener) = guard.region().wakers().listener(from, generation) else { return false };
            // Another context's sleeper, or one that has left: it looks at its word, and sleeps on.
            let _ = trap::answer(listener.as_fd(), id);
        }
    }
    Region::order();
    for word in received {
        word.store(0, Relaxed);
    }
    true
}

#[cfg(test)]
mod tests {
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
}
