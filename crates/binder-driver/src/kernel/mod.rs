//! The kernel's binder driver, in C or in Rust: any device that implements the binder protocol.
//!
//! `sys` contains the ioctls and the mapping, and `binderfs` makes private devices. `check` checks
//! commands, so that the kernel reads only memory that the caller passed.
//!
//! Together, these checks ensure that no safe call lets the kernel read or write other memory:
//!
//! - [`Kernel::open`] refuses areas of 0 bytes and of more than 4 MiB.
//! - [`Returns::room`] refuses room of one to three bytes, because the driver writes the first four
//!   bytes without checking the size. The driver checks the size for all other bytes.
//! - `check` passes on only whole, known commands, and no data, offsets or buffers outside
//!   [`ReadableMemory`]. It compares lengths without overflow.
//! - All other ioctls have arguments of a fixed size without addresses. The ioctl's number contains
//!   the size, which `sys` asserts at compile time.
//! - Received data is read as [`RawBytes`] inside the mapped area.

mod binderfs;
mod check;
mod features;
mod received;
mod sys;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use binderfs::PrivateBinderfs;
pub use roundtrip_vocabulary::{Features, Language};

use crate::error::MAP;
use crate::uapi::{
    ExtendedError, Field as _, FlatBinderObject, FreezeInfo, FrozenStatusInfo, NodeDebugInfo,
    PROTOCOL_VERSION, TF_ONE_WAY, TransactionData,
};
use crate::{
    Backend, Command, Commands, Driver, Error, NodeInfo, RawBytes, ReadableMemory, ReceivedFds, Return,
    Returns,
};

/// A process's opened binder device.
///
/// The driver treats each opened device as one binder process with the pid of its opener. It
/// refuses a call to the context manager if the same OS process opened both devices.
#[derive(Debug)]
pub struct Kernel {
    // The fields are dropped in this order: the area is unmapped before the device is closed.
    area: sys::Area,
    device: OwnedFd,
    fds: ReceivedFds,
    path: String,
}

impl Kernel {
    /// Opens the device at `path` with a receive area of `area_bytes`, 1 byte to 4 MiB, rounded up
    /// to whole pages. Android's libraries use 1 MiB minus two pages.
    ///
    /// # Errors
    /// [`Error::Device`] if the file is missing, may not be opened, is not a binder device, or
    /// cannot be mapped. [`Error::Version`] if the driver uses another version of the protocol.
    /// [`Error::AreaSize`] if the size is not possible.
    pub fn open(path: &str, area_bytes: u64) -> Result<Self, Error> {
        if area_bytes == 0 || area_bytes > MOST_AREA_BYTES {
            return Err(Error::AreaSize { bytes: area_bytes, most: MOST_AREA_BYTES });
        }
        let device = open_checked(path)?;
        let area = sys::Area::map(device.as_fd(), area_bytes as usize)
            .map_err(|errno| Error::device(path, MAP, errno))?;
        Ok(Self { area, device, fds: ReceivedFds::default(), path: path.into() })
    }

    /// Enables or disables nonblocking mode: [`Driver::write_read`] then fails with EAGAIN if there
    /// is nothing to return, instead of waiting.
    ///
    /// # Errors
    /// [`Error::Device`] if the system refuses.
    pub fn set_nonblocking(&self, on: bool) -> Result<(), Error> {
        let set = || {
            let mut flags = rustix::fs::fcntl_getfl(&self.device)?;
            flags.set(OFlags::NONBLOCK, on);
            rustix::fs::fcntl_setfl(&self.device, flags)
        };
        set().map_err(|errno| Error::device(&self.path, "set the flags of", errno))
    }

    /// Queries the driver's features. This registers the calling thread with the driver.
    #[must_use]
    pub fn features(&self) -> Features {
        features::ask(self.device.as_fd(), &self.path)
    }

    /// Returns true if the device has a context manager. Sends a oneway ping, which every context
    /// manager handles or ignores.
    ///
    /// # Errors
    /// [`Error::WriteRead`] if the driver refuses.
    pub fn has_context_manager(&self) -> Result<bool, Error> {
        const PING: u32 = u32::from_be_bytes(*b"_PNG");
        let (mut commands, mut returns) = (Commands::default(), Returns::default());
        commands.push(Command::Transaction(TransactionData {
            code: PING,
            flags: TF_ONE_WAY,
            ..Default::default()
        }));
        loop {
            self.write_read(&mut commands, &[], Some(&mut returns))?;
            for item in &mut returns {
                match item {
                    // These returns mean that a manager exists, even if it is this process, or its
                    // area is full, or it is frozen.
                    Return::TransactionComplete
                    | Return::TransactionPendingFrozen
                    | Return::FrozenReply
                    | Return::OnewaySpamSuspect
                    | Return::FailedReply => return Ok(true),
                    Return::DeadReply => return Ok(false),
                    _ => {}
                }
            }
        }
    }
}

/// The largest area, in bytes: `SZ_4M` in the driver's `binder_alloc_mmap_handler`.
const MOST_AREA_BYTES: u64 = 4 << 20;

/// Opens a device and queries the version, which only a binder device answers.
fn open_checked(path: &str) -> Result<OwnedFd, Error> {
    let device = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::device(path, "open", errno))?;
    let mut version = [0; 4];
    let answer = sys::version(device.as_fd(), &mut version).map(|()| i32::from_ne_bytes(version));
    check_version(path, answer)?;
    Ok(device)
}

/// Checks a device's answer to `BINDER_VERSION`.
fn check_version(path: &str, answer: Result<i32, Errno>) -> Result<(), Error> {
    match answer {
        Ok(PROTOCOL_VERSION) => Ok(()),
        // A 32-bit driver (version 7) has different numbers for ioctls with addresses, but the same
        // number for this ioctl.
        Ok(found) => Err(Error::Version { device: path.into(), found }),
        Err(errno) => Err(Error::device(path, "query the binder version of", errno)),
    }
}

impl Driver for Kernel {
    fn backend(&self) -> Backend {
        Backend::Kernel { device: self.path.clone(), features: None }
    }

    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), Error> {
        let failed = |errno| Error::WriteRead { operation: "BINDER_WRITE_READ", errno };
        let mut returns = returns;
        let room = returns.as_deref_mut().map(Returns::room).transpose().map_err(failed)?;
        let room = room.unwrap_or_default();
        let checked = check::check(commands.pending(), memory);
        let device = self.device.as_fd();
        let exchange = sys::write_read(device, &self.area, &self.fds, &checked.commands, room);
        let (whole, refused) = (checked.whole, checked.refused);
        commands.consume(exchange.taken);
        // If no earlier command failed, the driver stopped at `NO_COMMAND`: report our own errno.
        let came_so_far = exchange.result == Err(Errno::INVAL) && exchange.taken == whole;
        let refused = refused.filter(|_| came_so_far);
        refused.map_or(exchange.result, Err).map_err(failed)?;
        if let Some(returns) = returns {
            returns.filled(exchange.filled);
        }
        Ok(())
    }

    fn area(&self) -> RawBytes<'_> {
        self.area.bytes()
    }

    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        self.fds.duplicate(number)
    }

    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        self.fds.take(number)
    }

    fn become_context_manager(&self, flags: u32) -> Result<(), Error> {
        let mut node = FlatBinderObject { flags, ..Default::default() }.to_bytes();
        let device = self.device.as_fd();
        let result = match sys::set_context_manager_ext(device, &mut node) {
            // Linux before 5.0, which has no flags for the manager's node.
            Err(Errno::INVAL) => sys::set_context_manager(device, &mut [0; 4]),
            other => other,
        };
        result.map_err(|errno| match errno {
            Errno::BUSY => Error::ContextManagerTaken,
            errno => Error::device(&self.path, "become the context manager of", errno),
        })
    }

    fn set_max_threads(&self, threads: u32) -> Result<(), Error> {
        sys::set_max_threads(self.device.as_fd(), &mut threads.to_ne_bytes())
            .map_err(|errno| Error::WriteRead { operation: "BINDER_SET_MAX_THREADS", errno })
    }

    fn exit_thread(&self) {
        let _ = sys::thread_exit(self.device.as_fd(), &mut [0; 4]);
    }

    fn node_counts(&self, handle: u32) -> Result<(u32, u32), Error> {
        let mut argument = [0; 24];
        argument[..4].copy_from_slice(&handle.to_ne_bytes());
        sys::node_info_for_ref(self.device.as_fd(), &mut argument)
            .map_err(|errno| Error::WriteRead { operation: "BINDER_GET_NODE_INFO_FOR_REF", errno })?;
        Ok((u32::take(&argument[4..]), u32::take(&argument[8..])))
    }

    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, Error> {
        let mut argument = NodeDebugInfo { ptr: after, ..Default::default() }.to_bytes();
        sys::node_debug_info(self.device.as_fd(), &mut argument)
            .map_err(|errno| Error::WriteRead { operation: "BINDER_GET_NODE_DEBUG_INFO", errno })?;
        let found = NodeDebugInfo::from_bytes(&argument).filter(|found| found.ptr != 0);
        Ok(found.map(|found| NodeInfo {
            ptr: found.ptr,
            cookie: found.cookie,
            has_strong: found.has_strong != 0,
            has_weak: found.has_weak != 0,
        }))
    }

    fn extended_error(&self) -> Result<ExtendedError, Error> {
        let mut argument = [0; ExtendedError::SIZE];
        sys::extended_error(self.device.as_fd(), &mut argument)
            .map_err(|errno| Error::WriteRead { operation: "BINDER_GET_EXTENDED_ERROR", errno })?;
        Ok(ExtendedError::from_bytes(&argument).unwrap_or_default())
    }

    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), Error> {
        sys::oneway_spam_detection(self.device.as_fd(), &mut u32::from(on).to_ne_bytes())
            .map_err(|errno| Error::WriteRead { operation: "BINDER_ENABLE_ONEWAY_SPAM_DETECTION", errno })
    }

    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), Error> {
        let mut argument = FreezeInfo { pid, enable: frozen.into(), timeout_ms }.to_bytes();
        sys::freeze(self.device.as_fd(), &mut argument)
            .map_err(|errno| Error::WriteRead { operation: "BINDER_FREEZE", errno })
    }

    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, Error> {
        let mut argument = FrozenStatusInfo { pid, ..Default::default() }.to_bytes();
        sys::frozen_info(self.device.as_fd(), &mut argument)
            .map_err(|errno| Error::WriteRead { operation: "BINDER_GET_FROZEN_INFO", errno })?;
        Ok(FrozenStatusInfo::from_bytes(&argument).unwrap_or_default())
    }

    fn poll(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let failed = |errno| Error::WriteRead { operation: "poll", errno };
        // A timeout too long for the kernel's type counts as no limit.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut device = [PollFd::new(&self.device, PollFlags::IN)];
        rustix::event::poll(&mut device, timeout.as_ref()).map_err(failed)?;
        let [device] = device;
        let found = device.revents();
        if found.contains(PollFlags::ERR) { Err(failed(Errno::NOMEM)) } else { Ok(!found.is_empty()) }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }

    fn interrupt(&self) {
        // Closing a duplicate of the descriptor makes the driver wake the process's threads (its
        // flush operation). If no descriptor is free, this wakes no thread, and the error is not
        // reported.
        drop(rustix::io::fcntl_dupfd_cloexec(&self.device, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses a simulated answer, because no available kernel has another version.
    #[test]
    fn another_version_of_the_protocol_is_refused_with_a_remedy() {
        assert!(check_version("/dev/binder", Ok(8)).is_ok());
        let error = check_version("/dev/binder", Ok(7)).expect_err("another version");
        assert_eq!(
            error.to_string(),
            "/dev/binder speaks version 7 of the binder protocol; version 8 is needed, which 64-bit kernels without \
             CONFIG_ANDROID_BINDER_IPC_32BIT speak"
        );
        assert_eq!(error.errno(), Some(Errno::PROTO));
    }

    #[test]
    fn each_refusal_of_a_mapping_has_its_own_remedy() {
        let said = |errno| Error::device("/dev/binder", MAP, errno).to_string();
        assert!(said(Errno::BUSY).ends_with("; this open device already has an area: open it again"));
        assert!(said(Errno::NOMEM).ends_with("; allow more address space (ulimit -v), or free memory"));
        assert!(
            said(Errno::INVAL)
                .ends_with("; only the process that opened the device may map it, and only for reading")
        );
        assert!(said(Errno::BUSY).starts_with("cannot map the receive area of /dev/binder: "));
    }

    /// A fake device whose ioctls all fail with ENOTTY. Any other errno comes from a check before
    /// the ioctl.
    fn no_device() -> Kernel {
        let path = "/dev/zero";
        let device = OwnedFd::from(std::fs::File::open(path).expect("a file"));
        let area = sys::Area::map(device.as_fd(), 1).expect("a page");
        Kernel { area, device, fds: ReceivedFds::default(), path: path.into() }
    }

    #[test]
    fn room_for_less_than_one_return_does_not_reach_the_driver() {
        let kernel = no_device();
        for (bytes, expected) in [
            (0, Errno::NOTTY),
            (1, Errno::INVAL),
            (2, Errno::INVAL),
            (3, Errno::INVAL),
            (4, Errno::NOTTY),
            (5, Errno::NOTTY),
            (1 << 20, Errno::NOTTY),
        ] {
            let (mut commands, mut returns) = (Commands::default(), Returns::with_room(bytes));
            commands.push(Command::EnterLooper);
            // The result is the same with invalid commands.
            for wrong in [&[][..], &[1], &[1; 4]] {
                commands.raw(wrong);
                let before = commands.pending().len();
                let refused = kernel.write_read(&mut commands, &[], Some(&mut returns));
                assert_eq!(refused.expect_err("no driver").errno(), Some(expected), "{bytes} bytes");
                assert_eq!((commands.pending().len(), returns.pending()), (before, &[][..]));
            }
        }
    }

    #[test]
    fn the_descriptors_of_a_buffer_that_was_not_freed_stay_known() {
        let kernel = no_device();
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let number = std::os::fd::AsRawFd::as_raw_fd(&writer).unsigned_abs();
        kernel.fds.add_array(0x1000, vec![writer.into()]);
        let mut commands = Commands::default();
        commands.push(Command::EnterLooper);
        commands.push(Command::FreeBuffer(0x1000));
        let refused = kernel.write_read(&mut commands, &[], None).expect_err("no driver");
        assert_eq!((refused.errno(), commands.pending().len()), (Some(Errno::NOTTY), 16));
        assert!(kernel.duplicate_fd(number).is_ok(), "the driver has not closed it");
        drop(kernel.fds.take_array(0x1000));
    }

    #[test]
    fn an_area_has_whole_pages_and_reads_outside_are_refused() {
        let kernel = no_device();
        let page = rustix::param::page_size() as u64;
        let start = kernel.area().address();
        assert_eq!(kernel.received(start, page), Some(vec![0; page as usize]));
        for (address, length) in [
            (start, page + 1),
            (start + page, 1),
            (start - 1, 1),
            (start, u64::MAX),
            (start + 1, u64::MAX),
            (u64::MAX, 1),
            (0, 1),
        ] {
            assert_eq!(kernel.received(address, length), None, "{length} bytes at {address:#x}");
        }
    }

    #[test]
    fn an_area_of_an_impossible_size_is_refused_before_anything_is_opened() {
        for bytes in [0, MOST_AREA_BYTES + 1, u64::MAX] {
            let error = Kernel::open("/dev/no-such-device", bytes).expect_err("impossible").to_string();
            assert!(
                error.contains(&bytes.to_string()) && error.contains("choose 1 to 4194304 bytes"),
                "{error}"
            );
        }
    }
}
