//! [`Emulated`]: a process's opened emulated driver, and the threads that enter it.

mod driver;
mod join;

use std::any::Any;
use std::cell::RefCell;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use roundtrip_vocabulary::InheritBy;
use rustix::io::Errno;

use crate::descriptors::Descriptors;
use crate::inheritance;
use crate::ioctl::Ioctl;
use crate::lock::{Guard, Scratch};
use crate::records::{self, Id, Process, Thread};
use crate::region::{End, Region};
use roundtrip_binder_driver::{Driver, Error as DriverError, Profile, ReadableMemory};

/// A process's opened emulated driver.
///
/// One real process may open it several times, as it may open `/dev/binder`. Each counts as a
/// separate process.
#[derive(Debug)]
pub struct Emulated {
    region: Arc<Region>,
    profile: Profile,
    process: Id<Process>,
    /// Address and size of this process's area in its own memory.
    area: (u64, u64),
    /// Identifies this instance's threads among others', and shows them when it has ended.
    instance: Arc<()>,
    /// Why this process's threads are not woken on their callers' CPU.
    no_seccomp: Option<String>,
    /// See [`Emulated::set_nonblocking`].
    nonblocking: AtomicBool,
    /// See [`Emulated::set_inherit_by`].
    inherit_by: AtomicU32,
    /// The real process's id.
    sender: u32,
    /// The user that this process was when it joined, or at its last call.
    euid: AtomicU32,
    descriptors: Descriptors,
    connection: UnixStream,
    watcher: Option<JoinHandle<()>>,
}

/// What a thread remembers of the instances it has used.
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
    /// Whether [`Driver::write_read`] fails with EAGAIN from now on if there is nothing to return,
    /// instead of waiting, as on a device with `O_NONBLOCK`.
    pub fn set_nonblocking(&self, on: bool) {
        self.nonblocking.store(on, Ordering::Relaxed);
    }

    /// Chooses how a real-time priority is inherited from this process's calls from now on. The
    /// mainline kernel's rules inherit none.
    pub fn set_inherit_by(&self, inherit_by: InheritBy) {
        self.inherit_by.store(inherit_by as u32, Ordering::Relaxed);
    }

    /// This process's strong and weak counts on a handle ([`Driver::node_counts`] gives those of
    /// all processes). `None` if there is no such handle.
    #[must_use]
    pub fn handle_counts(&self, handle: u32) -> Option<(u32, u32)> {
        self.enter(&ReadableMemory::default(), |ioctl| Ok(ioctl.handle_counts(handle))).ok().flatten()
    }

    /// This process's number in the context, which [`Context::state`](crate::Context::state) shows.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.process.index() as u32
    }

    /// Bytes of this process's area that are neither in use nor reserved.
    #[must_use]
    pub fn free_area_bytes(&self) -> u64 {
        with_guard(&self.region, |guard| guard.free_bytes(self.process))
    }

    /// The state of the whole context, as [`Context::state`](crate::Context::state).
    #[must_use]
    pub fn state(&self) -> String {
        with_guard(&self.region, |guard| guard.state())
    }

    /// How many transactions since the driver was opened boosted a thread of this process to their
    /// caller's real-time priority through a PI futex ([`InheritBy`]). Such a thread runs at that
    /// priority, but its policy (sched_getattr(2)) does not show it.
    #[must_use]
    pub fn inherited_by_pi_futex(&self) -> u64 {
        with_guard(&self.region, |guard| guard.get(self.process, records::process::INHERITED))
    }

    /// How this process's threads are woken, as text for a person.
    #[must_use]
    pub fn wake_up(&self) -> String {
        match &self.no_seccomp {
            Some(reason) => format!("by a futex, on a CPU that the kernel chooses ({reason})"),
            None if self.region.wakers().uses_seccomp() => {
                "on the caller's CPU, through seccomp if a futex would use another CPU".into()
            }
            None => {
                "by a futex, on a CPU that the kernel chooses (another seccomp filter overrides this one)"
                    .into()
            }
        }
    }

    /// `driver` as an emulated one, if it is.
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
        memory: &ReadableMemory<'_>,
        act: impl FnOnce(&mut Ioctl<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.look(memory, |ioctl| {
            let result = act(ioctl);
            ioctl.guard.set(ioctl.thread, records::thread::NEED_RETURN, false);
            result
        })
    }

    /// Like [`Emulated::enter`], for operations that are no ioctl: they do not use up the immediate
    /// return that the next read may owe.
    fn look<T>(
        &self,
        memory: &ReadableMemory<'_>,
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
                inherit_by: inheritance::inherit_by(self.inherit_by.load(Ordering::Relaxed)),
                memory: *memory,
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

/// Runs a short operation under the lock, on any thread, even one that is exiting and has lost its
/// scratch memory.
fn with_guard<T>(region: &Region, act: impl FnOnce(&mut Guard<'_>) -> T) -> T {
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(region, &mut scratch);
    let result = act(&mut guard);
    guard.unlock();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, WakeUp};

    #[test]
    fn a_driver_reports_how_its_threads_are_woken() {
        let context = Context::create_unlisted(Profile::Ack).expect("a context");
        let mut joined = Emulated::join_with(context.address(), 4096, WakeUp::Futex).expect("the context");
        assert_eq!(joined.wake_up(), "by a futex, on a CPU that the kernel chooses (it was asked for)");
        joined.no_seccomp = None;
        assert!(joined.wake_up().contains("another seccomp filter"), "{}", joined.wake_up());
        joined.region.wakers().start_seccomp(joined.process, 1);
        assert!(joined.wake_up().starts_with("on the caller's CPU"), "{}", joined.wake_up());
        joined.region.wakers().stop_seccomp();
        let driver: &dyn Driver = &joined;
        assert!(Emulated::of(driver).is_some_and(|found| std::ptr::eq(found, &joined)));
    }
}
