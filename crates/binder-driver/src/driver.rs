//! [`Driver`]: the common interface of both backends.
//!
//! This is the interface of an open binder device: an ioctl that exchanges commands and returns, a
//! mapped area for received data, and a few settings. It knows nothing about parcels, proxies or
//! services.

use std::any::Any;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::uapi::{ExtendedError, FrozenStatusInfo};
use crate::{Backend, Commands, Error, RawBytes, ReadableMemory, Returns};

/// One process's opened driver, like `open("/dev/binder")` plus `mmap` with the kernel driver.
///
/// A method applies to the calling thread if the kernel's ioctl does. Dropping the driver closes
/// the device: its nodes die, and callers that wait for it get `BR_DEAD_REPLY`.
///
/// A `&dyn Driver` is also a `&dyn Any`, for methods that only one backend has.
pub trait Driver: Any + Send + Sync + fmt::Debug {
    /// The kind of driver, for storage in results.
    #[must_use]
    fn backend(&self) -> Backend;

    /// `BINDER_WRITE_READ`: sends the pending commands. With `returns`, it then waits until the
    /// driver has a return for the calling thread.
    ///
    /// Commands contain addresses. They may refer only to `memory`: all data, offsets and
    /// scatter-gather buffers of a transaction must lie inside one of its slices. For any other
    /// address the driver returns `BR_FAILED_REPLY`, as for unmapped memory. (The kernel driver
    /// would read any mapped address, so it never gets such an address.) Offsets, and data with
    /// objects, must be the caller's own memory (`ReadableMemory::own`), because the driver
    /// interprets them.
    ///
    /// A read with room for less than 80 bytes returns only [`Return::Noop`](crate::Return::Noop),
    /// and pending work stays pending. A read without room does nothing.
    ///
    /// # Errors
    /// Consumed commands stay consumed on every error.
    ///
    /// - [`Error::WriteRead`] with EINVAL: the room is one to three bytes (no command is consumed),
    ///   or a command is unknown.
    /// - EFAULT: a command is truncated.
    /// - EINTR: a signal handler ran while the thread waited. All commands were consumed; the
    ///   caller can read again.
    /// - EPROTO: the emulated driver found its shared memory overwritten.
    /// - [`Error::Ended`] (ENODEV): the emulated driver's context has ended.
    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), Error>;

    /// Like [`Driver::exchange`], with only the caller's own memory.
    ///
    /// # Errors
    /// See [`Driver::exchange`].
    fn write_read(
        &self,
        commands: &mut Commands,
        own: &[&[u8]],
        returns: Option<&mut Returns>,
    ) -> Result<(), Error> {
        self.exchange(commands, &ReadableMemory::own(own), returns)
    }

    /// The mapped area for received data, to which the addresses in returns refer.
    ///
    /// The contents may change at any time: every participant of an emulated context can write to
    /// this memory, and the driver reuses freed buffers. [`Received`](crate::Received) owns the
    /// buffer of one transaction.
    ///
    /// Only read buffers that are not yet freed. The kernel driver maps a page of the area when it
    /// fills it, and may unmap pages of freed buffers. Reading an unmapped page raises SIGBUS.
    #[must_use]
    fn area(&self) -> RawBytes<'_>;

    /// Appends a copy of received data to `into`: `length` bytes at `address`. Returns false and
    /// appends nothing if they are not completely inside the mapped area. The buffer must not be
    /// freed: see [`Driver::area`].
    #[must_use]
    fn append_received(&self, address: u64, length: u64, into: &mut Vec<u8>) -> bool {
        self.area().part_at(address, length).map(|bytes| bytes.append_to(into)).is_some()
    }

    /// Returns a copy of received data: `length` bytes at `address`. `None` if they are not
    /// completely inside the mapped area. The buffer must not be freed: see [`Driver::area`].
    #[must_use]
    fn received(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        self.area().part_at(address, length).map(RawBytes::to_vec)
    }

    /// Duplicates (close-on-exec) the descriptor `number` of received data whose buffer is not yet
    /// freed.
    ///
    /// It must be a descriptor that this driver opened for this process, and that was not taken.
    /// The driver checks this, because every participant of an emulated context can write any
    /// number to the area.
    ///
    /// # Errors
    /// EBADF for any other number, and always from a driver without descriptors. EMFILE at the
    /// limit of open files.
    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        let _ = number;
        Err(Errno::BADF)
    }

    /// Takes ownership of the descriptor that [`Driver::duplicate_fd`] would duplicate. `None` for
    /// any other number, and for the descriptors of an array (`BINDER_TYPE_FDA`), which the driver
    /// closes when their buffer is freed.
    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        let _ = number;
        None
    }

    /// `BINDER_SET_CONTEXT_MGR_EXT`: makes this process the context manager (handle 0). `flags` are
    /// the flags of its node (`FLAT_BINDER_FLAG_*`).
    ///
    /// # Errors
    /// [`Error::ContextManagerTaken`] if the context already has a manager.
    fn become_context_manager(&self, flags: u32) -> Result<(), Error>;

    /// `BINDER_SET_MAX_THREADS`: how many looper threads the driver may request with
    /// `BR_SPAWN_LOOPER`, besides those that the process starts itself.
    ///
    /// # Errors
    /// [`Error::WriteRead`] if the driver refuses.
    fn set_max_threads(&self, threads: u32) -> Result<(), Error>;

    /// `BINDER_THREAD_EXIT`: the calling thread stops using the driver. Its unfinished transactions
    /// fail.
    fn exit_thread(&self);

    /// Wakes every thread that waits in [`Driver::write_read`], even without a return for it. (The
    /// kernel driver does this when a duplicate of the descriptor is closed.)
    fn interrupt(&self);

    /// `BINDER_GET_NODE_INFO_FOR_REF`: the strong and weak reference counts of a handle's node,
    /// over all processes. The weak count does not include handles.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EPERM if this process is not the context manager. EINVAL if it has no
    /// such handle, or no strong reference on it.
    fn node_counts(&self, handle: u32) -> Result<(u32, u32), Error> {
        let _ = handle;
        Err(Error::unsupported("BINDER_GET_NODE_INFO_FOR_REF"))
    }

    /// `BINDER_GET_NODE_DEBUG_INFO`: this process's node with the lowest `ptr` above `after`, or
    /// `None`. Repeated calls, starting with 0, visit all nodes except one whose `ptr` is 0 (a
    /// context manager's).
    ///
    /// # Errors
    /// [`Error::WriteRead`] if the driver refuses.
    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, Error> {
        let _ = after;
        Err(Error::unsupported("BINDER_GET_NODE_DEBUG_INFO"))
    }

    /// `BINDER_GET_EXTENDED_ERROR`: why the calling thread's last transaction failed. Reading the
    /// error also resets it.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL on kernels before 5.19.
    fn extended_error(&self) -> Result<ExtendedError, Error> {
        Err(Error::unsupported("BINDER_GET_EXTENDED_ERROR"))
    }

    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION`: enables or disables `BR_ONEWAY_SPAM_SUSPECT`. The
    /// driver sends it instead of `BR_TRANSACTION_COMPLETE` for a oneway transaction of a process
    /// that seems to fill another process's area.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL on kernels before 5.13.
    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        let _ = on;
        Err(Error::unsupported("BINDER_ENABLE_ONEWAY_SPAM_DETECTION"))
    }

    /// `BINDER_FREEZE`: freezes or thaws process `pid`. Synchronous calls to a frozen process get
    /// `BR_FROZEN_REPLY`; oneway calls are queued. Waits up to `timeout_ms` milliseconds for the
    /// process's transactions to end.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL if no process `pid` has the driver open (with the emulated
    /// driver: in this context), and on kernels before 5.12. EAGAIN if transactions did not end in
    /// time; the process is not frozen then.
    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), Error> {
        let _ = (pid, frozen, timeout_ms);
        Err(Error::unsupported("BINDER_FREEZE"))
    }

    /// `BINDER_GET_FROZEN_INFO`: which calls arrived for process `pid` since it was frozen.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL as for [`Driver::set_frozen`].
    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        let _ = pid;
        Err(Error::unsupported("BINDER_GET_FROZEN_INFO"))
    }

    /// poll(2) on the device: waits up to `timeout` until the calling thread can read work (`None`:
    /// no limit). Returns false after the timeout.
    ///
    /// A thread can read its own work. It can read its process's work if it serves no call, waits
    /// for no reply, and has no work of its own. This method also returns true after
    /// [`Driver::interrupt`], and for a thread that is new to the driver, in both cases until the
    /// thread's next read. Several threads may be notified of the same work. The first one that
    /// reads gets the work, and the others then wait.
    ///
    /// To also wait for other files, use [`Driver::descriptor`].
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINTR if a signal handler ran; ENOMEM if the kernel driver has no
    /// memory for the thread. [`Error::Ended`] as for [`Driver::write_read`].
    fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let _ = timeout;
        Err(Error::unsupported("poll"))
    }

    /// The device's descriptor, for epoll(7) with other files. It is readable under the conditions
    /// of [`Driver::poll`] for the calling thread. The thread that adds it to an epoll instance
    /// must also be the one that waits, because the driver wakes that thread.
    ///
    /// `None` for the emulated driver. Its threads sleep on a futex in shared memory. With a
    /// descriptor, every sender would need a copy of it.
    #[must_use]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What this driver could not do on this machine so far, as human-readable sentences (for
    /// example, a missing permission for priority inheritance). Empty if nothing is missing.
    #[must_use]
    fn limits(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A node, and what the driver has reported to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The `ptr` by which the owner knows the node.
    pub ptr: u64,
    /// The owner's second word for the node.
    pub cookie: u64,
    /// The driver reported strong references to the owner (`BR_ACQUIRE`), but not yet their
    /// release.
    pub has_strong: bool,
    /// The driver reported weak references to the owner (`BR_INCREFS`), but not yet their release.
    pub has_weak: bool,
}
