#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "calculates with this process's own numbers, never with control words"
)]
//! The keeper of a context: lets processes join, and notices when one dies.
//!
//! Each participant keeps a Unix connection to it for as long as it lives. The kernel says who is at the other end
//! (`SO_PEERCRED`, unix(7)): only processes of the keeper's own user may join. They are sent the context's memory as a
//! descriptor, so it has no name in any file system, and nothing is left behind whatever dies. The kernel closes a
//! connection with the last thread of its process, so a connection's end means that nobody of that process can touch
//! the memory any more, and the keeper gives back what it held. Over the same connection it hands out the ends of inboxes
//! (`descriptors.rs`) and the listeners of traps (`trap.rs`), and it looks after threads that could not be woken (`lock/wake.rs`).

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use crate::inbox::Inbox;
use crate::inheritance::Lending;
use crate::keeper_line::Request;
use crate::lock::wake::{Attempt, SWEEP, attempt, sweep};
use crate::lock::{Guard, Scratch};
use crate::records::{Id, LENDING, MAGIC, MAGIC_VALUE, PROFILE, Process, Record, TAG, Thread, process};
use crate::region::{End, Region};
use crate::roster::Roster;
use crate::trap;
use crate::usage::Usage;
use binder_driver::Profile;

use crate::Error;

/// A context of the emulated driver: what a loaded driver with one device is to the kernel's.
///
/// It lives as long as this value. Processes join it with [`Emulated::join`](super::Emulated::join). When it is
/// dropped, or its process dies, every participant's calls fail with ENODEV. It also ends when a participant holds its lock
/// and does nothing for five seconds: [`Context::ended`] tells.
#[derive(Debug)]
pub struct Context {
    address: String,
    region: Arc<Region>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Context {
    /// Starts a context whose servers follow the priority rules of `profile`.
    ///
    /// # Errors
    /// [`Error::Create`] when the system refuses the memory or the socket.
    pub fn create(profile: Profile) -> Result<Self, Error> {
        let failed = |operation| move |source| Error::Create { operation, source };
        let region = Region::create().map_err(io::Error::from).map_err(failed("memory"))?;
        initialise(&region, profile);
        let name = unique_name();
        let listener = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address))
            .map_err(failed("bind"))?;
        let (stop, stopped) = UnixStream::pair().map_err(failed("socketpair"))?;
        let region = Arc::new(region);
        let spare = Some(stopped.try_clone().map_err(failed("socketpair"))?.into());
        let keeper = Keeper {
            region: Arc::clone(&region),
            listener: Some(listener),
            refused: 0,
            spare,
            stopped,
            joined: Vec::new(),
            unwoken: Vec::new(),
            vain: 0,
            next_sweep: None,
        };
        let thread = std::thread::Builder::new()
            .name("binder-keeper".into())
            .spawn(move || keeper.run())
            .map_err(failed("thread"))?;
        Ok(Self { address: name, region, stop, thread: Some(thread) })
    }

    /// What [`Emulated::join`](super::Emulated::join) wants to know: a name in the abstract socket namespace.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Chooses how calls lend a real-time priority in processes that join from now on, until they choose for themselves
    /// ([`Emulated::set_lending`](super::Emulated::set_lending)).
    pub fn set_lending(&self, lending: Lending) {
        self.region.words()[LENDING].store(lending.into(), Ordering::Relaxed);
    }

    /// What the context holds at this moment: processes, threads, transactions, nodes, references and buffers, as text in
    /// the form of the kernel driver's `/sys/kernel/debug/binder/state`. For tests, and for finding out why something
    /// waits.
    #[must_use]
    pub fn state(&self) -> String {
        self.look(|guard| guard.state())
    }

    /// Whether the context has ended by itself, and why. Its participants are told the same.
    #[must_use]
    pub fn ended(&self) -> Option<&'static str> {
        self.region.ended().map(End::reason)
    }

    fn look<T>(&self, look: impl FnOnce(&mut Guard<'_>) -> T) -> T {
        let result = look(&mut Guard::lock(&self.region, &mut Scratch::default()));
        if self.region.ended().is_some() {
            // This thread has waited too long for the lock: the keeper's own thread may not know yet.
            let _ = self.stop.shutdown(std::net::Shutdown::Both);
        }
        result
    }

    /// How many records and how much memory the context uses at this moment.
    ///
    /// # Errors
    /// [`Error::Create`] when the system does not tell the memory's size.
    pub fn usage(&self) -> Result<Usage, Error> {
        let failed = |errno: rustix::io::Errno| Error::Create { operation: "fstat", source: errno.into() };
        self.look(|guard| guard.usage()).map_err(failed)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.region.end(End::Gone);
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn initialise(region: &Region, profile: Profile) {
    let words = region.words();
    words[PROFILE].store(profile as u64, Ordering::Relaxed);
    // No two regions that a process maps lie at one address, and no two processes start at one nanosecond with one id.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let instant = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
    words[TAG].store(
        instant << 16 ^ u64::from(std::process::id()) << 40 ^ words.as_ptr() as u64,
        Ordering::Relaxed,
    );
    words[MAGIC].store(MAGIC_VALUE, Ordering::Release);
}

/// The profile that a context was created with; `None` when the memory is not a context of this version.
pub(crate) fn profile_of(region: &Region) -> Option<Profile> {
    let words = region.words();
    if words[MAGIC].load(Ordering::Acquire) != MAGIC_VALUE {
        return None;
    }
    [Profile::Ack, Profile::Mainline]
        .into_iter()
        .find(|&profile| profile as u64 == words[PROFILE].load(Ordering::Relaxed))
}

/// What every context's name begins with.
const NAME: &str = "roundtrip-";

/// The addresses of all contexts that run in this network namespace, whoever's they are, in the order of their names: those of
/// listening sockets in /proc/net/unix (proc_net_unix in the kernel's `net/unix/af_unix.c`). Anybody may have named a socket so:
/// joining tells.
///
/// # Errors
/// When that file cannot be read.
pub fn running() -> io::Result<Vec<String>> {
    /// `SO_ACCEPTCON`, in the column "Flags".
    const LISTENS: &str = "00010000";
    let sockets = std::fs::read("/proc/net/unix")?;
    let name = |line: &[u8]| {
        // Other programs' names may hold any bytes.
        let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let listens = fields.nth(3)? == LISTENS;
        let name = fields.nth(3)?.strip_prefix('@')?;
        let numbers = name.strip_prefix(NAME)?;
        let ours = numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        (listens && ours).then(|| name.to_owned())
    };
    let mut names: Vec<String> = sockets.split(|&byte| byte == b'\n').filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

/// Unique on the machine: the process id, the boot clock and a counter. It need not be secret.
fn unique_name() -> String {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let count = CREATED.fetch_add(1, Ordering::Relaxed);
    format!("{NAME}{}-{}{:09}-{count}", std::process::id(), now.tv_sec, now.tv_nsec)
}

struct Joined {
    connection: UnixStream,
    slot: Id<Process>,
    generation: u64,
    /// Made when it is first needed.
    inbox: Option<Inbox>,
}

struct Keeper {
    region: Arc<Region>,
    /// `None` once nobody can be admitted any more.
    listener: Option<UnixListener>,
    /// How many connections in a row could not be taken.
    refused: u32,
    /// Given up for a moment when this process has no descriptor left for one that joins, so that it can be told.
    spare: Option<OwnedFd>,
    stopped: UnixStream,
    joined: Vec<Joined>,
    /// Threads that are claimed, and have not reached their traps yet.
    unwoken: Vec<Id<Thread>>,
    /// How often they were looked at in vain, at most every [`RETRY`].
    vain: u32,
    /// When to look for more of them; none: when roused.
    next_sweep: Option<Instant>,
}

/// How often the keeper looks for a thread that has not reached its trap.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// From then on it looks less often: the thread was stopped on its way, or its word says what is not so.
const OFTEN: u32 = 100;
const SELDOM: Timespec = Timespec { tv_sec: 0, tv_nsec: SWEEP.as_nanos() as i64 };

impl Keeper {
    fn run(mut self) {
        self.keep();
        if self.region.ended() == Some(End::Stuck) {
            for joined in &self.joined {
                // One that does not read it is told by the connection's end that there is no keeper.
                let _ = send_with(&joined.connection, &[STUCK], &[]);
            }
        }
    }

    /// Until the context ends.
    fn keep(&mut self) {
        let mut scratch = Scratch::default();
        while self.region.ended().is_none() {
            let listens = self.listener.as_ref().map(|listener| PollFd::new(listener, PollFlags::IN));
            // Without a listener, what comes second is only another look at the first.
            let listens = listens.unwrap_or_else(|| PollFd::new(&self.stopped, PollFlags::IN));
            let mut watched = vec![PollFd::new(&self.stopped, PollFlags::IN), listens];
            watched.extend(self.joined.iter().map(|joined| PollFd::new(&joined.connection, PollFlags::IN)));
            let wait = if self.unwoken.is_empty() {
                let left = |at: Instant| at.saturating_duration_since(Instant::now());
                self.next_sweep.and_then(|at| left(at).try_into().ok())
            } else {
                Some(if self.vain < OFTEN { RETRY } else { SELDOM })
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
                // A process that leaves while it joins, or may not join, is not the keeper's trouble.
                let _ = self.admit(&mut scratch);
            }
            for joined in &dead {
                self.bury(joined, &mut scratch);
            }
            if !dead.is_empty() {
                // They may have been killed between the inbox and the queue.
                self.joined.iter().for_each(|joined| self.sweep(joined, &mut scratch));
            }
            self.wake_the_claimed(&mut scratch);
        }
    }

    /// Wakes claimed threads that whoever claimed them could not wake, or died before.
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
        self.vain = if found { 0 } else { self.vain.saturating_add(1) };
    }

    /// Does what the participant at `at` asks for.
    fn serve(
        &mut self,
        at: usize,
        request: Request,
        slot: u8,
        descriptor: Option<OwnedFd>,
        scratch: &mut Scratch,
    ) {
        let wanted = match request {
            Request::Inbox => Some(at),
            Request::Outbox | Request::Sweep | Request::Listener => {
                // The last: the connection of one that has closed may not have ended when the next one gets its slot.
                self.joined.iter().rposition(|joined| joined.slot.index() == usize::from(slot))
            }
            Request::HandOver => {
                let Joined { slot, generation, .. } = self.joined[at];
                if let Some(listener) = descriptor.filter(|listener| trap::is_listener(listener.as_fd())) {
                    self.region.wakers().learn(slot, generation, Arc::new(listener));
                }
                return;
            }
            Request::Stuck => {
                // It waits, and looks while it does, as long as it takes.
                drop(Guard::lock(&self.region, scratch));
                return;
            }
            Request::Help => {
                // At once, or as soon as it may look again.
                let soon = Instant::now() + Duration::from_nanos(RETRY.tv_nsec.unsigned_abs());
                self.next_sweep = Some(self.next_sweep.map_or(soon, |at| at.min(soon)));
                return;
            }
        };
        if request == Request::Listener {
            let of = wanted.map(|wanted| &self.joined[wanted]);
            let listener = of.and_then(|of| self.region.wakers().listener(of.slot, of.generation));
            let listeners: Vec<_> = listener.iter().map(AsFd::as_fd).collect();
            // As below.
            let _ = send_with(&self.joined[at].connection, &[0], &listeners);
            return;
        }
        if request == Request::Sweep {
            if let Some(wanted) = wanted {
                self.sweep(&self.joined[wanted], scratch);
            }
            return;
        }
        if let Some(wanted) = wanted
            && self.joined[wanted].inbox.is_none()
        {
            self.joined[wanted].inbox = Inbox::new().ok();
        }
        let inbox = wanted.and_then(|wanted| self.joined[wanted].inbox.as_ref());
        let ends = match (inbox, request) {
            (Some(inbox), Request::Inbox) => inbox.ends().to_vec(),
            (Some(inbox), _) => vec![inbox.ends()[1]],
            (None, _) => Vec::new(),
        };
        // One that leaves or does not read its answers is not the keeper's trouble.
        let _ = send_with(&self.joined[at].connection, &[0], &ends);
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
        self.region.roster().enter(slot, peer.pid.as_raw_nonzero().get());
        let sent = send_region(&connection, &self.region, slot);
        let joined = Joined { connection, slot, generation, inbox: None };
        if sent.is_err() {
            self.bury(&joined, scratch);
        } else {
            self.joined.push(joined);
        }
        sent
    }

    /// Tells one that wants to join why it cannot: this process can open no more files. Its connection stays pending in the
    /// meantime, so poll(2) would return at once, again and again, if nobody took it.
    fn turn_away(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        self.spare = None;
        let told = listener.accept().and_then(|(mut connection, _)| connection.write_all(&[NO_FILES]));
        self.spare = self.stopped.try_clone().ok().map(Into::into);
        if told.is_err() {
            // Another thread of this process was faster, or the whole system has no more.
            self.pause();
        }
        told
    }

    /// After a connection that could not be taken, and most often is still pending: not at full speed. Where that goes on, as
    /// where a filter forbids accept(2), those who want to join are told by the end of their connections.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(10));
        self.refused = self.refused.saturating_add(1);
        if self.refused >= MOST_REFUSED {
            self.listener = None;
        }
    }

    fn bury(&mut self, dead: &Joined, scratch: &mut Scratch) {
        // It may have been about to rouse this keeper.
        self.next_sweep.get_or_insert_with(|| Instant::now() + SWEEP);
        self.region.wakers().forget(dead.slot, dead.generation);
        for listener in self.region.wakers().listeners() {
            // It may have died in the middle of a wake-up without the hint.
            let _ = trap::set_flags(listener.as_fd(), true);
        }
        let mut guard = Guard::lock(&self.region, scratch);
        // The last: another may have the slot by now.
        if !self.joined.iter().any(|joined| joined.slot == dead.slot) {
            self.region.roster().enter(dead.slot, 0);
        }
        if guard.get(dead.slot, process::GENERATION) == dead.generation {
            guard.bury_process(dead.slot);
        }
        guard.unlock();
    }
}

/// What a participant has asked for since it was last read.
struct Requests {
    bytes: [u8; REQUEST_BYTES],
    length: usize,
    /// Its connection has ended.
    ended: bool,
    /// What came along.
    descriptor: Option<OwnedFd>,
}

/// Of a few requests, which are two bytes each: `Request` and a slot.
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

    /// What is no request is nothing.
    fn each(&self, mut act: impl FnMut(Request, u8)) {
        for pair in self.bytes[..self.length].chunks_exact(2) {
            if let Some(request) = Request::from_byte(pair[0]) {
                act(request, pair[1]);
            }
        }
    }
}

const WELCOME: u8 = 1;
const DENIED: u8 = 2;
const FULL: u8 = 3;
const NO_FILES: u8 = 5;
/// The last byte of a connection that ends because the lock was not let go of.
const STUCK: u8 = 4;

fn send_region(connection: &UnixStream, region: &Region, slot: Id<Process>) -> io::Result<()> {
    send_with(connection, &[WELCOME, slot.index() as u8], &[region.file(), region.roster().file()])
}

fn send_with(connection: &UnixStream, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(connection, &[IoSlice::new(message)], &mut ancillary, flags)?;
    Ok(())
}

/// A second of refusals, ten milliseconds apart.
const MOST_REFUSED: u32 = 100;

/// EMFILE or ENFILE (accept(2)).
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Why the keeper has ended a connection.
pub(crate) fn farewell(connection: &UnixStream) -> End {
    let mut bytes = [0; 64];
    match rustix::net::recv(connection, &mut bytes[..], RecvFlags::DONTWAIT) {
        Ok((_, length)) if bytes[..length].last() == Some(&STUCK) => End::Stuck,
        _ => End::Gone,
    }
}

/// A connection to a context, and what the keeper handed over.
pub(crate) struct Membership {
    pub(crate) connection: UnixStream,
    pub(crate) region: Region,
    pub(crate) profile: Profile,
    pub(crate) slot: Id<Process>,
}

/// Connects to the keeper at `address`. The kernel tells it the calling process's name and user.
///
/// A keeper that many join at once may have a full queue for a moment. A stranger's socket may have one for ever, and there
/// may be many of them: all waiting of this process takes no longer than [`CONNECT_WITHIN_MS`].
pub(crate) fn connect(address: &str) -> io::Result<UnixStream> {
    static WAITED_MS: AtomicU64 = AtomicU64::new(0);
    let address = SocketAddrUnix::new_abstract_name(address.as_bytes())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    while let Err(errno) = rustix::net::connect(&socket, &address) {
        match errno {
            // unix(7): the queue is full.
            Errno::AGAIN if WAITED_MS.fetch_add(1, Ordering::Relaxed) < CONNECT_WITHIN_MS => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Errno::AGAIN => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody accepts connections"));
            }
            Errno::INTR => {}
            errno => return Err(errno.into()),
        }
    }
    let connection = UnixStream::from(socket);
    connection.set_nonblocking(false)?;
    Ok(connection)
}

/// See [`connect`].
const CONNECT_WITHIN_MS: u64 = 5_000;

/// Joins the context at the other end.
pub(crate) fn join(connection: UnixStream) -> Result<Membership, (&'static str, io::Error)> {
    // The name could have been taken by someone else.
    let keeper =
        rustix::net::sockopt::socket_peercred(&connection).map_err(|error| ("peer", error.into()))?;
    if keeper.uid != rustix::process::geteuid() {
        return Err(("peer", io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user")));
    }
    let (slot, file, roster) = receive_region(&connection).map_err(|error| ("handshake", error))?;
    let region = Roster::map(roster).and_then(|roster| Region::map(file, roster));
    let region = region.map_err(|error| ("memory", error.into()))?;
    let profile =
        profile_of(&region).ok_or_else(|| ("memory", io::Error::other("another version's context")))?;
    Ok(Membership { connection, region, profile, slot })
}

fn receive_with(
    connection: &UnixStream,
    message: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let received = recvmsg(
        connection.as_fd(),
        &mut [IoSliceMut::new(message)],
        &mut ancillary,
        flags | RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((received.bytes, descriptors.flatten().collect()))
}

/// How long one that joins waits for the keeper, which answers in microseconds unless it is stopped.
const WELCOME_WITHIN: Duration = Duration::from_secs(30);

fn receive_region(connection: &UnixStream) -> io::Result<(Id<Process>, OwnedFd, OwnedFd)> {
    let mut message = [0; 2];
    connection.set_read_timeout(Some(WELCOME_WITHIN))?;
    let received = receive_with(connection, &mut message, RecvFlags::WAITALL);
    connection.set_read_timeout(None)?;
    let (length, files) = received.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "its keeper did not answer within 30 s")
        }
        _ => error,
    })?;
    match (length, message[0]) {
        (2, WELCOME) => {}
        (_, FULL) => return Err(io::Error::other("the context is full: 255 processes have joined")),
        (_, NO_FILES) => {
            return Err(io::Error::other(
                "the process that keeps it can open no more files: raise its limit (ulimit -n)",
            ));
        }
        (_, DENIED) => {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only the keeper's own user may join",
            ));
        }
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    }
    let mut files = files.into_iter();
    match (Id::new(message[1].into()), files.next(), files.next()) {
        (Some(slot), Some(file), Some(roster)) => Ok((slot, file, roster)),
        // The kernel leaves out descriptors for which the receiver has no room (unix(7)).
        _ => Err(Errno::MFILE.into()),
    }
}

const _: () = assert!(Process::COUNT <= 256, "a slot travels as one byte");
