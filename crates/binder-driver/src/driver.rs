//! The one interface that both backends offer: [`Driver`].
//!
//! It is the interface of an open binder device: an ioctl that takes commands and gives returns, a
//! mapped area that received data lies in, and a few settings. It knows no parcels, proxies or
//! services.

use std::any::Any;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::uapi::{ExtendedError, FrozenStatusInfo};
use crate::{Backend, Commands, Error, Lent, RawBytes, Returns};

/// One process's opened driver: what `open("/dev/binder")` plus `mmap` is for the kernel's.
///
/// The driver tells threads apart by the calling thread, as the kernel does. Dropping it closes the
/// device: its nodes die, and callers that wait for it get `BR_DEAD_REPLY`.
///
/// What only one driver can tell is asked of that driver's type: a `&dyn Driver` is a `&dyn Any`.
pub trait Driver: Any + Send + Sync + fmt::Debug {
    /// Which driver this is; every result carries it.
    #[must_use]
    fn backend(&self) -> Backend;

    /// `BINDER_WRITE_READ`: hands over the pending commands, then, where `returns` is given, waits
    /// until there is something to return to the calling thread.
    ///
    /// Commands carry addresses. `lent` is the memory that they may name: every transaction's data,
    /// offsets and scatter-gather buffers must lie inside one of its pieces. Otherwise the driver
    /// answers as for memory that is not there (`BR_FAILED_REPLY`): the kernel's would read
    /// whatever lies at an address, so it is told of none. Data with objects, and offsets, must be
    /// the caller's own memory ([`Lent::own`]), because the driver looks at them.
    ///
    /// Room for less than 80 bytes brings nothing but [`Return::Noop`](crate::Return::Noop), and
    /// what waits stays; without any room nothing is read.
    ///
    /// # Errors
    /// [`Error::WriteRead`] with the errno: EINVAL for room of one to three bytes, and then no
    /// command is taken; EINVAL for an unknown command, EFAULT for one that is cut off; EPROTO when
    /// the emulated driver finds its memory overwritten. [`Error::Ended`] (ENODEV) when the
    /// emulated driver's context has ended. EINTR when a signal's handler ran while the thread
    /// waited: the commands were taken, and the next read goes on. What was taken before is
    /// consumed.
    fn exchange(
        &self,
        commands: &mut Commands,
        lent: &Lent<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), Error>;

    /// As [`Driver::exchange`], with memory of the caller's own only.
    ///
    /// # Errors
    /// As [`Driver::exchange`].
    fn write_read(
        &self,
        commands: &mut Commands,
        memory: &[&[u8]],
        returns: Option<&mut Returns>,
    ) -> Result<(), Error> {
        self.exchange(commands, &Lent::own(memory), returns)
    }

    /// The mapped area that received data lies in, whose addresses returns name.
    ///
    /// Others may change it at any time: every participant of an emulated context can write to this
    /// memory, and a buffer that was given back is filled anew. [`Received`](crate::Received) owns
    /// the buffer of one transaction.
    ///
    /// Only the bytes of buffers that are held are there for certain. The kernel maps the pages of
    /// its driver's area when it fills them, and may take back those of buffers that were given
    /// back: who reads one that is not mapped is ended by SIGBUS.
    #[must_use]
    fn area(&self) -> RawBytes<'_>;

    /// Appends a copy of received data to `into`: `length` bytes at `address`, which a return
    /// named. False, and nothing is appended, when they do not lie wholly in the mapped area. Those
    /// of a buffer that is not held may not be there: see [`Driver::area`].
    #[must_use]
    fn append_received(&self, address: u64, length: u64, into: &mut Vec<u8>) -> bool {
        self.area().part_at(address, length).map(|bytes| bytes.append_to(into)).is_some()
    }

    /// A copy of received data, as [`Driver::append_received`] makes it. `None` outside the mapped
    /// area.
    #[must_use]
    fn received(&self, address: u64, length: u64) -> Option<Vec<u8>> {
        self.area().part_at(address, length).map(RawBytes::to_vec)
    }

    /// A duplicate (close-on-exec) of the descriptor that received data names by `number`, whose
    /// buffer is still held.
    ///
    /// Only descriptors count that this driver has opened for this process, and that nobody has
    /// taken: every participant of an emulated context can write any number to the area.
    ///
    /// # Errors
    /// EBADF for any other number, and always from a driver that brings no descriptors; EMFILE at
    /// the limit of open files.
    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        let _ = number;
        Err(Errno::BADF)
    }

    /// Hands over the descriptor that [`Driver::duplicate_fd`] would duplicate, to keep or to
    /// close. `None` for any other number, and for those of an array (`BINDER_TYPE_FDA`): the
    /// driver closes them with the buffer that they came in.
    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        let _ = number;
        None
    }

    /// `BINDER_SET_CONTEXT_MGR_EXT`: makes this process the context manager (handle 0); `flags` are
    /// those of its node (`FLAT_BINDER_FLAG_*`).
    ///
    /// # Errors
    /// [`Error::ContextManagerTaken`] when there is one already.
    fn become_context_manager(&self, flags: u32) -> Result<(), Error>;

    /// `BINDER_SET_MAX_THREADS`: how many looper threads the driver may ask for with
    /// `BR_SPAWN_LOOPER`, besides those that the process starts by itself.
    ///
    /// # Errors
    /// [`Error::WriteRead`] when the driver refuses.
    fn set_max_threads(&self, threads: u32) -> Result<(), Error>;

    /// `BINDER_THREAD_EXIT`: the calling thread will not use the driver again. Its unfinished
    /// transactions fail.
    fn exit_thread(&self);

    /// Makes every thread that waits in [`Driver::write_read`] return, with no returns if there are
    /// none (the kernel does so when a copy of the descriptor is closed).
    fn interrupt(&self);

    /// `BINDER_GET_NODE_INFO_FOR_REF`: the strong and weak counts on the node of a handle of this
    /// process, over all processes. The weak ones do not count handles.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EPERM for a process that is not the context manager, EINVAL without
    /// such a handle, or without a strong reference on it.
    fn node_counts(&self, handle: u32) -> Result<(u32, u32), Error> {
        let _ = handle;
        Err(Error::unsupported("BINDER_GET_NODE_INFO_FOR_REF"))
    }

    /// `BINDER_GET_NODE_DEBUG_INFO`: this process's node with the least `ptr` above `after`; `None`
    /// when there is none. Begun with 0, it walks over all but one whose `ptr` is 0 (a context
    /// manager's own).
    ///
    /// # Errors
    /// [`Error::WriteRead`] when the driver refuses.
    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, Error> {
        let _ = after;
        Err(Error::unsupported("BINDER_GET_NODE_DEBUG_INFO"))
    }

    /// `BINDER_GET_EXTENDED_ERROR`: why the calling thread's last transaction was refused, or its
    /// call not answered. Asking forgets it.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL from kernels before 5.19.
    fn extended_error(&self) -> Result<ExtendedError, Error> {
        Err(Error::unsupported("BINDER_GET_EXTENDED_ERROR"))
    }

    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION`: whether this process gets `BR_ONEWAY_SPAM_SUSPECT` in
    /// the place of `BR_TRANSACTION_COMPLETE` for the oneway transaction that makes it look like
    /// the reason why an area runs full.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL from kernels before 5.13.
    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        let _ = on;
        Err(Error::unsupported("BINDER_ENABLE_ONEWAY_SPAM_DETECTION"))
    }

    /// `BINDER_FREEZE`: from now on synchronous calls to process `pid` get `BR_FROZEN_REPLY`, and
    /// oneway ones are kept; or no longer so. Waits up to `timeout_ms` milliseconds for its
    /// transactions to end.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL when no such process has the driver open (in this context, for
    /// the emulated one), and from kernels before 5.12; EAGAIN when some transactions did not end,
    /// and then it is not frozen.
    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), Error> {
        let _ = (pid, frozen, timeout_ms);
        Err(Error::unsupported("BINDER_FREEZE"))
    }

    /// `BINDER_GET_FROZEN_INFO`: what came for process `pid` since it was frozen.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINVAL as for [`Driver::set_frozen`].
    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        let _ = pid;
        Err(Error::unsupported("BINDER_GET_FROZEN_INFO"))
    }

    /// What poll(2) on the device says of the calling thread: waits until a read would find
    /// something, at most for `timeout` (without one, for ever). False when that is over.
    ///
    /// There is something where work waits for this thread, or for its process and this thread may
    /// take it: it serves no call, waits for no reply, and has no work of its own. So it is after
    /// [`Driver::interrupt`], and for a thread that the driver sees for the first time, until its
    /// next read. Several threads may find the same work; one that reads too late waits.
    ///
    /// Only [`Driver::descriptor`] can be waited for together with other files.
    ///
    /// # Errors
    /// [`Error::WriteRead`]: EINTR when a signal's handler ran; ENOMEM when the kernel's driver has
    /// no memory for the thread. [`Error::Ended`] as for [`Driver::write_read`].
    fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let _ = timeout;
        Err(Error::unsupported("poll"))
    }

    /// The device's descriptor, for epoll(7) beside others: readable as [`Driver::poll`] says of
    /// the thread that asks. The thread that adds it has to be the one that waits, since the driver
    /// wakes that one.
    ///
    /// `None` for the emulated driver: what wakes its threads is a word in shared memory, and a
    /// descriptor would have to be had by every process that may send something.
    #[must_use]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What this driver could not do on this machine so far, each as one sentence for a person (no
    /// permission to lend a priority, …). Empty when nothing is missing.
    #[must_use]
    fn limits(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What the driver has reported to a node's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The owner's name of it.
    pub ptr: u64,
    /// The owner's second word.
    pub cookie: u64,
    /// Strong references were reported to the owner (`BR_ACQUIRE`), and their end was not yet.
    pub has_strong: bool,
    /// Weak references were reported to the owner (`BR_INCREFS`), and their end was not yet.
    pub has_weak: bool,
}
