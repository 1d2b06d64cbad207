//! A binderfs instance that nobody else sees: a binder device of one's own, beside whatever the
//! machine runs.
//!
//! The mount is never attached to a path, so nothing stays behind, and it goes with the last
//! descriptor on it.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::Error;
use crate::error::MOUNT;

/// A private binderfs. Processes that may look into this one's `/proc` entry can open its devices
/// while it lives.
#[derive(Debug)]
pub struct PrivateBinderfs {
    mount: OwnedFd,
}

impl PrivateBinderfs {
    /// What reports call it: the path of a device on it is another one in every process.
    pub const NAME: &str = "a private binderfs";

    /// Mounts one.
    ///
    /// # Errors
    /// [`Error::Device`]: ENODEV where the kernel has no binderfs, EPERM without `CAP_SYS_ADMIN`.
    pub fn mount() -> Result<Self, Error> {
        let mounted = || {
            let context = rustix::mount::fsopen("binder", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_create(&context)?;
            rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let mount = mounted().map_err(|errno| Error::device(Self::NAME, MOUNT, errno))?;
        Ok(Self { mount })
    }

    /// The path of one of its devices: the kernel makes those that it was configured with, "binder"
    /// nearly always.
    #[must_use]
    pub fn device(&self, name: &str) -> String {
        format!("/proc/{}/fd/{}/{name}", std::process::id(), self.mount.as_raw_fd())
    }
}
