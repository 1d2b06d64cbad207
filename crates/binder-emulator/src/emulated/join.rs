//! How a process joins a context and notices that it has ended.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{Emulated, with_guard};

use crate::descriptors::Descriptors;
use crate::error::Error;
use crate::inheritance;
use crate::records::{self, AREA_BYTES, Id, Process};
use crate::region::{End, Region};
use crate::supervisor_line::{self, ToSupervisor};
use crate::wakers::{self, WakeUp};
use crate::{leaving, membership, priority, sched, welcome};
use roundtrip_binder_driver::Error as DriverError;

impl Emulated {
    /// Joins the context at `address` ([`Context::address`](crate::Context::address)) with a
    /// receive area of `area_bytes` (rounded down to 8; at most 4 MiB, like the kernel's;
    /// Android's libraries use 1 MiB less two pages).
    ///
    /// # Errors
    /// [`Error::Join`] when there is no such context, it is full, or it belongs to another user;
    /// [`Error::Driver`] for an impossible size.
    pub fn join(address: &str, area_bytes: u64) -> Result<Self, Error> {
        Self::join_with(address, area_bytes, WakeUp::default())
    }

    /// Like [`Emulated::join`], with a preferred way to wake this process's threads. If that is not
    /// possible, joining still succeeds; [`Emulated::wake_up`] reports the way in use.
    ///
    /// Waking a thread on its caller's CPU takes a seccomp filter, which the process and its
    /// children keep until they end. It suspends one call that only the driver makes. A process
    /// that inherits a filter with a listener cannot install another one with a listener, so a
    /// process that joins should not be the parent of others that join.
    ///
    /// # Errors
    /// As for [`Emulated::join`].
    pub fn join_with(address: &str, area_bytes: u64, wake_up: WakeUp) -> Result<Self, Error> {
        let bytes = area_size(area_bytes)?;
        let failed = |operation, cause| Error::Join { address: address.into(), operation, cause };
        let connection = membership::connect(address).map_err(|source| failed("connect", source))?;
        Self::join_by(connection, address, bytes, wake_up)
    }

    /// Joins the context at the other end of `connection` ([`Emulated::connect`]), as the process
    /// that connected. For a process that may not connect itself, or that acts for another.
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
        let to_supervisor =
            membership.connection.try_clone().map_err(|source| failed("copy the connection", source))?;
        let to_supervisor = Arc::new(Mutex::new(to_supervisor));
        region.wakers().set_supervisor(Arc::clone(&to_supervisor));
        let opened = with_guard(&region, |guard| {
            guard.open_area(slot, bytes)?;
            guard.set(slot, records::process::AREA_ADDRESS, area_address);
            let own = priority::of_caller(membership.profile).map_or(0, sched::Priority::to_word);
            guard.set(slot, records::process::DEFAULT_PRIORITY, own);
            Ok::<(), Errno>(())
        });
        opened.map_err(|errno| failed("open an area in it", errno.into()))?;
        let generation = with_guard(&region, |guard| guard.get(slot, records::process::GENERATION));
        let traps = follow_callers(&region, (slot, generation), &to_supervisor, wake_up);
        let inherit_by =
            inheritance::inherit_by(region.words()[records::INHERIT_BY].load(Ordering::Relaxed) as u32);
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
            no_seccomp: traps.err(),
            nonblocking: AtomicBool::new(false),
            inherit_by: AtomicU32::new(inherit_by as u32),
            sender: std::process::id(),
            euid: AtomicU32::new(rustix::process::geteuid().as_raw()),
            descriptors: Descriptors::new(to_supervisor),
            connection: membership.connection,
            watcher: Some(watcher.map_err(|source| failed("start a thread", source))?),
        })
    }
}

/// Rounded to whole pages, as mmap(2) does; an impossible size is an error.
fn area_size(area_bytes: u64) -> Result<u64, DriverError> {
    let most = AREA_BYTES as u64;
    if area_bytes == 0 || area_bytes > most {
        return Err(DriverError::AreaSize { bytes: area_bytes, most });
    }
    Ok(area_bytes.next_multiple_of(rustix::param::page_size() as u64).min(most))
}

/// Waits until the supervisor is gone (or this process closes the driver), then wakes all threads
/// of this process. Reads nothing: the supervisor's answers are for the thread that asked.
fn watch(connection: &UnixStream, region: &Region) {
    loop {
        let mut watched = [PollFd::new(connection, PollFlags::RDHUP)];
        match poll(&mut watched, None) {
            Ok(1..) => break,
            Ok(0) | Err(Errno::INTR) => {}
            // If poll(2) has no memory, the state is unknown; the next call tries again.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
    region.end(welcome::farewell(connection));
    // A process that closes the driver has no thread left in it.
    if region.ended() != Some(End::Closed) {
        leaving::wake_to_leave(region);
    }
}

/// Lets this process's threads sleep so that their callers can wake them on the callers' CPU. The
/// error says why that is not possible.
fn follow_callers(
    region: &Region,
    own: (Id<Process>, u64),
    supervisor: &ToSupervisor,
    wake_up: WakeUp,
) -> Result<(), String> {
    let tag = region.words()[records::TAG].load(Ordering::Relaxed);
    region.wakers().set_context(tag);
    let listener = wakers::own_listener(wake_up)?;
    supervisor_line::hand_over(supervisor, listener.as_fd()).map_err(|errno| match errno {
        Errno::MFILE => {
            "its supervisor cannot open more files: raise the limit of that process (ulimit -n)".to_owned()
        }
        errno => format!("the supervisor has exited ({errno})"),
    })?;
    region.wakers().learn(own.0, own.1, listener);
    region.wakers().start_seccomp(own.0, own.1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_whole_pages_and_at_most_4_mib() {
        let page = rustix::param::page_size() as u64;
        let size = |bytes| area_size(bytes).ok();
        assert_eq!([size(1), size(page), size(page + 1)], [page, page, 2 * page].map(Some));
        assert_eq!([size(4 << 20), size((4 << 20) - 1)], [Some(4 << 20); 2]);
        assert_eq!([size(0), size((4 << 20) + 1), size(u64::MAX)], [None; 3]);
    }
}
