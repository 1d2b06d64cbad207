//! [`Error`]: a driver's errors, with their remedies.

use rustix::io::Errno;

/// A driver's error. The variant names the operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An ioctl or poll(2) failed.
    #[error("{operation}: {errno}")]
    WriteRead {
        /// The ioctl.
        operation: &'static str,
        /// The driver's error.
        errno: Errno,
    },
    /// The context of the emulated driver has ended for all participants.
    #[error("{operation}: this emulated binder context has ended: {reason}")]
    Ended {
        /// The ioctl.
        operation: &'static str,
        /// The reason, as the end of a sentence.
        reason: &'static str,
    },
    /// The context already has a manager.
    #[error("this context already has a context manager; stop it, or use another context")]
    ContextManagerTaken,
    /// A binder device could not be used.
    #[error("cannot {operation} {device}: {errno}{}", remedy(operation, *errno))]
    Device {
        /// The device, or a description of it.
        device: String,
        /// The step.
        operation: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// The driver uses another version of the protocol.
    #[error(
        "{device} speaks version {found} of the binder protocol; version 8 is needed, \
         which 64-bit kernels without CONFIG_ANDROID_BINDER_IPC_32BIT speak"
    )]
    Version {
        /// The device.
        device: String,
        /// The driver's version.
        found: i32,
    },
    /// The requested size of the mapped area is not possible.
    #[error("a receive area of {bytes} bytes is not possible: choose 1 to {most} bytes")]
    AreaSize {
        /// The requested size, in bytes.
        bytes: u64,
        /// The largest possible size, in bytes.
        most: u64,
    },
}

impl Error {
    pub(crate) fn device(device: &str, operation: &'static str, errno: Errno) -> Self {
        Self::Device { device: device.into(), operation, errno }
    }

    /// The error of an ioctl that a driver does not have.
    pub(crate) fn unsupported(operation: &'static str) -> Self {
        Self::WriteRead { operation, errno: Errno::NOTTY }
    }

    /// The errno that corresponds to this error.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::WriteRead { errno, .. } => Some(*errno),
            Self::Ended { .. } => Some(Errno::NODEV),
            Self::Device { errno, .. } => Some(*errno),
            Self::Version { .. } => Some(Errno::PROTO),
            Self::ContextManagerTaken => Some(Errno::BUSY),
            Self::AreaSize { .. } => Some(Errno::INVAL),
        }
    }
}

/// Suggests which limit to raise after `operation` failed with `error`, as the end of a sentence.
/// Empty if no known limit was reached. EAGAIN indicates a limit only if the operation's text
/// begins with "start ", that is, for fork(2) and pthread_create(3).
#[must_use]
pub fn raise_limit(operation: &str, error: &std::io::Error) -> &'static str {
    let starts = operation.starts_with("start ");
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => "; allow more open files (ulimit -n)",
        Some(Errno::NFILE) => "; allow more open files in the whole system (sysctl fs.file-max)",
        Some(Errno::AGAIN) if starts => {
            "; allow more processes and threads (ulimit -u, or pids.max of the cgroup)"
        }
        Some(Errno::NOMEM) => "; free memory, or allow more address space (ulimit -v)",
        _ => "",
    }
}

/// The remedy for an errno from a step with a device, as the end of a sentence. Empty if no remedy
/// is known.
fn remedy(operation: &str, errno: Errno) -> &'static str {
    match (operation, errno) {
        (MOUNT, Errno::NODEV) => "; this kernel has no binderfs (CONFIG_ANDROID_BINDERFS)",
        (MOUNT, Errno::PERM | Errno::ACCESS) => "; only root may do this, and SELinux may refuse it",
        // This process has just opened the device that it maps.
        (MAP, Errno::BUSY) => "; this open device already has an area: open it again",
        (MAP, Errno::NOMEM | Errno::AGAIN) => "; allow more address space (ulimit -v), or free memory",
        (MAP, Errno::PERM | Errno::ACCESS | Errno::INVAL) => {
            "; only the process that opened the device may map it, and only for reading"
        }
        (_, Errno::NOENT) => {
            "; load the driver (modprobe binder_linux devices=binder) or name a device that exists"
        }
        (_, Errno::NODEV | Errno::NXIO) => "; this kernel has no such driver",
        (_, Errno::ACCESS | Errno::PERM) => {
            "; run as root, or allow it (SELinux and the user of the first context manager decide)"
        }
        (_, Errno::NOTTY | Errno::INVAL) => "; is it a binder device?",
        (_, Errno::BUSY) => "; another process holds it",
        (_, Errno::NOMEM) => "; out of memory: free some",
        (_, Errno::MFILE | Errno::NFILE) => "; allow more open files (ulimit -n)",
        _ => "",
    }
}

/// The steps whose errnos have a special meaning.
pub(crate) const MOUNT: &str = "mount";
pub(crate) const MAP: &str = "map the receive area of";
