#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! The supervisor of a context: lets processes join, and notices when one dies.
//!
//! Each participant keeps a Unix connection to it open. The kernel reports the user at the other
//! end (`SO_PEERCRED`, unix(7)): only processes of the supervisor's own user may join. They receive
//! the context's memory as a descriptor. So it has no name in any file system, and nothing is left
//! behind, whichever process dies. The kernel closes a connection with the last thread of its
//! process. After that no thread of the process can access the memory, and the supervisor releases
//! the process's records. Over the same connection the supervisor hands out the ends of inboxes
//! (`descriptors.rs`) and the seccomp listeners (`seccomp.rs`), and takes requests to wake threads
//! that others could not wake (`lock/wake.rs`).

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::inbox::Inbox;
use crate::lock::wake::{Attempt, SWEEP, attempt, sweep};
use crate::lock::{Guard, Scratch};
use crate::records::{Id, Process, Thread, process};
use crate::region::{End, Region};
use crate::seccomp;
use crate::supervisor_line::Request;
use crate::welcome::{DENIED, FULL, NO_FILES, STUCK, receive_with, send_region, send_with};

struct Joined {
    connection: UnixStream,
    slot: Id<Process>,
    generation: u64,
    /// Made on first use.
    inbox: Option<Inbox>,
}

pub(crate) struct Supervisor {
    region: Arc<Region>,
    /// `None` once the context accepts no more processes.
    listener: Option<UnixListener>,
    /// How many connections in a row could not be accepted.
    refused: u32,
    /// Closed for a moment when this process has no descriptor left for a joining process, so that
    /// it can report that.
    spare: Option<OwnedFd>,
    stopped: UnixStream,
    joined: Vec<Joined>,
    /// Threads that are claimed and have not entered seccomp yet.
    unwoken: Vec<Id<Thread>>,
    /// How often they were checked without success, at most every [`RETRY`].
    failed_checks: u32,
    /// When to look for more of them; `None`: when woken.
    next_sweep: Option<Instant>,
}

/// How often the supervisor checks a thread that has not entered seccomp.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// After this many checks it checks less often: the thread was stopped before it entered seccomp,
/// or its word is wrong.
const OFTEN: u32 = 100;
const SELDOM: Timespec = Timespec { tv_sec: 0, tv_nsec: SWEEP.as_nanos() as i64 };

impl Supervisor {
    /// The supervisor of a new context, which processes join over `listener`. It ends when the
    /// other end of `stopped` is closed.
    ///
    /// # Errors
    /// When this process has no descriptor left.
    pub(crate) fn new(region: Arc<Region>, listener: UnixListener, stopped: UnixStream) -> io::Result<Self> {
        Ok(Self {
            region,
            listener: Some(listener),
            refused: 0,
            spare: Some(stopped.try_clone()?.into()),
            stopped,
            joined: Vec::new(),
            unwoken: Vec::new(),
            failed_checks: 0,
            next_sweep: None,
        })
    }

    /// Runs until the context ends.
    pub(crate) fn run(mut self) {
        self.keep();
        if self.region.ended() == Some(End::Stuck) {
            for joined in &self.joined {
                // A participant that does not read this still sees the end of its connection.
                let _ = send_with(&joined.connection, &[STUCK], &[]);
            }
        }
    }

    /// Runs until the context ends.
    fn keep(&mut self) {
        let mut scratch = Scratch::default();
        while self.region.ended().is_none() {
            let listens = self.listener.as_ref().map(|listener| PollFd::new(listener, PollFlags::IN));
            // Without a listener, the second entry just repeats the first.
            let listens = listens.unwrap_or_else(|| PollFd::new(&self.stopped, PollFlags::IN));
            let mut watched = vec![PollFd::new(&self.stopped, PollFlags::IN), listens];
            watched.extend(self.joined.iter().map(|joined| PollFd::new(&joined.connection, PollFlags::IN)));
            let wait = if self.unwoken.is_empty() {
                let left = |at: Instant| at.saturating_duration_since(Instant::now());
                self.next_sweep.and_then(|at| left(at).try_into().ok())
            } else {
                Some(if self.failed_checks < OFTEN { RETRY } else { SELDOM })
            };
            if poll(&mut watched, wait.as_ref()).is_err_and(|errno| errno != Errno::INTR) {
                return;
            }
            let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let mut requests: Vec<Requests> = (self.joined.iter().zip(&ready[2..]))
                .map(
                    |(joined, &ready)| {
                        if ready { Requests::read(&joined.connection) } else { Requests::NONE }
                    },
                )
                .collect();
            for (at, requests) in requests.iter_mut().enumerate() {
                let mut descriptor = requests.descriptor.take();
                requests.each(|request, slot| {
                    self.serve(
                        at,
                        request,
                        slot,
                        descriptor.take_if(|_| request == Request::HandOver),
                        &mut scratch,
                    )
                });
            }
            let mut ended = requests.iter().map(|requests| requests.ended);
            let (dead, live) =
                std::mem::take(&mut self.joined).into_iter().partition(|_| ended.next().unwrap_or(false));
            self.joined = live;
            if ready[1] {
                // It is no error here if a process leaves while it joins, or may not join.
                let _ = self.admit(&mut scratch);
            }
            for joined in &dead {
                self.bury(joined, &mut scratch);
            }
            if !dead.is_empty() {
                // Senders may have been killed between the inbox and the queue.
                self.joined.iter().for_each(|joined| self.sweep(joined, &mut scratch));
            }
            self.wake_the_claimed(&mut scratch);
        }
    }

    /// Wakes claimed threads that their wakers could not wake, because they failed or died.
    fn wake_the_claimed(&mut self, scratch: &mut Scratch) {
        if self.next_sweep.is_some_and(|at| at <= Instant::now()) {
            let goes_on = sweep(&mut Guard::lock(&self.region, scratch), &mut self.unwoken);
            self.next_sweep = goes_on.then(|| Instant::now() + SWEEP);
        }
        for thread in self.region.wakers().take_left() {
            self.next_sweep.get_or_insert_with(|| Instant::now() + SWEEP);
            if !self.unwoken.contains(&thread) {
                self.unwoken.push(thread);
            }
        }
        let before = self.unwoken.len();
        self.unwoken.retain(|&thread| !matches!(attempt(&self.region, thread), Attempt::Done));
        let found = self.unwoken.len() != before || before == 0;
        self.failed_checks = if found { 0 } else { self.failed_checks.saturating_add(1) };
    }

    /// Handles the requests of the participant at `at`.
    fn serve(
        &mut self,
        at: usize,
        request: Request,
        slot: u8,
        descriptor: Option<OwnedFd>,
        scratch: &mut Scratch,
    ) {
        // The last participant with the slot: the connection of a closed process may still be open
        // when the next process gets its slot.
        let owner = || self.joined.iter().rposition(|joined| joined.slot.index() == usize::from(slot));
        match request {
            Request::Inbox => self.send_inbox(at, Some(at), request),
            Request::Outbox => self.send_inbox(at, owner(), request),
            Request::Listener => self.send_listener(at, owner()),
            Request::Sweep => {
                if let Some(owner) = owner() {
                    self.sweep(&self.joined[owner], scratch);
                }
            }
            Request::HandOver => {
                let Joined { slot, generation, ref connection, .. } = self.joined[at];
                // None arrives if this process has no free descriptor.
                let listener = descriptor.filter(|listener| seccomp::is_listener(listener.as_fd()));
                let kept = u8::from(listener.is_some());
                if let Some(listener) = listener {
                    self.region.wakers().learn(slot, generation, Arc::new(listener));
                }
                // An error is ignored, as in `send_inbox`.
                let _ = send_with(connection, &[kept], &[]);
            }
            // Waiting for the lock also checks it.
            Request::Stuck => drop(Guard::lock(&self.region, scratch)),
            Request::Help => {
                // Check at once, or when the next check is due, if that is earlier.
                let soon = Instant::now() + Duration::from_nanos(RETRY.tv_nsec.unsigned_abs());
                self.next_sweep = Some(self.next_sweep.map_or(soon, |at| at.min(soon)));
            }
        }
    }

    /// Sends the participant `at` the ends of `owner`'s inbox, which is made if necessary: both
    /// ends to its owner, the sending end to others.
    fn send_inbox(&mut self, at: usize, owner: Option<usize>, request: Request) {
        if let Some(owner) = owner
            && self.joined[owner].inbox.is_none()
        {
            self.joined[owner].inbox = Inbox::new().ok();
        }
        let inbox = owner.and_then(|owner| self.joined[owner].inbox.as_ref());
        let ends = match (inbox, request) {
            (Some(inbox), Request::Inbox) => inbox.ends().to_vec(),
            (Some(inbox), _) => vec![inbox.ends()[1]],
            (None, _) => Vec::new(),
        };
        // An error is ignored: the participant left, or does not read its answers.
        let _ = send_with(&self.joined[at].connection, &[0], &ends);
    }

    /// Sends the participant `at` the seccomp listener of `owner`, if there is one.
    fn send_listener(&self, at: usize, owner: Option<usize>) {
        let of = owner.map(|owner| &self.joined[owner]);
        let listener = of.and_then(|of| self.region.wakers().listener(of.slot, of.generation));
        let listeners: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
        // An error is ignored, as in `send_inbox`.
        let _ = send_with(&self.joined[at].connection, &[0], &listeners);
    }

    fn sweep(&self, joined: &Joined, scratch: &mut Scratch) {
        if let Some(inbox) = &joined.inbox {
            inbox.sweep(&Guard::lock(&self.region, scratch));
        }
    }

    fn admit(&mut self, scratch: &mut Scratch) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let (mut connection, _) = match listener.accept() {
            Err(error) if is_out_of_descriptors(&error) => return self.turn_away(),
            Err(error) => {
                self.pause();
                return Err(error);
            }
            Ok(accepted) => accepted,
        };
        self.refused = 0;
        let peer = rustix::net::sockopt::socket_peercred(&connection)?;
        if peer.uid != rustix::process::geteuid() {
            return connection.write_all(&[DENIED]);
        }
        let mut guard = Guard::lock(&self.region, scratch);
        let Ok(slot) = guard.new_process(peer.pid.as_raw_nonzero().get()) else {
            return connection.write_all(&[FULL]);
        };
        let generation = guard.get(slot, process::GENERATION);
        drop(guard);
        self.region.registry().enter(slot, peer.pid.as_raw_nonzero().get());
        let sent = send_region(&connection, &self.region, slot);
        let joined = Joined { connection, slot, generation, inbox: None };
        if sent.is_err() {
            self.bury(&joined, scratch);
        } else {
            self.joined.push(joined);
        }
        sent
    }

    /// Tells a joining process that it cannot join because this process can open no more files. If
    /// its connection stayed pending, poll(2) would return at once, over and over.
    fn turn_away(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        self.spare = None;
        let sent = listener.accept().and_then(|(mut connection, _)| connection.write_all(&[NO_FILES]));
        self.spare = self.stopped.try_clone().ok().map(Into::into);
        if sent.is_err() {
            // Another thread of this process was faster, or the whole system is out of files.
            self.pause();
        }
        sent
    }

    /// Waits a moment after a connection could not be accepted, since it is probably still pending.
    /// If this persists, for example because a filter forbids accept(2), the listener is closed.
    /// That ends the connections of joining processes.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(10));
        self.refused = self.refused.saturating_add(1);
        if self.refused >= MOST_REFUSED {
            self.listener = None;
        }
    }

    fn bury(&mut self, dead: &Joined, scratch: &mut Scratch) {
        // The dead process may have been about to wake this supervisor.
        self.next_sweep.get_or_insert_with(|| Instant::now() + SWEEP);
        self.region.wakers().forget(dead.slot, dead.generation);
        for listener in self.region.wakers().listeners() {
            // It may have died in the middle of a wake-up, with the flag cleared.
            let _ = seccomp::set_flags(listener.as_fd(), true);
        }
        let mut guard = Guard::lock(&self.region, scratch);
        // Another process may already have the slot.
        if !self.joined.iter().any(|joined| joined.slot == dead.slot) {
            self.region.registry().enter(dead.slot, 0);
        }
        if guard.get(dead.slot, process::GENERATION) == dead.generation {
            guard.bury_process(dead.slot);
        }
        guard.unlock();
    }
}

/// What a participant has requested since the last read.
struct Requests {
    bytes: [u8; REQUEST_BYTES],
    length: usize,
    /// Its connection has ended.
    ended: bool,
    /// The descriptor sent along.
    descriptor: Option<OwnedFd>,
}

/// Room for a few requests of two bytes each: `Request` and a slot.
const REQUEST_BYTES: usize = 32;

impl Requests {
    const NONE: Self = Self { bytes: [0; REQUEST_BYTES], length: 0, ended: false, descriptor: None };

    fn read(connection: &UnixStream) -> Self {
        let mut requests = Self::NONE;
        match receive_with(connection, &mut requests.bytes, RecvFlags::empty()) {
            Ok((length @ 1.., descriptors)) => {
                (requests.length, requests.descriptor) = (length, descriptors.into_iter().next());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok((0, _)) | Err(_) => requests.ended = true,
        }
        requests
    }

    /// Ignores invalid requests.
    fn each(&self, mut act: impl FnMut(Request, u8)) {
        for pair in self.bytes[..self.length].chunks_exact(2) {
            if let Some(request) = Request::from_byte(pair[0]) {
                act(request, pair[1]);
            }
        }
    }
}

/// A second of refusals, ten milliseconds apart.
const MOST_REFUSED: u32 = 100;

/// EMFILE or ENFILE (accept(2)).
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests;
