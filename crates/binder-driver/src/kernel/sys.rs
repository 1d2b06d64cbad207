#![allow(unsafe_code)]
//! The unsafe parts of a binder device: its ioctls, its mapped area, and the descriptors that it
//! opens.
//!
//! Unsafe: ioctl numbers and their arguments are the kernel's contract
//! (`include/uapi/linux/android/binder.h`), the driver writes to the area, and it passes
//! descriptors as numbers. This file does not interpret other data.

use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater};
use rustix::mm::{MapFlags, ProtFlags};

use crate::uapi::{
    BINDER_ENABLE_ONEWAY_SPAM_DETECTION, BINDER_FREEZE, BINDER_GET_EXTENDED_ERROR, BINDER_GET_FROZEN_INFO,
    BINDER_GET_NODE_DEBUG_INFO, BINDER_GET_NODE_INFO_FOR_REF, BINDER_SET_CONTEXT_MGR,
    BINDER_SET_CONTEXT_MGR_EXT, BINDER_SET_MAX_THREADS, BINDER_THREAD_EXIT, BINDER_VERSION,
    BINDER_WRITE_READ, ExtendedError, Field as _, FlatBinderObject, FreezeInfo, FrozenStatusInfo,
    NodeDebugInfo, TransactionData, WriteRead,
};
use crate::{Command, ForkGuard, RawBytes, ReceivedFds};

use super::received::{numbers, with_objects};
use crate::received_fds::forget;

/// An ioctl whose argument is `SIZE` bytes that the driver may read and write. All of binder's
/// ioctls have this form except `BINDER_WRITE_READ`.
fn plain<const NUMBER: Opcode, const SIZE: usize>(
    device: BorrowedFd<'_>,
    argument: &mut [u8; SIZE],
) -> Result<(), Errno> {
    const { assert!((NUMBER >> 16) & 0x3fff == SIZE as Opcode, "an ioctl's number has its argument's size") };
    // SAFETY: the number contains the argument's size, SIZE, and the argument has no addresses.
    unsafe { rustix::ioctl::ioctl(device, Updater::<NUMBER, [u8; SIZE]>::new(argument)) }
}

macro_rules! plain_ioctls {
    ($($(#[$doc:meta])* $name:ident: $number:ident($size:expr);)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(device: BorrowedFd<'_>, argument: &mut [u8; $size]) -> Result<(), Errno> {
            plain::<{ $number as Opcode }, { $size }>(device, argument)
        }
    )*};
}
plain_ioctls! {
    /// The protocol version.
    version: BINDER_VERSION(4);
    /// Sets the number of threads that the driver may request.
    set_max_threads: BINDER_SET_MAX_THREADS(4);
    /// The calling thread leaves the driver.
    thread_exit: BINDER_THREAD_EXIT(4);
    /// Become the context manager; kernels before 5.0.
    set_context_manager: BINDER_SET_CONTEXT_MGR(4);
    /// Become the context manager, with flags.
    set_context_manager_ext: BINDER_SET_CONTEXT_MGR_EXT(FlatBinderObject::SIZE);
    /// Whether oneway spam is reported.
    oneway_spam_detection: BINDER_ENABLE_ONEWAY_SPAM_DETECTION(4);
    /// Why the calling thread's last transaction failed.
    extended_error: BINDER_GET_EXTENDED_ERROR(ExtendedError::SIZE);
    /// Freezes or thaws a process.
    freeze: BINDER_FREEZE(FreezeInfo::SIZE);
    /// Whether a process is frozen.
    frozen_info: BINDER_GET_FROZEN_INFO(FrozenStatusInfo::SIZE);
    /// The counts on a handle's node; only for the context manager.
    node_info_for_ref: BINDER_GET_NODE_INFO_FOR_REF(24);
    /// What was reported to a node's owner.
    node_debug_info: BINDER_GET_NODE_DEBUG_INFO(NodeDebugInfo::SIZE);
}

/// The outcome of one `BINDER_WRITE_READ`.
pub(super) struct Exchange {
    /// Bytes of commands that the driver consumed, even if it failed.
    pub(super) taken: usize,
    /// Bytes of returns that the driver wrote.
    pub(super) filled: usize,
    pub(super) result: Result<(), Errno>,
}

/// `BINDER_WRITE_READ`. The driver reads memory at the addresses in the commands; `check.rs` has
/// checked them. Adds the descriptors of returned transactions, found in `area`, to `fds`, and
/// removes from `fds` the descriptors that the driver closes with a freed buffer.
pub(super) fn write_read(
    device: BorrowedFd<'_>,
    area: &Area,
    fds: &ReceivedFds,
    commands: &[u8],
    room: &mut [u8],
) -> Exchange {
    let ending = if fds.has_arrays() { take_freed(fds, commands) } else { Vec::new() };
    let mut argument = WriteRead {
        write_size: commands.len() as u64,
        write_buffer: commands.as_ptr().expose_provenance() as u64,
        read_size: room.len() as u64,
        read_buffer: room.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    }
    .to_bytes();
    // SAFETY: the argument has the size in the ioctl's number. The driver reads the commands, which
    // are borrowed, and writes only to the room, which is borrowed mutably.
    let result = unsafe {
        rustix::ioctl::ioctl(device, Updater::<{ BINDER_WRITE_READ as Opcode }, _>::new(&mut argument))
    };
    let word = |at: usize| u64::take(&argument[at..]) as usize;
    let exchange = Exchange { taken: word(WRITE_CONSUMED), filled: word(READ_CONSUMED), result };
    for Ending { end, buffer, array } in ending {
        if end <= exchange.taken {
            // The kernel closes these descriptors when it returns from this system call.
            forget(array);
        } else {
            fds.add_array(buffer, array);
        }
    }
    for transaction in with_objects(room.get(..exchange.filled).unwrap_or_default()) {
        take_over(area, fds, &transaction);
    }
    exchange
}

/// The descriptors of an array whose buffer is freed by the command that ends at byte `end`.
struct Ending {
    end: usize,
    buffer: u64,
    array: Vec<OwnedFd>,
}

/// Takes the arrays of all buffers that `commands` free, before the driver closes them.
#[cold]
fn take_freed(fds: &ReceivedFds, commands: &[u8]) -> Vec<Ending> {
    let (mut ending, mut end) = (Vec::new(), 0);
    while let Some((command, length)) = Command::parse(&commands[end..]) {
        end += length;
        if let Command::FreeBuffer(buffer) = command {
            ending.push(Ending { end, buffer, array: fds.take_array(buffer) });
        }
    }
    ending
}

/// Adds the descriptors of a transaction that the driver just returned.
#[cold]
fn take_over(area: &Area, fds: &ReceivedFds, transaction: &TransactionData) {
    let found = numbers(area.bytes(), transaction);
    // SAFETY: only the kernel can write these numbers. Its driver opened each descriptor for this
    // transaction alone (`binder.c`, `binder_apply_fd_fixups`) and returns the transaction once.
    // Nothing else in this process knows the descriptors yet.
    let owned = |number| unsafe { OwnedFd::from_raw_fd(number) };
    found.single.into_iter().map(owned).for_each(|fd| fds.add(fd));
    fds.add_array(transaction.buffer, found.in_arrays.into_iter().map(owned).collect());
}

/// The offsets of `write_consumed` and `read_consumed` in `struct binder_write_read`.
const WRITE_CONSUMED: usize = 8;
const READ_CONSUMED: usize = 32;

/// The area for received data, read-only for this process.
#[derive(Debug)]
pub(super) struct Area {
    base: NonNull<u8>,
    bytes: usize,
    /// Detects a forked process, which does not have the mapping (`VM_DONTCOPY`).
    guard: ForkGuard,
}

// SAFETY: the mapping lives until the Area is dropped, is not tied to a thread, and is only read.
unsafe impl Send for Area {}
// SAFETY: as for `Send` above.
unsafe impl Sync for Area {}

impl Area {
    /// Maps `bytes` bytes of the device, rounded up to whole pages, as this process's area. The
    /// driver allows this once.
    pub(super) fn map(device: BorrowedFd<'_>, bytes: usize) -> Result<Self, Errno> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses; nothing else refers to it.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, device, 0)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { base, bytes, guard: ForkGuard::new() })
    }

    /// The whole area. Empty in a forked process, where other memory may have its addresses.
    pub(super) fn bytes(&self) -> RawBytes<'_> {
        if self.guard.forked() {
            return RawBytes::empty();
        }
        // SAFETY: the mapping lives as long as `self` and is readable. Reading a page that the
        // driver has not mapped raises SIGBUS, which is not undefined behaviour.
        unsafe { RawBytes::new(self.base.as_ptr(), self.bytes) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // In a forked process, other memory may have these addresses.
        if self.guard.forked() {
            return;
        }
        // SAFETY: mapped by `map` in this process with this length, and no longer borrowed.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_forked_process_has_no_area() {
        let device = std::fs::File::open("/dev/zero").expect("a file");
        let area = Area::map(device.as_fd(), 1).expect("a page");
        // SAFETY: the child only reads memory and exits, which is allowed after fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(!area.bytes().is_empty());
            // SAFETY: ends the child without running destructors.
            unsafe { libc::_exit(code) };
        }
        let child = rustix::process::Pid::from_raw(child).expect("a child");
        let ended = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        let (_, status) = ended.expect("one's own").expect("it ends");
        assert_eq!(status.exit_status(), Some(0));
        assert_eq!(area.bytes().len(), rustix::param::page_size());
    }
}
