//! How a process's threads leave a context that has ended, whatever its memory contains.
//!
//! They sleep on words of the shared memory, and wakers rely on what others have written there. If
//! that were garbage, a thread would sleep forever. So this code relies only on what the process
//! itself knows: that the context has ended ([`Region::ended`]), and how many of its threads are in
//! seccomp.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::lock::{Guard, Scratch, wake};
use crate::records::THREADS;
use crate::region::Region;
use crate::seccomp::{self, NOTIFICATION_WORDS};

/// How long a thread may take to leave, or to reach a point where it can be woken.
const PAUSE: Duration = Duration::from_millis(1);
/// After so many pauses, notifications of sleeping threads count as lost.
const PATIENT: u32 = 50;
/// After so many pauses, [`wake_to_leave`] gives up.
const MOST: u32 = 1000;

/// Locked by the thread of this process that receives. Of two receivers, one would wait for a
/// notification that the other took.
static RECEIVING: Mutex<()> = Mutex::new(());

/// Wakes all threads of this process that sleep in the ended context, and waits until they are
/// awake.
pub(crate) fn wake_to_leave(region: &Region) {
    wake_to_leave_in_rounds(region);
}

/// Like [`wake_to_leave`]; returns the number of pauses.
fn wake_to_leave_in_rounds(region: &Region) -> u32 {
    for round in 0..MOST {
        // A thread may have been on its way to sleep when the context ended.
        if round < 3 {
            wake_futexes(region);
        }
        answer_notifications(region);
        if round != 0 && region.wakers().trapped() == 0 {
            return round;
        }
        if round == PATIENT {
            answer_lost(region);
        }
        std::thread::sleep(PAUSE);
    }
    MOST
}

/// Wakes all threads of the context. For threads of other processes this is a spurious wake-up. It
/// ignores what the words say; each thread checks [`Region::ended`] when it wakes.
fn wake_futexes(region: &Region) {
    for index in 1..THREADS {
        region.sleep_word(index).wake(i32::MAX.cast_unsigned());
    }
}

/// Answers all notifications of this process: those that a participant has received and stored, and
/// those that are still pending.
fn answer_notifications(region: &Region) {
    let Some(listener) = region.wakers().own_listener() else { return };
    receiving(region, || {
        wake::receive_all(&Guard::lock(region, &mut Scratch::default()), listener.as_fd());
    });
    for id in (1..THREADS).map(|index| region.notification_id(index).load(Relaxed)).filter(|&id| id != 0) {
        let _ = seccomp::answer(listener.as_fd(), id);
    }
}

/// Answers notifications whose ids were overwritten. The kernel counts ids up, from a random start
/// for each filter (`seccomp_next_notify_id` in its `kernel/seccomp.c`). So the ids of sleeping
/// threads are a little below the next one.
fn answer_lost(region: &Region) {
    /// How far back to search. A sleeper with an older notification is not found.
    const IDS: u64 = 1 << 22;
    let Some(listener) = region.wakers().own_listener() else { return };
    let latest = receiving(region, || {
        // Creates a notification to receive. This thread is in no context, and reads no word.
        let trapped = std::thread::Builder::new().spawn(|| seccomp::sleep(0, 0)).ok()?;
        let received: [AtomicU64; NOTIFICATION_WORDS] = Default::default();
        let mut latest = None;
        for _ in 0..MOST {
            if trapped.is_finished() {
                break;
            }
            if seccomp::is_pending(listener.as_fd(), PAUSE.as_nanos() as i64) {
                received.iter().for_each(|word| word.store(0, Relaxed));
                let _ = seccomp::receive(listener.as_fd(), &received);
                let [id, ..] = &received;
                let id = id.load(Relaxed);
                let _ = seccomp::answer(listener.as_fd(), id);
                latest = Some(id).filter(|&id| id != 0).or(latest);
            }
        }
        latest
    });
    let Some(latest) = latest.flatten() else { return };
    for back in 0..IDS {
        let _ = seccomp::answer(listener.as_fd(), latest.wrapping_sub(back));
        if back.is_multiple_of(1024) && region.wakers().trapped() == 0 {
            break;
        }
    }
}

/// Receives, but only if threads of this process are in seccomp for this context. Otherwise a
/// pending notification belongs to another context, whose threads may be receiving it.
fn receiving<T>(region: &Region, receive: impl FnOnce() -> T) -> Option<T> {
    let _alone = RECEIVING.lock().unwrap_or_else(PoisonError::into_inner);
    if !region.wakers().enter_beside() {
        return None;
    }
    let received = receive();
    region.wakers().leave();
    Some(received)
}

#[cfg(test)]
mod tests;
