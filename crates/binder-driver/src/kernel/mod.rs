//! The kernel's binder driver: any device that speaks its protocol, the one written in Rust included.
//!
//! `sys` holds the ioctls and the mapping, `binderfs` a device of one's own. What is said over them, the kernel checks.

mod binderfs;
mod sys;

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

pub use binderfs::PrivateBinderfs;

use crate::uapi::{
    ExtendedError, Field as _, FlatBinderObject, FreezeInfo, FrozenStatusInfo, NodeDebugInfo,
    PROTOCOL_VERSION, TF_ONE_WAY, TransactionData,
};
use crate::{Backend, Command, Commands, Driver, Error, NodeInfo, Return, Returns};

/// A process's opened binder device.
///
/// To the driver each opened device is a process of its own, named after the real process that opened it. It refuses
/// calls to the context manager between two that the same real process opened.
#[derive(Debug)]
pub struct Kernel {
    // Dropped in this order: the area is unmapped before the device is closed.
    area: sys::Area,
    device: OwnedFd,
    path: String,
}

/// What a driver can do beyond the protocol's first version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `BINDER_GET_EXTENDED_ERROR`: says why a transaction was refused (since Linux 5.19).
    pub extended_error: bool,
    /// `BINDER_ENABLE_ONEWAY_SPAM_DETECTION` (since Linux 5.13).
    pub oneway_spam_detection: bool,
    /// `BINDER_FREEZE` and `BINDER_GET_FROZEN_INFO` (since Linux 5.12).
    pub freeze: bool,
}

impl Kernel {
    /// Opens the device at `path` with a receive area of `area_bytes` (whole pages are mapped, and the driver uses no
    /// more than 4 MiB; Android's libraries ask for 1 MiB less two pages).
    ///
    /// # Errors
    /// [`Error::Device`] when the file is missing, may not be opened, is no binder device, or cannot be mapped;
    /// [`Error::Version`] for a driver that speaks another version; [`Error::AreaSize`] for an impossible size.
    pub fn open(path: &str, area_bytes: u64) -> Result<Self, Error> {
        if area_bytes == 0 || area_bytes > MOST_AREA_BYTES {
            return Err(Error::AreaSize { bytes: area_bytes, most: MOST_AREA_BYTES });
        }
        let device = open_checked(path)?;
        let area = sys::Area::map(device.as_fd(), area_bytes as usize)
            .map_err(|errno| Error::device(path, "map the receive area of", errno))?;
        Ok(Self { area, device, path: path.into() })
    }

    /// From now on [`Driver::write_read`] fails with EAGAIN where there is nothing to return, instead of waiting.
    ///
    /// # Errors
    /// [`Error::Device`] when the system refuses.
    pub fn set_nonblocking(&self) -> Result<(), Error> {
        let set = || {
            let flags = rustix::fs::fcntl_getfl(&self.device)?;
            rustix::fs::fcntl_setfl(&self.device, flags | OFlags::NONBLOCK)
        };
        set().map_err(|errno| Error::device(&self.path, "set the flags of", errno))
    }

    /// What this driver can do. Asks it, which makes the calling thread known to it.
    #[must_use]
    pub fn features(&self) -> Features {
        let device = self.device.as_fd();
        // Asks for the state of a process that exists for certain: an unknown number is EINVAL too.
        let mut own = [0; 12];
        own[..4].copy_from_slice(&std::process::id().to_ne_bytes());
        Features {
            extended_error: sys::extended_error(device, &mut [0; 12]).is_ok(),
            oneway_spam_detection: sys::oneway_spam_detection(device, &mut [0; 4]).is_ok(),
            freeze: sys::frozen_info(device, &mut own).is_ok(),
        }
    }

    /// Whether a process is the device's context manager. Asks with a oneway ping, which every context manager ignores
    /// or is built to answer.
    ///
    /// # Errors
    /// [`Error::WriteRead`] when the driver refuses.
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
                    // Refused by a manager's own process, or by a full manager: there is one.
                    Return::TransactionComplete | Return::FailedReply => return Ok(true),
                    Return::DeadReply => return Ok(false),
                    _ => {}
                }
            }
        }
    }
}

/// As `SZ_4M` in the driver's `binder_alloc_mmap_handler`: it maps no more.
const MOST_AREA_BYTES: u64 = 4 << 20;

/// Opens a device and asks for the version, which nothing but a binder device answers.
fn open_checked(path: &str) -> Result<OwnedFd, Error> {
    let device = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::device(path, "open", errno))?;
    let mut version = [0; 4];
    match sys::version(device.as_fd(), &mut version) {
        Ok(()) if i32::from_ne_bytes(version) == PROTOCOL_VERSION => Ok(device),
        Ok(()) => Err(Error::Version { device: path.into(), found: i32::from_ne_bytes(version) }),
        // A 32-bit driver (version 7) has other numbers for ioctls that carry addresses, but not for this one.
        Err(errno) => Err(Error::device(path, "ask for the binder version of", errno)),
    }
}

impl Driver for Kernel {
    fn backend(&self) -> Backend {
        Backend::Kernel { device: self.path.clone() }
    }

    fn write_read(
        &self,
        commands: &mut Commands,
        _memory: &[&[u8]],
        returns: Option<&mut Returns>,
    ) -> Result<(), Error> {
        let mut returns = returns;
        let room = returns.as_deref_mut().map_or(&mut [][..], Returns::room);
        let exchange = sys::write_read(self.device.as_fd(), commands.pending(), room);
        commands.consume(exchange.taken);
        exchange.result.map_err(|errno| Error::WriteRead { operation: "BINDER_WRITE_READ", errno })?;
        if let Some(returns) = returns {
            returns.filled(exchange.filled);
        }
        Ok(())
    }

    fn received(&self, address: u64, length: u64) -> Option<&[u8]> {
        self.area.slice(address, length)
    }

    fn become_context_manager(&self, flags: u32) -> Result<(), Error> {
        let mut node = FlatBinderObject { flags, ..Default::default() }.to_bytes();
        let device = self.device.as_fd();
        let result = match sys::set_context_manager_ext(device, &mut node) {
            // Before Linux 5.0, where a manager's node has no flags.
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

    fn interrupt(&self) {
        // Closing any copy of the descriptor makes the driver wake the process's threads (its flush operation).
        // Without a free descriptor nobody is woken, and there is nobody to tell.
        drop(rustix::io::fcntl_dupfd_cloexec(&self.device, 0));
    }
}
