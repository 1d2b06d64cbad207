//! How a thread sleeps and how it is woken: on a futex, or, so that it can be woken on its waker's CPU, in a trap.
//!
//! A thread decides to sleep under the lock ([`will_sleep`]), so a waker, which gives it work under the lock, sees
//! that it will, and no wake-up is lost. Which way it sleeps stands in its word, so wakers of both kinds meet:
//!
//! - `ASLEEP`: on the futex that the word is. A waker makes it `AWAKE` and wakes the futex.
//! - `WILL_TRAP`: about to sleep in the trap. A waker makes it `AWAKE`, and it will not go; nothing else is needed.
//! - `LENDS`: in the kernel's queue for its hold (`hold.rs`). A waker makes it `AWAKE`, and whoever holds that gives it back.
//! - `TRAPPED`: in the trap, or within an instruction of it. A waker makes it `CLAIMED`; that must end with an answer.
//!   Only the thread itself leaves this state.
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

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;

use crate::hold;
use crate::lock::{Guard, Scratch};
use crate::records::{Id, Process, RECEIVED_FROM, Record, TAG, Thread, WATCH, process, thread};
use crate::region::Region;
use crate::trap::{self, ARGUMENTS, Ended};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const WILL_TRAP: u32 = 2;
const TRAPPED: u32 = 3;
const CLAIMED: u32 = 4;
const LENDS: u32 = 5;

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

/// For how many sleeps a thread uses the trap after it found that a futex woke it on another CPU than its waker's: at first,
/// and at most. In between it tries the futex once, which costs nothing where the kernel keeps both together by itself.
const SPANS: (u32, u32) = (64, 4096);

thread_local! {
    /// How many sleeps are left to the trap, and how many it was given last.
    static TRAP: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// The CPU that the calling thread runs on, plus one.
fn own_cpu() -> u32 {
    (rustix::thread::sched_getcpu() as u32).saturating_add(1)
}

/// After the calling thread was woken by a futex, by one on this CPU (plus one; 0: by one that did not wait for it).
fn learn(waker: u32) {
    let crossed = waker != 0 && own_cpu() != waker;
    // One that may use one CPU only is woken there either way.
    let helps = crossed && rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() > 1);
    let span = if helps { TRAP.get().1.saturating_mul(4).clamp(SPANS.0, SPANS.1) } else { 0 };
    TRAP.set((span, span));
}

/// A new thread has nothing of its record's last user.
pub(crate) fn reset(region: &Region, thread: Id<Thread>) {
    region.waker(thread.index()).store(0, Relaxed);
    hold::reset(region, thread);
    region.futex(thread.index()).store(AWAKE, Release);
}

/// Under the lock: the calling `thread` found no work and will call [`sleep`] after the unlock. The kernel places only
/// threads of its `fair` class by where they are woken.
///
/// In the trap, if that is likely to help: a futex woke it on another CPU than its waker's. True then.
pub(crate) fn will_sleep(region: &Region, thread: Id<Thread>, fair: bool) -> bool {
    region.trap_id(thread.index()).store(0, Relaxed);
    let (left, span) = TRAP.get();
    let traps = fair && left != 0 && region.wakers().enter();
    TRAP.set((left.saturating_sub(1), span));
    region.futex(thread.index()).store(if traps { WILL_TRAP } else { ASLEEP }, Release);
    traps
}

/// As [`will_sleep`], for one that lends its priority while it waits.
pub(crate) fn will_lend(region: &Region, thread: Id<Thread>) {
    region.futex(thread.index()).store(LENDS, Release);
}

/// Whether `thread` lends its priority, or is about to.
pub(crate) fn lends(region: &Region, thread: Id<Thread>) -> bool {
    region.futex(thread.index()).load(Acquire) == LENDS
}

/// The calling `thread` lends no longer. It sleeps on its futex instead, or does not sleep, unless it was woken.
pub(crate) fn stop_lending(region: &Region, thread: Id<Thread>, sleeps: bool) {
    let next = if sleeps { ASLEEP } else { AWAKE };
    let _ = region.futex(thread.index()).compare_exchange(LENDS, next, AcqRel, Acquire);
}

/// Whether `thread` sleeps, or is about to.
pub(crate) fn is_asleep(region: &Region, thread: Id<Thread>) -> bool {
    matches!(region.futex(thread.index()).load(Acquire), ASLEEP | WILL_TRAP | TRAPPED | LENDS)
}

/// Under the lock: makes `lender` wait for nothing any more, whose hold the calling thread has.
pub(crate) fn give_back(lender: Id<Thread>) -> Wake {
    Wake { thread: lender, way: Way::GiveBack, here: true, rouse: false }
}

/// Tries again to wake a thread that is claimed, without the keeper, which has no real-time priority.
pub(crate) fn hurry_claimed(region: &Region, thread: Id<Thread>) {
    if region.futex(thread.index()).load(Acquire) == CLAIMED {
        attempt(region, thread);
    }
}

/// How a [`sleep`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slept {
    /// Someone claimed the wake-up, or the context has ended.
    Woken,
    /// Nobody did: a signal was handled.
    Interrupted,
}

/// After the unlock: sleeps until someone claims the wake-up. `traps` is what [`will_sleep`] said.
///
/// A signal handler ends it too, unless it was installed with `SA_RESTART`: the kernel then enters either sleep again, with no
/// code of ours in between. One that lends its priority sleeps on (`FUTEX_LOCK_PI` is restarted always).
pub(crate) fn sleep(region: &Region, thread: Id<Thread>, traps: bool) -> Slept {
    let word = region.futex(thread.index());
    let mut slept = Slept::Woken;
    // Whoever claims it first has it: a claimed thread was woken, whatever else came.
    let mut leave = |from| {
        let left = word.compare_exchange(from, AWAKE, AcqRel, Acquire).is_ok();
        slept = if left { Slept::Interrupted } else { Slept::Woken };
    };
    if word.load(Relaxed) == LENDS {
        hold::wait(region, thread);
        if word.load(Acquire) == AWAKE {
            return Slept::Woken;
        }
    }
    if word.compare_exchange(WILL_TRAP, TRAPPED, AcqRel, Acquire).is_ok() {
        let tag = region.words()[TAG].load(Relaxed);
        while word.load(Acquire) == TRAPPED && region.ended().is_none() {
            match trap::trap(thread.index() as u64, tag) {
                Ended::Answered => {}
                Ended::Interrupted => leave(TRAPPED),
                Ended::NotHeld => {
                    region.wakers().stop_trapping();
                    let _ = word.compare_exchange(TRAPPED, ASLEEP, AcqRel, Acquire);
                }
            }
        }
        let _ = word.compare_exchange(CLAIMED, AWAKE, AcqRel, Acquire);
    }
    while word.load(Acquire) == ASLEEP && region.ended().is_none() {
        // EAGAIN: woken before it slept. EINTR: a signal, which has been handled.
        if futex::wait(word, futex::Flags::empty(), ASLEEP, None) == Err(Errno::INTR) {
            leave(ASLEEP);
        }
    }
    if slept == Slept::Interrupted {
        if traps {
            region.wakers().leave();
        }
        return slept;
    }
    let waker = region.waker(thread.index()).load(Relaxed);
    if traps {
        region.wakers().leave();
        if waker == 0 {
            TRAP.set((0, 0));
        }
    } else {
        learn(waker);
    }
    Slept::Woken
}

/// Under the lock: claims the wake-up of `thread`, if it sleeps or is about to. `here`: on this CPU, if possible,
/// since the caller is going to wait for it.
pub(crate) fn claim(guard: &mut Guard<'_>, thread: Id<Thread>, here: bool) -> Option<Wake> {
    let word = guard.region().futex(thread.index());
    let becomes = |from, to| word.compare_exchange(from, to, AcqRel, Acquire).is_ok();
    if word.load(Relaxed) != AWAKE {
        let cpu = if here { own_cpu() } else { 0 };
        guard.region().waker(thread.index()).store(cpu, Relaxed);
    }
    if becomes(ASLEEP, AWAKE) {
        return Some(Wake { thread, way: Way::Futex, here, rouse: false });
    }
    if becomes(WILL_TRAP, AWAKE) {
        return None;
    }
    if becomes(LENDS, AWAKE) {
        return claim_holder(guard, thread);
    }
    if !becomes(TRAPPED, CLAIMED) {
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
        let word = region.futex(holder.index());
        if word.compare_exchange(LENDS, AWAKE, AcqRel, Acquire).is_err() {
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
    let word = guard.region().futex(thread.index());
    let way = match word.load(Acquire) {
        AWAKE => Way::Futex,
        CLAIMED => Way::Answer(None),
        _ => return claimed,
    };
    claimed.or(Some(Wake { thread, way, here: false, rouse: false }))
}

/// After the unlock: wakes a thread whose wake-up was claimed.
pub(crate) fn wake(region: &Region, wake: &Wake) {
    match &wake.way {
        Way::Futex => {
            let _ = futex::wake(region.futex(wake.thread.index()), futex::Flags::empty(), 1);
        }
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
        if region.futex(thread.index()).load(Acquire) != CLAIMED {
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
    let is_claimed = |id: &Id<Thread>| region.futex(id.index()).load(Acquire) == CLAIMED;
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
    matches!(region.futex(thread.index()).load(Acquire), TRAPPED | CLAIMED)
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
