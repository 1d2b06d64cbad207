//! The emulated driver: the binder protocol between ordinary processes, without the kernel's driver.
//!
//! Participants share one piece of memory ([`Context`] creates it and keeps it). Each runs the
//! driver's code itself, on its own thread, under the context's lock, where the kernel's driver would
//! run inside the ioctl. A sender copies its data once, straight into the receiver's area.
//!
//! ```
//! use binder_driver::{Driver, Profile};
//! use binder_emulator::{Context, Emulated};
//!
//! let context = Context::create(Profile::Ack)?;
//! let manager = Emulated::join(context.address(), 1 << 20)?;
//! manager.become_context_manager(0)?;
//! let other = Emulated::join(context.address(), 1 << 20)?;
//! assert!(other.become_context_manager(0).is_err(), "there is one already");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One file for each concept, bottom up:
//!
//! - `region` is the memory, `records` its layout, `roster` who the participants are;
//! - `mutex` and `lock` (with the undo journal), `queue`;
//! - `process`, `thread`, `node` (with references), `transaction` (with `objects`), `buffers`,
//!   `allocation`, `priority`, `inheritance` (with `hold` and `pi_futex`), `freeze`;
//! - `sleep_word` (the table of how threads sleep and who wakes them), `sleep`, `lock/wake`, `trap`, `wakers`;
//! - `descriptors` (with `inbox`) and `passing` for file descriptors;
//! - `ioctl` is one call, `context`, `keeper` and `membership` are joining and dying, `leaving` how threads come home from a context
//!   that has ended, `state` all of it as text, and `usage` how much of it there is.
//!
//! There is one lock. It is never held across a wait, a copy of more than a page, or a call out of
//! this crate.

#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        reason = "a participant may find anything in the shared memory, and must not panic: see records.rs"
    )
)]

mod allocation;
mod buffers;
mod context;
mod descriptors;
mod error;
mod freeze;
mod hold;
mod inbox;
mod inheritance;
mod ioctl;
mod keeper;
mod keeper_line;
mod leaving;
mod lock;
mod membership;
mod mutex;
mod node;
mod objects;
mod passing;
mod pi_futex;
mod priority;
mod process;
mod queue;
mod raw;
mod records;
mod region;
mod roster;
mod sched;
mod sleep;
mod sleep_word;
mod state;
mod thread;
mod transaction;
mod trap;
mod usage;
mod wakers;
mod welcome;

use std::any::Any;
use std::cell::RefCell;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use context::{Context, running};
pub use error::Error;
pub use inheritance::Lending;
pub use usage::Usage;
pub use wakers::WakeUp;

use binder_driver::uapi::{
    BC_TRANSACTION, BC_TRANSACTION_SG, ExtendedError, Field as _, FrozenStatusInfo, payload_size,
};
use binder_driver::{
    Backend, Commands, Driver, Error as DriverError, Lent, NodeInfo, Profile, RawBytes, Returns,
};
use descriptors::Descriptors;
use ioctl::Ioctl;
use keeper_line::ToKeeper;
use lock::{Guard, Scratch};
use records::{AREA_BYTES, Id, Process, Thread};

/// A process's opened emulated driver.
///
/// One real process may open it several times, as it may open `/dev/binder`; each is a process of its own to the others.
#[derive(Debug)]
pub struct Emulated {
    region: Arc<Region>,
    profile: Profile,
    process: Id<Process>,
    /// Where this process's area lies in its memory, and its size.
    area: (u64, u64),
    /// Tells this instance's threads from those of others, and that they are to be forgotten.
    instance: Arc<()>,
    /// Why this process's threads are not woken on their callers' CPU.
    no_trap: Option<String>,
    /// See [`Emulated::set_nonblocking`].
    nonblocking: AtomicBool,
    /// See [`Emulated::set_lending`].
    lending: AtomicU32,
    /// The real process's id.
    sender: u32,
    /// The user that this process was when it joined, or at its last call.
    euid: AtomicU32,
    descriptors: Descriptors,
    connection: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

use region::{End, Region};

/// What a thread remembers of the instances that it has used.
struct Known {
    instance: Weak<()>,
    thread: Id<Thread>,
}

impl Known {
    fn is_of(&self, instance: &Arc<()>) -> bool {
        std::ptr::eq(self.instance.as_ptr(), Arc::as_ptr(instance))
    }
}

thread_local! {
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Emulated {
    /// Joins the context at `address` ([`Context::address`]) with a receive area of `area_bytes` (rounded down to 8;
    /// at most 4 MiB, like the kernel's; Android's libraries use 1 MiB less two pages).
    ///
    /// # Errors
    /// [`Error::Join`] when there is no such context, it is full, or it belongs to another user;
    /// [`Error::Driver`] for an impossible size.
    pub fn join(address: &str, area_bytes: u64) -> Result<Self, Error> {
        Self::join_with(address, area_bytes, WakeUp::default())
    }

    /// As [`Emulated::join`], with a wish for how this process's threads are woken. One that cannot be had is no error:
    /// [`Emulated::wake_up`] tells.
    ///
    /// Being woken on the caller's CPU takes a seccomp filter, which the process and its children keep for good; it
    /// holds up one call of the driver's own and nothing else. A process that inherits one that is still listened to
    /// gets none of its own, so a process that joins should not be the parent of others that join.
    ///
    /// # Errors
    /// As for [`Emulated::join`].
    pub fn join_with(address: &str, area_bytes: u64, wake_up: WakeUp) -> Result<Self, Error> {
        let bytes = area_size(area_bytes)?;
        let failed = |operation, cause| Error::Join { address: address.into(), operation, cause };
        let connection = membership::connect(address).map_err(|source| failed("connect", source))?;
        Self::join_by(connection, address, bytes, wake_up)
    }

    /// Joins the context that `connection` leads to ([`Emulated::connect`]), under the name of the process that
    /// connected: for one that may not connect by itself, or that acts for another.
    ///
    /// # Errors
    /// As [`Emulated::join`].
    pub fn join_over(connection: UnixStream, area_bytes: u64) -> Result<Self, Error> {
        let bytes = area_size(area_bytes)?;
        Self::join_by(connection, "at the other end of a connection", bytes, WakeUp::default())
    }

    /// Connects to the context at `address`, for [`Emulated::join_over`].
    ///
    /// # Errors
    /// [`Error::Join`] when there is no such context.
    pub fn connect(address: &str) -> Result<UnixStream, Error> {
        let failed = |cause| Error::Join { address: address.into(), operation: "connect", cause };
        membership::connect(address).map_err(failed)
    }

    fn join_by(connection: UnixStream, address: &str, bytes: u64, wake_up: WakeUp) -> Result<Self, Error> {
        let failed = |operation, cause| Error::Join { address: address.into(), operation, cause };
        let membership =
            membership::join(connection).map_err(|(operation, source)| failed(operation, source))?;
        let region = Arc::new(membership.region);
        let slot = membership.slot;
        let area_address = region.area_address(slot.index());
        let to_keeper =
            membership.connection.try_clone().map_err(|source| failed("copy the connection", source))?;
        let to_keeper = Arc::new(Mutex::new(to_keeper));
        region.wakers().set_keeper(Arc::clone(&to_keeper));
        let opened = with_guard(&region, |guard| {
            guard.open_area(slot, bytes)?;
            guard.set(slot, records::process::AREA_ADDRESS, area_address);
            let own = priority::of_caller(membership.profile).map_or(0, sched::Priority::to_word);
            guard.set(slot, records::process::DEFAULT_PRIORITY, own);
            Ok::<(), Errno>(())
        });
        opened.map_err(|errno| failed("open an area in it", errno.into()))?;
        let generation = with_guard(&region, |guard| guard.get(slot, records::process::GENERATION));
        let traps = follow_callers(&region, (slot, generation), &to_keeper, wake_up);
        let lending = Lending::from_word(region.words()[records::LENDING].load(Ordering::Relaxed) as u32);
        let watcher = membership.connection.try_clone().and_then(|connection| {
            let region = Arc::clone(&region);
            std::thread::Builder::new().name("binder-watch".into()).spawn(move || watch(&connection, &region))
        });
        Ok(Self {
            region,
            profile: membership.profile,
            process: slot,
            area: (area_address, bytes),
            instance: Arc::new(()),
            no_trap: traps.err(),
            nonblocking: AtomicBool::new(false),
            lending: AtomicU32::new(lending as u32),
            sender: std::process::id(),
            euid: AtomicU32::new(rustix::process::geteuid().as_raw()),
            descriptors: Descriptors::new(to_keeper),
            connection: membership.connection,
            watcher: Some(watcher.map_err(|source| failed("start a thread", source))?),
        })
    }

    /// Whether [`Driver::write_read`] fails from now on with EAGAIN where there is nothing to return, instead of waiting, as on
    /// a device with `O_NONBLOCK`.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Chooses how calls of this process lend a real-time priority from now on. The mainline kernel's rules lend none.
    pub fn set_lending(&self, lending: Lending) {
        self.lending.store(lending as u32, Ordering::Relaxed);
    }

    /// This process's strong and weak counts on a handle ([`Driver::node_counts`] are those of all processes). `None` when there is no such handle.
    #[must_use]
    pub fn handle_counts(&self, handle: u32) -> Option<(u32, u32)> {
        self.enter(&Lent::default(), |ioctl| Ok(ioctl.handle_counts(handle))).ok().flatten()
    }

    /// This process's number in the context, by which [`Context::state`] names it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.process.index() as u32
    }

    /// Bytes of this process's area that are neither in use nor set aside.
    #[must_use]
    pub fn free_area_bytes(&self) -> u64 {
        with_guard(&self.region, |guard| guard.free_bytes(self.process))
    }

    /// What the whole context holds, as [`Context::state`].
    #[must_use]
    pub fn state(&self) -> String {
        with_guard(&self.region, |guard| guard.state())
    }

    /// How many transactions had their caller's real-time priority passed on to a thread of this process by a
    /// priority-inheriting futex ([`Lending`]), since it opened the driver. Such a thread runs at that priority, and its
    /// policy (sched_getattr(2)) does not show it.
    #[must_use]
    pub fn lent_by_pi_futex(&self) -> u64 {
        with_guard(&self.region, |guard| guard.get(self.process, records::process::HELD))
    }

    /// How this process's threads are woken, for a person.
    #[must_use]
    pub fn wake_up(&self) -> String {
        match &self.no_trap {
            Some(reason) => format!("by a futex, wherever the kernel chooses ({reason})"),
            None if self.region.wakers().traps() => {
                "on the caller's CPU, by a seccomp notification where a futex would not".into()
            }
            None => {
                "by a futex, wherever the kernel chooses (another seccomp filter overrules this one)".into()
            }
        }
    }

    /// `driver`, if it is an emulated one.
    #[must_use]
    pub fn of(driver: &dyn Driver) -> Option<&Self> {
        let driver: &dyn Any = driver;
        driver.downcast_ref()
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> DriverError {
        match self.region.ended() {
            Some(end) if errno == Errno::NODEV => DriverError::Ended { operation, reason: end.reason() },
            _ => DriverError::WriteRead { operation, errno },
        }
    }

    /// Runs one ioctl of the calling thread under the lock.
    fn enter<T>(
        &self,
        lent: &Lent<'_>,
        act: impl FnOnce(&mut Ioctl<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.look(lent, |ioctl| {
            let result = act(ioctl);
            ioctl.guard.set(ioctl.thread, records::thread::NEED_RETURN, false);
            result
        })
    }

    /// As [`Emulated::enter`], for what is no ioctl: the next read still returns at once, if it was
    /// to.
    fn look<T>(
        &self,
        lent: &Lent<'_>,
        act: impl FnOnce(&mut Ioctl<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.region.ended().is_some() {
            return Err(Errno::NODEV);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut guard = Guard::lock(&self.region, scratch);
            if self.region.ended().is_some() {
                return Err(Errno::NODEV);
            }
            let thread = self.this_thread(&mut guard)?;
            let mut ioctl = Ioctl {
                guard,
                process: self.process,
                thread,
                profile: self.profile,
                lending: Lending::from_word(self.lending.load(Ordering::Relaxed)),
                lent: *lent,
                sender: self.sender,
                euid: self.euid.load(Ordering::Relaxed),
                descriptors: &self.descriptors,
                sending: Vec::new(),
                wanted: None,
                inbox_missing: false,
                closing: Vec::new(),
            };
            let result = act(&mut ioctl);
            ioctl.guard.unlock();
            ioctl.finish();
            result
        })
    }

    fn this_thread(&self, guard: &mut Guard<'_>) -> Result<Id<Thread>, Errno> {
        KNOWN.with_borrow_mut(|known| {
            if let Some(found) = known.iter().find(|known| known.is_of(&self.instance)) {
                return Ok(found.thread);
            }
            let thread = guard.new_thread(self.process)?;
            known.retain(|known| known.instance.strong_count() != 0);
            known.push(Known { instance: Arc::downgrade(&self.instance), thread });
            Ok(thread)
        })
    }
}

impl Driver for Emulated {
    fn backend(&self) -> Backend {
        Backend::Emulated { profile: self.profile }
    }

    fn exchange(
        &self,
        commands: &mut Commands,
        lent: &Lent<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), DriverError> {
        // A process may have become another user since it joined. The kernel is asked before the lock is taken. A reply tells
        // of the user at the last call: to ask again would make each round trip longer.
        if asks(commands.pending()) {
            self.euid.store(rustix::process::geteuid().as_raw(), Ordering::Relaxed);
        }
        let gone = || self.region.ended().is_some();
        let wait = !self.nonblocking.load(Ordering::Relaxed);
        self.enter(lent, |ioctl| {
            ioctl.write(commands)?;
            if let Some(returns) = returns {
                let filled = ioctl.read(returns.room()?, wait, &gone)?;
                returns.filled(filled);
            }
            Ok(())
        })
        .map_err(|errno| self.failed("BINDER_WRITE_READ", errno))
    }

    fn area(&self) -> RawBytes<'_> {
        self.region.area(self.process.index(), self.area.1)
    }

    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        self.descriptors.received.duplicate(number)
    }

    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        self.descriptors.received.take(number)
    }

    fn become_context_manager(&self, flags: u32) -> Result<(), DriverError> {
        self.enter(&Lent::default(), |ioctl| ioctl.become_context_manager(flags)).map_err(|errno| match errno
        {
            Errno::BUSY => DriverError::ContextManagerTaken,
            errno => self.failed("BINDER_SET_CONTEXT_MGR_EXT", errno),
        })
    }

    fn set_max_threads(&self, threads: u32) -> Result<(), DriverError> {
        self.enter(&Lent::default(), |ioctl| {
            ioctl.guard.set(self.process, records::process::MAX_THREADS, threads);
            Ok(())
        })
        .map_err(|errno| self.failed("BINDER_SET_MAX_THREADS", errno))
    }

    fn exit_thread(&self) {
        // A thread that is ending may call this after its list is gone; the process's end then frees what it held.
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            let Some(at) = known.iter().position(|known| known.is_of(&self.instance)) else { return };
            let left = known.swap_remove(at);
            let sweeps = with_guard(&self.region, |guard| {
                guard.release_thread(self.process, left.thread);
                guard.take_sweeps()
            });
            sweeps.into_iter().for_each(|slot| self.descriptors.ask_to_sweep(slot));
        });
    }

    fn poll(&self, timeout: Option<Duration>) -> Result<bool, DriverError> {
        let gone = || self.region.ended().is_some();
        // Times that cannot be calculated with are as good as none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.look(&Lent::default(), |ioctl| ioctl.poll(deadline, &gone))
            .map_err(|errno| self.failed("poll", errno))
    }

    fn interrupt(&self) {
        with_guard(&self.region, |guard| guard.interrupt(self.process));
    }

    fn node_counts(&self, handle: u32) -> Result<(u32, u32), DriverError> {
        self.enter(&Lent::default(), |ioctl| ioctl.node_counts(handle))
            .map_err(|errno| self.failed("BINDER_GET_NODE_INFO_FOR_REF", errno))
    }

    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, DriverError> {
        self.enter(&Lent::default(), |ioctl| Ok(ioctl.guard.node_after(self.process, after)))
            .map_err(|errno| self.failed("BINDER_GET_NODE_DEBUG_INFO", errno))
    }

    fn extended_error(&self) -> Result<ExtendedError, DriverError> {
        self.enter(&Lent::default(), |ioctl| Ok(ioctl.extended_error()))
            .map_err(|errno| self.failed("BINDER_GET_EXTENDED_ERROR", errno))
    }

    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), DriverError> {
        self.enter(&Lent::default(), |ioctl| {
            ioctl.guard.set(self.process, records::process::TELL_SPAM, on);
            Ok(())
        })
        .map_err(|errno| self.failed("BINDER_ENABLE_ONEWAY_SPAM_DETECTION", errno))
    }

    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), DriverError> {
        let gone = || self.region.ended().is_some();
        self.enter(&Lent::default(), |ioctl| ioctl.set_frozen(pid, frozen, timeout_ms, &gone))
            .map_err(|errno| self.failed("BINDER_FREEZE", errno))
    }

    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, DriverError> {
        self.enter(&Lent::default(), |ioctl| ioctl.frozen_info(pid))
            .map_err(|errno| self.failed("BINDER_GET_FROZEN_INFO", errno))
    }

    fn limits(&self) -> Vec<String> {
        let denied = with_guard(&self.region, |guard| guard.get(self.process, records::process::DENIED));
        let mut limits = Vec::new();
        if denied != 0 {
            limits.push(format!(
                "no permission to lend a caller's priority to its server in {denied} transactions: \
                 run as root, or raise RLIMIT_RTPRIO and RLIMIT_NICE"
            ));
        }
        limits
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        if self.region.ended().is_none() {
            with_guard(&self.region, |guard| guard.close_process(self.process));
        }
        self.region.end(End::Closed);
        let _ = self.connection.shutdown(Shutdown::Both);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Whether a call is among these commands.
fn asks(mut commands: &[u8]) -> bool {
    while let Some(word) = commands.get(..4).map(u32::take) {
        if word == BC_TRANSACTION || word == BC_TRANSACTION_SG {
            return true;
        }
        commands = commands.get(payload_size(word).saturating_add(4)..).unwrap_or_default();
    }
    false
}

/// Runs something short under the lock, on any thread, also one that is ending and has no scratch memory any more.
fn with_guard<T>(region: &Region, act: impl FnOnce(&mut Guard<'_>) -> T) -> T {
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(region, &mut scratch);
    let result = act(&mut guard);
    guard.unlock();
    result
}

/// Whole pages, as mmap(2) gives, or a refusal of what cannot be.
fn area_size(area_bytes: u64) -> Result<u64, DriverError> {
    let most = AREA_BYTES as u64;
    if area_bytes == 0 || area_bytes > most {
        return Err(DriverError::AreaSize { bytes: area_bytes, most });
    }
    Ok(area_bytes.next_multiple_of(rustix::param::page_size() as u64).min(most))
}

/// Waits until the keeper is gone (or this process closes the driver), and sends everybody here home. Reads nothing: what the
/// keeper sends is for the thread that asked.
fn watch(connection: &UnixStream, region: &Region) {
    loop {
        let mut watched = [PollFd::new(connection, PollFlags::RDHUP)];
        match poll(&mut watched, None) {
            Ok(1..) => break,
            Ok(0) | Err(Errno::INTR) => {}
            // Without memory for a poll nothing can be known; the next call finds out.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    region.end(welcome::farewell(connection));
    // A process that closes the driver has no thread in it any more.
    if region.ended() != Some(End::Closed) {
        leaving::send_home(region);
    }
}

/// Lets this process's threads sleep so that they can be woken on their callers' CPU; else says why not.
fn follow_callers(
    region: &Region,
    own: (Id<Process>, u64),
    keeper: &ToKeeper,
    wake_up: WakeUp,
) -> Result<(), String> {
    let tag = region.words()[records::TAG].load(Ordering::Relaxed);
    region.wakers().set_context(tag);
    let listener = wakers::own_listener(wake_up)?;
    keeper_line::hand_over(keeper, listener.as_fd())
        .map_err(|errno| format!("the keeper is gone ({errno})"))?;
    region.wakers().learn(own.0, own.1, listener);
    region.wakers().start_trapping(own.0, own.1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use binder_driver::Command;
    use binder_driver::uapi::TransactionData;

    use super::*;

    #[test]
    fn a_driver_says_how_its_threads_are_woken() {
        let context = Context::create(Profile::Ack).expect("a context");
        let mut joined = Emulated::join_with(context.address(), 4096, WakeUp::Futex).expect("the context");
        assert_eq!(joined.wake_up(), "by a futex, wherever the kernel chooses (it was asked for)");
        joined.no_trap = None;
        assert!(joined.wake_up().contains("another seccomp filter"), "{}", joined.wake_up());
        joined.region.wakers().start_trapping(joined.process, 1);
        assert!(joined.wake_up().starts_with("on the caller's CPU"), "{}", joined.wake_up());
        joined.region.wakers().stop_trapping();
        let driver: &dyn Driver = &joined;
        assert!(Emulated::of(driver).is_some_and(|found| std::ptr::eq(found, &joined)));
    }

    #[test]
    fn a_call_is_found_among_other_commands() {
        let asked = |list: &[Command]| {
            let mut commands = Commands::default();
            list.iter().for_each(|&command| commands.push(command));
            asks(commands.pending())
        };
        let data = TransactionData::new(1, b"");
        let others =
            [Command::EnterLooper, Command::FreeBuffer(0), Command::Reply(data), Command::Acquire(1)];
        assert!(!asked(&[]) && !asked(&others));
        assert!(asked(&[Command::Transaction(data)]) && asked(&[Command::TransactionSg(data.gathered(8))]));
        for at in 0..=others.len() {
            let mut all = others.to_vec();
            all.insert(at, Command::Transaction(data));
            assert!(asked(&all), "as number {at}");
        }
        assert!(!asks(&[1, 2, 3]));
    }

    #[test]
    fn an_area_has_whole_pages_and_at_most_4_mib() {
        let page = rustix::param::page_size() as u64;
        let size = |bytes| area_size(bytes).ok();
        assert_eq!([size(1), size(page), size(page + 1)], [page, page, 2 * page].map(Some));
        assert_eq!([size(4 << 20), size((4 << 20) - 1)], [Some(4 << 20); 2]);
        assert_eq!([size(0), size((4 << 20) + 1), size(u64::MAX)], [None; 3]);
    }
}
