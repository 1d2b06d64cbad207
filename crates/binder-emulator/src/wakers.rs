#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! What a participant needs to wake others that sleep in seccomp: their processes' listeners, and
//! the supervisor's help.
//!
//! A process has one filter and one listener for all contexts that it joins ([`own_listener`]). It
//! gives its listener to the supervisor when it joins. Processes that must wake its threads request
//! it from the supervisor. `lock/wake.rs` has the wake-up itself.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::records::{Id, Process, Thread};
use crate::seccomp;
use crate::supervisor_line::{self, Request, ToSupervisor};

/// How the threads of a process are to be woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeUp {
    /// On the caller's CPU if that costs the process nothing: it has `CAP_SYS_ADMIN`, or
    /// `no_new_privs` is set. Otherwise through a futex, on the CPU that the scheduler chooses.
    #[default]
    Auto,
    /// On the caller's CPU, even if `no_new_privs` must be set for that. From then on neither this
    /// process nor its children can gain privileges by executing set-user-id programs (prctl(2)).
    NoNewPrivileges,
    /// Through a futex. No seccomp filter is installed.
    Futex,
}

/// A listener, with the generation of its process's slot.
type Known = (u64, Arc<OwnedFd>);

/// One for each participant (and the supervisor), beside its mapping of the context.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// By the process's slot.
    listeners: RwLock<Vec<Option<Known>>>,
    /// The number of the context in this process; 0: threads of this participant never sleep in the
    /// call.
    traps: AtomicU32,
    /// The same, also where its threads do not.
    context: AtomicU32,
    /// None: this is the supervisor.
    supervisor: OnceLock<ToSupervisor>,
    left: Mutex<Vec<Id<Thread>>>,
}

impl Wakers {
    /// From now on, requests to the supervisor go over `connection`.
    pub(crate) fn set_supervisor(&self, connection: ToSupervisor) {
        let _ = self.supervisor.set(connection);
    }

    /// Whether threads of this participant sleep in seccomp.
    pub(crate) fn uses_seccomp(&self) -> bool {
        self.traps.load(Relaxed) != 0
    }

    /// The supervisor has this participant's listener.
    pub(crate) fn start_seccomp(&self, slot: Id<Process>, generation: u64) {
        let context = self.context.load(Relaxed);
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot has one owner at a time.
        own.joined.retain(|&(of, at, _)| (of, at) != (context, slot.index()));
        own.joined.push((context, slot.index(), generation));
        self.traps.store(context, Relaxed);
    }

    /// No filter suspends calls here.
    pub(crate) fn stop_seccomp(&self) {
        self.traps.store(0, Relaxed);
    }

    /// The calling thread will sleep in seccomp, and call [`Wakers::leave`] afterwards. False if it
    /// must not.
    pub(crate) fn enter(&self) -> bool {
        let context = u64::from(self.traps.load(Relaxed)) << 32;
        let one_more = |trapped: u64| {
            let free = trapped == 0 || trapped >> 32 == context >> 32;
            free.then(|| context | ((trapped & u64::from(u32::MAX)) + 1))
        };
        context != 0 && TRAPPED.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    /// As [`Wakers::enter`], only if other threads of this process are in seccomp for this
    /// context: as long as the calling thread counts as one of them, no other context
    /// has a thread there.
    pub(crate) fn enter_beside(&self) -> bool {
        let context = u64::from(self.context.load(Relaxed));
        let one_more = |trapped: u64| (trapped != 0 && trapped >> 32 == context).then(|| trapped + 1);
        TRAPPED.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    /// See [`Wakers::enter`].
    pub(crate) fn leave(&self) {
        let one_less = |trapped: u64| {
            let left = (trapped & u64::from(u32::MAX)).saturating_sub(1);
            Some(if left == 0 { 0 } else { trapped & !u64::from(u32::MAX) | left })
        };
        let _ = TRAPPED.fetch_update(Relaxed, Relaxed, one_less);
    }

    /// How many threads of this process are in seccomp for this context. The count is in this
    /// process's own memory.
    pub(crate) fn trapped(&self) -> u32 {
        let trapped = TRAPPED.load(SeqCst);
        if trapped >> 32 == u64::from(self.context.load(Relaxed)) { trapped as u32 } else { 0 }
    }

    /// The listener of this process, if it has one.
    pub(crate) fn own_listener(&self) -> Option<Arc<OwnedFd>> {
        OWN.lock().unwrap_or_else(PoisonError::into_inner).listener.clone()
    }

    /// The listener of the process in `slot`, if it is known.
    pub(crate) fn listener(&self, slot: Id<Process>, generation: u64) -> Option<Arc<OwnedFd>> {
        let known = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let (of, listener) = known.get(slot.index())?.as_ref()?;
        (*of == generation).then(|| Arc::clone(listener))
    }

    /// Remembers the listener of the process in `slot`.
    pub(crate) fn learn(&self, slot: Id<Process>, generation: u64, listener: Arc<OwnedFd>) {
        let mut known = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() <= slot.index() {
            known.resize(slot.index() + 1, None);
        }
        known[slot.index()] = Some((generation, listener));
    }

    /// Forgets the listener of a process that has gone.
    pub(crate) fn forget(&self, slot: Id<Process>, generation: u64) {
        let mut known = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        // The slot may have been taken by another since.
        if let Some(known) = known
            .get_mut(slot.index())
            .filter(|known| known.as_ref().is_some_and(|&(of, _)| of == generation))
        {
            *known = None;
        }
    }

    /// All known listeners.
    pub(crate) fn listeners(&self) -> Vec<Arc<OwnedFd>> {
        let known = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().flatten().map(|(_, listener)| Arc::clone(listener)).collect()
    }

    /// Asks the supervisor for the listener of the process in `slot`. Not under the context's lock.
    /// False when there is none.
    pub(crate) fn fetch(&self, slot: Id<Process>, generation: u64) -> bool {
        if let Some(listener) = self.of_this_process(slot, generation) {
            self.learn(slot, generation, listener);
            return true;
        }
        let answer = self
            .supervisor
            .get()
            .map(|supervisor| supervisor_line::ask(supervisor, Request::Listener, slot.index() as u8));
        let listener = answer.and_then(Result::ok).and_then(|listeners| listeners.into_iter().next());
        let found = listener.map(|listener| self.learn(slot, generation, Arc::new(listener)));
        found.is_some()
    }

    /// This process's own listener, if this process has that slot of this context.
    fn of_this_process(&self, slot: Id<Process>, generation: u64) -> Option<Arc<OwnedFd>> {
        let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = (self.context.load(Relaxed), slot.index(), generation);
        own.joined.contains(&joined).then(|| own.listener.clone()).flatten()
    }

    /// Asks the supervisor to wake a claimed thread that this thread could not wake, and all other
    /// claimed threads.
    pub(crate) fn leave_to_supervisor(&self, thread: Id<Thread>) {
        match self.supervisor.get() {
            // Without a supervisor, the sleeper's own process wakes it (`leaving.rs`).
            Some(supervisor) => supervisor_line::ask_for_help(supervisor),
            None => self.left.lock().unwrap_or_else(PoisonError::into_inner).push(thread),
        }
    }

    /// Whether this is the supervisor's own mapping.
    pub(crate) fn is_supervisor(&self) -> bool {
        self.supervisor.get().is_none()
    }

    /// Reports to the supervisor that the lock's owner makes no progress. Needs no lock, and waits
    /// for no answer.
    pub(crate) fn say_stuck(&self) {
        if let Some(supervisor) = self.supervisor.get() {
            supervisor_line::say_stuck(supervisor);
        }
    }

    /// The threads left to this supervisor.
    pub(crate) fn take_left(&self) -> Vec<Id<Thread>> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// This process's one listener, and the contexts that it was handed to.
static OWN: Mutex<Own> = Mutex::new(Own { listener: None, tags: Vec::new(), joined: Vec::new() });

struct Own {
    listener: Option<Arc<OwnedFd>>,
    tags: Vec<u64>,
    /// Context, slot and generation of what this process has opened.
    joined: Vec<(u32, usize, u64)>,
}

/// Upper half: the context whose threads are in seccomp now (its index in [`OWN`], plus one). Lower
/// half: the number of these threads. Receiving for one context would disturb sleepers of
/// another, so there is one at a time.
static TRAPPED: AtomicU64 = AtomicU64::new(0);

impl Wakers {
    /// Numbers the context with this tag within this process.
    pub(crate) fn set_context(&self, tag: u64) {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        let at = own.tags.iter().position(|&known| known == tag).unwrap_or_else(|| {
            own.tags.push(tag);
            own.tags.len() - 1
        });
        self.context.store(at as u32 + 1, Relaxed);
    }
}

/// The listener of this process.
///
/// # Errors
/// Why it has none, as the end of a sentence.
pub(crate) fn own_listener(wish: WakeUp) -> Result<Arc<OwnedFd>, String> {
    if wish == WakeUp::Futex {
        return Err("it was asked for".into());
    }
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let listener = match &own.listener {
        Some(listener) => Arc::clone(listener),
        None => Arc::new(seccomp::install(wish == WakeUp::NoNewPrivileges)?),
    };
    own.listener = Some(Arc::clone(&listener));
    Ok(listener)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Held by tests that count threads in seccomp: there is one count for all contexts of a
    /// process.
    pub(crate) static ALONE: Mutex<()> = Mutex::new(());

    fn slot(index: u64) -> Id<Process> {
        Id::new(index).expect("a slot")
    }

    #[test]
    fn one_context_at_a_time_uses_seccomp() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let [one, same, other] = [(); 3].map(|()| Wakers::default());
        one.set_context(0xa1);
        other.set_context(0xa2);
        same.set_context(0xa1);
        assert!(!one.uses_seccomp() && !one.enter(), "its supervisor does not have its listener yet");
        for wakers in [&one, &same, &other] {
            wakers.start_seccomp(slot(1), 1);
            assert!(wakers.uses_seccomp());
        }
        assert!(!one.enter_beside(), "no thread is in seccomp");
        assert!(one.enter() && same.enter());
        assert_eq!([&one, &same, &other].map(Wakers::trapped), [2, 2, 0]);
        assert!(!other.enter() && !other.enter_beside());
        assert!(one.enter_beside());
        assert_eq!([&one, &same, &other].map(Wakers::trapped), [3, 3, 0]);
        for left in [2, 1, 0] {
            one.leave();
            assert_eq!(one.trapped(), left);
        }
        assert!(other.enter());
        assert_eq!([&one, &other].map(Wakers::trapped), [0, 1]);
        other.leave();
        one.stop_seccomp();
        assert!(!one.uses_seccomp() && !one.enter());
        assert!(same.enter());
        assert!(one.enter_beside(), "it may receive all the same");
        same.leave();
        one.leave();
        assert_eq!(same.trapped(), 0);
    }

    #[test]
    fn a_listener_is_identified_by_its_slot_and_generation() {
        let wakers = Wakers::default();
        let listener = || Arc::new(OwnedFd::from(std::io::pipe().expect("a pipe").0));
        let (first, second) = (listener(), listener());
        wakers.learn(slot(3), 5, Arc::clone(&first));
        wakers.learn(slot(1), 5, Arc::clone(&second));
        let is = |at: u64, generation, which: &Arc<OwnedFd>| {
            wakers.listener(slot(at), generation).is_some_and(|known| Arc::ptr_eq(&known, which))
        };
        assert!(is(3, 5, &first) && is(1, 5, &second));
        for (at, generation) in [(3, 4), (3, 6), (2, 5), (4, 5)] {
            assert!(wakers.listener(slot(at), generation).is_none());
        }
        assert_eq!(wakers.listeners().len(), 2);
        wakers.forget(slot(3), 4);
        assert!(is(3, 5, &first), "another had the slot");
        wakers.forget(slot(3), 5);
        wakers.forget(slot(9), 5);
        assert!(wakers.listener(slot(3), 5).is_none() && is(1, 5, &second));
        assert_eq!(wakers.listeners().len(), 1);
        wakers.learn(slot(1), 6, first);
        assert!(wakers.listener(slot(1), 5).is_none() && wakers.listener(slot(1), 6).is_some());
    }

    #[test]
    fn a_supervisor_stores_listeners_and_a_participant_requests_them() {
        let wakers = Wakers::default();
        assert!(wakers.is_supervisor());
        wakers.say_stuck();
        assert!(!wakers.fetch(slot(1), 1), "there is no supervisor to ask");
        let left = [1, 2].map(|index| Id::<Thread>::new(index).expect("an index"));
        left.into_iter().for_each(|thread| wakers.leave_to_supervisor(thread));
        assert_eq!(wakers.take_left(), left);
        assert!(wakers.take_left().is_empty());
        let (own, supervisor) = std::os::unix::net::UnixStream::pair().expect("sockets");
        wakers.set_supervisor(Arc::new(Mutex::new(own)));
        assert!(!wakers.is_supervisor());
        wakers.leave_to_supervisor(left[0]);
        wakers.say_stuck();
        assert!(wakers.take_left().is_empty());
        let mut asked = [0; 4];
        std::io::Read::read_exact(&mut &supervisor, &mut asked).expect("two requests");
        assert_eq!(asked, [Request::Help as u8, 0, Request::Stuck as u8, 0]);
    }
}
