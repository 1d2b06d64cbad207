//! Under the context's lock: which thread is woken, and how. After the unlock: the wake-up itself.
//!
//! A sleeper's word says how it sleeps (`sleep_word.rs`), so a waker knows how to wake it: by its
//! futex, by releasing its reply lock (`reply_lock.rs`), or by answering its seccomp notification.
//!
//! An answer needs the notification's id, and receiving returns *any* pending one of the process.
//! So notifications are received under the lock, into one place in the shared memory, and each id
//! is stored with the thread that it belongs to. A death loses nothing: the kernel stores a
//! notification or leaves it pending, the next receiver gives an id that is still in the place to
//! its thread, and the supervisor claims all threads in seccomp again after a death ([`kick`]). A
//! superfluous answer is harmless: a thread that was not claimed goes back to sleep.
//!
//! An answer can be lost: if a signal takes a thread out of seccomp at the moment of the answer,
//! the thread enters it again without running any code of ours. So while notifications are
//! answered, the supervisor looks every [`SWEEP`] for threads that stay claimed. It stops when
//! nothing happens, and the next waker wakes it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;

use super::{Guard, Scratch};
use crate::records::{Id, Process, RECEIVED_FROM, Record, TAG, Thread, WATCH, process, thread};
use crate::region::Region;
use crate::reply_lock;
use crate::seccomp::{self, ARGUMENTS};
use crate::sleep_word::State::{Awake, Claimed, InSeccomp};
use crate::sleep_word::{CLAIMS, KEEPS_FROM_SECCOMP, WAKES_PI_WAITER, WAKES_SLEEPER};

// Values of the word `WATCH`: a notification was answered since the supervisor's last look; none
// was; the supervisor does not look.
const BUSY: u64 = 2;
const QUIET: u64 = 1;
const DOZES: u64 = 0;

/// How often the supervisor looks for threads that stay claimed.
pub(crate) const SWEEP: Duration = Duration::from_millis(50);

/// A thread that must be woken after the unlock.
#[derive(Debug)]
pub(crate) struct Wake {
    thread: Id<Thread>,
    way: Way,
    here: bool,
    /// The supervisor must be asked to check claimed threads.
    rouse: bool,
}

#[derive(Debug)]
enum Way {
    Futex,
    /// By releasing its reply lock.
    GiveBack,
    /// By answering this notification, if it was found.
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

/// Under the lock: ends the wait of `waiter`, whose reply lock the calling thread owns.
pub(crate) fn give_back(waiter: Id<Thread>) -> Wake {
    Wake { thread: waiter, way: Way::GiveBack, here: true, rouse: false }
}

/// Tries again to wake a claimed thread, without the supervisor, which has no real-time priority.
pub(crate) fn wake_claimed_again(region: &Region, thread: Id<Thread>) {
    if region.sleep_word(thread.index()).is(Claimed) {
        attempt(region, thread);
    }
}

/// Under the lock: claims the wake-up of `thread`, if it sleeps or is about to. `here`: on this
/// CPU, if possible, because the caller is going to wait for it.
pub(crate) fn claim(guard: &mut Guard<'_>, thread: Id<Thread>, here: bool) -> Option<Wake> {
    let word = guard.region().sleep_word(thread.index());
    if !word.is(Awake) {
        let cpu = if here { own_cpu() } else { 0 };
        guard.region().waker(thread.index()).store(cpu, Relaxed);
    }
    if word.make(WAKES_SLEEPER) {
        return Some(Wake { thread, way: Way::Futex, here, rouse: false });
    }
    if word.make(KEEPS_FROM_SECCOMP) {
        return None;
    }
    if word.make(WAKES_PI_WAITER) {
        return claim_lock_owner(guard, thread);
    }
    if !word.make(CLAIMS) {
        return None;
    }
    let watch = &guard.region().words()[WATCH];
    let rouse = watch.load(Relaxed) == DOZES;
    watch.store(BUSY, Relaxed);
    Some(Wake { thread, way: Way::Answer(find(guard, thread, None)), here, rouse })
}

/// Under the lock: claims `waiter`, which was boosting its server. The owner of its reply lock
/// wakes it: this thread, or one that must be woken for that, perhaps through others in turn. An
/// owner that is running releases the lock before it sleeps. `waiter` also checks its word from
/// time to time.
#[cold]
fn claim_lock_owner(guard: &mut Guard<'_>, waiter: Id<Thread>) -> Option<Wake> {
    let region = guard.region();
    let mut waiter = waiter;
    for _ in 0..Thread::COUNT {
        if reply_lock::is_own(region, waiter) {
            return Some(give_back(waiter));
        }
        let holder = Id::<Thread>::new(region.lock_owner(waiter.index()).load(Relaxed).into())?;
        if !region.sleep_word(holder.index()).make(WAKES_PI_WAITER) {
            return claim(guard, holder, false);
        }
        waiter = holder;
    }
    None
}

/// Under the lock: makes `thread` look for work again, even if another thread has claimed it. After
/// a death, a wake-up that the dead process had claimed may never have been sent.
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
        Way::GiveBack => reply_lock::give_back(region, wake.thread),
        Way::Answer(Some(found)) if found.answer(wake.here) => {}
        // The supervisor never waits. It tries later to wake the threads that are still asleep.
        Way::Answer(_) if region.wakers().is_supervisor() => region.wakers().leave_to_supervisor(wake.thread),
        Way::Answer(_) => pursue(region, wake.thread),
    }
    if wake.rouse {
        region.wakers().leave_to_supervisor(wake.thread);
    }
}

impl Notification {
    fn answer(&self, here: bool) -> bool {
        let listener = self.listener.as_fd();
        // EINPROGRESS: it has been answered, but the thread has not run yet.
        let answer = || matches!(seccomp::answer(listener, self.id), Ok(()) | Err(Errno::INPROGRESS));
        if here {
            return answer();
        }
        // A thread killed in between leaves the listener without the flag; the supervisor sets it
        // again.
        let _ = seccomp::set_flags(listener, false);
        let answered = answer();
        let _ = seccomp::set_flags(listener, true);
        answered
    }
}

/// How long a waker waits at a time for a thread that has not quite entered seccomp, and how often,
/// before it leaves the thread to the supervisor.
const PATIENCE_NS: i64 = 200_000;
const ATTEMPTS: u32 = 3;

/// Tries several times to wake a claimed thread. Its notification may not have arrived yet, or a
/// signal may have replaced it by another.
#[cold]
fn pursue(region: &Region, thread: Id<Thread>) {
    for _ in 0..ATTEMPTS {
        match attempt(region, thread) {
            Attempt::Done => return,
            Attempt::Again => {}
            Attempt::Later(listener) => {
                seccomp::is_pending(listener.as_fd(), PATIENCE_NS);
            }
            Attempt::Unknown(slot, generation) => {
                if !region.wakers().fetch(slot, generation) {
                    break;
                }
            }
        }
    }
    region.wakers().leave_to_supervisor(thread);
}

/// How an [`attempt`] ended.
pub(crate) enum Attempt {
    /// The thread is awake, or about to be.
    Done,
    /// It is claimed and has not entered seccomp yet.
    Later(Arc<OwnedFd>),
    /// Each id known for it was stale.
    Again,
    /// The listener of its process, with this generation of its slot, is not known here.
    Unknown(Id<Process>, u64),
}

/// Tries to wake a claimed thread. Takes the lock.
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
        // It was answered already, or a signal ended it and the thread enters seccomp again.
        stale = Some(found.id);
    }
    Attempt::Again
}

/// Collects the threads that are claimed now, for the supervisor. False if it need not look again
/// until it is woken.
pub(crate) fn sweep(guard: &mut Guard<'_>, claimed: &mut Vec<Id<Thread>>) -> bool {
    let region = guard.region();
    let used = guard.word(Thread::UNUSED);
    let is_claimed = |id: &Id<Thread>| region.sleep_word(id.index()).is(Claimed);
    // Collects all of them, including those known before.
    claimed.clear();
    claimed.extend((1..used).map_while(Id::<Thread>::new).filter(is_claimed));
    let watch = &region.words()[WATCH];
    let next = if watch.load(Relaxed) == BUSY || !claimed.is_empty() { QUIET } else { DOZES };
    watch.store(next, Relaxed);
    next != DOZES
}

/// True while `thread` is in seccomp or on its way out.
fn is_in_seccomp(region: &Region, thread: Id<Thread>) -> bool {
    matches!(region.sleep_word(thread.index()).state(), InSeccomp | Claimed)
}

fn listener_of(guard: &Guard<'_>, thread: Id<Thread>) -> Option<Arc<OwnedFd>> {
    let owner = guard.get(thread, thread::PROCESS)?;
    guard.region().wakers().listener(owner, guard.get(owner, process::GENERATION))
}

/// Under the lock: the notification of a thread in seccomp, other than the one known to be `stale`.
fn find(guard: &mut Guard<'_>, thread: Id<Thread>, stale: Option<u64>) -> Option<Notification> {
    let region = guard.region();
    let listener = listener_of(guard, thread)?;
    let known = region.notification_id(thread.index());
    // Each round receives one, and there cannot be more than there are threads.
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

/// Under the lock: receives all pending notifications of a process, so that their ids are known.
pub(crate) fn receive_all(guard: &Guard<'_>, listener: BorrowedFd<'_>) {
    for _ in 0..=Thread::COUNT {
        if !receive_next(guard, listener, None) {
            return;
        }
    }
}

/// Under the lock: receives a notification from the listener of `owner`, and stores its id with its
/// thread. If the calling thread is killed in between, others continue with the recorded `owner`.
/// False if there is none to receive.
fn receive_next(guard: &Guard<'_>, listener: BorrowedFd<'_>, owner: Option<Id<Process>>) -> bool {
    let region = guard.region();
    if !settle(guard, None) || !seccomp::is_pending(listener, 0) {
        return false;
    }
    if let Some(owner) = owner {
        region.words()[RECEIVED_FROM].store(owner.index() as u64, Relaxed);
    }
    Region::order();
    let _ = seccomp::receive(listener, region.received());
    settle(guard, Some(listener));
    true
}

/// Under the lock: stores the id that was received last with the thread that it belongs to. False
/// if the thread is not in this context and only the supervisor can answer it. `from` is the
/// listener that it was received from, if the caller received it.
fn settle(guard: &Guard<'_>, from: Option<BorrowedFd<'_>>) -> bool {
    let words = guard.region().words();
    let received = guard.region().received();
    let id = received[0].load(Relaxed);
    if id != 0 {
        let owner = Id::<Thread>::new(received[ARGUMENTS].load(Relaxed));
        let same_context = received[ARGUMENTS + 1].load(Relaxed) == words[TAG].load(Relaxed);
        if let Some(owner) = owner.filter(|&owner| same_context && is_in_seccomp(guard.region(), owner)) {
            guard.region().notification_id(owner.index()).store(id, Relaxed);
        } else if let Some(listener) = from {
            let _ = seccomp::answer(listener, id);
        } else if let Some(from) = Id::<Process>::new(words[RECEIVED_FROM].load(Relaxed)) {
            let generation = guard.get(from, process::GENERATION);
            let Some(listener) = guard.region().wakers().listener(from, generation) else { return false };
            // A sleeper of another context, or one that has left: it checks its word, and sleeps
            // again.
            let _ = seccomp::answer(listener.as_fd(), id);
        }
    }
    Region::order();
    for word in received {
        word.store(0, Relaxed);
    }
    true
}

#[cfg(test)]
mod tests;
