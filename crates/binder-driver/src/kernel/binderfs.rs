//! A private binderfs instance: binder devices that do not interfere with the machine's own.
//!
//! The mount is not attached to a path. The kernel removes it with the last descriptor on it.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::Error;
use crate::error::MOUNT;

/// A private binderfs. While it exists, processes that may access this process's `/proc` entry can
/// open its devices.
#[derive(Debug)]
pub struct PrivateBinderfs {
    mount: OwnedFd,
}

impl PrivateBinderfs {
    /// The name in reports. Reports do not show a path, because a device's path depends on the
    /// process.
    pub const NAME: &str = "a private binderfs";

    /// Mounts a private binderfs.
    ///
    /// # Errors
    /// [`Error::Device`]: ENODEV if the kernel has no binderfs, EPERM without `CAP_SYS_ADMIN`.
    pub fn mount() -> Result<Self, Error> {
        let mounted = || {
            let context = rustix::mount::fsopen("binder", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_create(&context)?;
            rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let mount = mounted().map_err(|errno| Error::device(Self::NAME, MOUNT, errno))?;
        Ok(Self { mount })
    }

    /// The path of one of its devices. The kernel's configuration decides which devices exist;
    /// nearly every kernel makes "binder".
    #[must_use]
    pub fn device(&self, name: &str) -> String {
        format!("/proc/{}/fd/{}/{name}", std::process::id(), self.mount.as_raw_fd())
    }
}
