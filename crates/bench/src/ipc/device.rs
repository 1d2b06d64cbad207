//! Finds a free binder device of the kernel's driver and claims it. Must not know what is measured
//! over it.
//!
//! A device has one context manager. Roundtrip leaves a device alone that already has one, as on a
//! running Android. It prefers a private binderfs, whose devices no other process sees. Runs share
//! free devices through a lock on the device file.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::Backend;
use roundtrip_binder_driver::kernel::{Features, Kernel, PrivateBinderfs};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::{Error, NotHere, Result};

/// Device paths, in the order in which they are tried.
const PATHS: [&str; 6] = [
    "/dev/binder",
    "/dev/hwbinder",
    "/dev/vndbinder",
    "/dev/binderfs/binder",
    "/dev/binderfs/hwbinder",
    "/dev/binderfs/vndbinder",
];

/// The existing devices, each under the first of its names.
pub(super) fn usual_paths() -> Vec<String> {
    let mut known = Vec::new();
    PATHS
        .into_iter()
        .filter(|path| {
            let device = Path::new(path).canonicalize().ok().filter(|device| !known.contains(device));
            known.extend(device.clone());
            device.is_some()
        })
        .map(str::to_owned)
        .collect()
}

/// How long to wait for a context manager to disappear after its process has exited. The driver
/// cleans up asynchronously, and takes longer on a busy machine. The wait for a named device is
/// longer, because no other device can replace it.
const CLEARED_WITHIN: Duration = Duration::from_millis(300);
const NAMED_CLEARED_WITHIN: Duration = Duration::from_secs(3);

/// The number of claims in this process.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// A device that this process has claimed for its workers.
#[derive(Debug)]
pub(super) struct Claim {
    path: String,
    features: Features,
    held: Held,
}

/// What reserves the device. The kernel releases it when this process ends, for whatever reason.
#[derive(Debug)]
enum Held {
    Mounted { _binderfs: PrivateBinderfs },
    Locked { _device: File },
}

impl Claim {
    /// Claims any free device.
    ///
    /// # Errors
    /// [`Error::NotHere`] with the reason why each device is unusable.
    pub(super) fn any() -> Result<Self> {
        let mut refusals = match mounted() {
            Ok(claim) => return Ok(claim),
            Err(error) => vec![error],
        };
        let mut there = PATHS.into_iter().filter(|path| Path::new(path).exists()).peekable();
        if there.peek().is_none() {
            refusals.push(NotHere::DeviceFile.into());
        }
        for path in there {
            match Self::within(path, CLEARED_WITHIN) {
                Ok(claim) => return Ok(claim),
                Err(error) => refusals.push(error),
            }
        }
        Err(NotHere::Device { refusals }.into())
    }

    /// Claims a device by its path.
    ///
    /// # Errors
    /// [`Error::Driver`] if it cannot be used; [`Error::NotHere`] if another run uses it or it has
    /// a context manager.
    pub(super) fn of(path: &str) -> Result<Self> {
        Self::within(path, NAMED_CLEARED_WITHIN)
    }

    fn within(path: &str, cleared_within: Duration) -> Result<Self> {
        let driver = Kernel::open(path, 4096).map_err(NotHere::Opened)?;
        let device = File::open(path).map_err(|source| Error::file("open", path, source))?;
        match rustix::fs::flock(&device, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(NotHere::InUse { path: path.to_owned() }.into());
            }
            Err(errno) => return Err(Error::file("lock", path, std::io::Error::from(errno))),
        }
        let since = Instant::now();
        while driver.has_context_manager()? {
            if since.elapsed() > cleared_within {
                return Err(NotHere::Managed { path: path.to_owned() }.into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self::new(path.into(), driver.features(), Held::Locked { _device: device }))
    }

    fn new(path: String, features: Features, held: Held) -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Self { path, features, held }
    }

    /// Claims a device for a run that prefers the kernel's driver. A run uses up to two contexts,
    /// one for each stack, and both must use the same driver. So a first device is not taken if
    /// there is no second one.
    ///
    /// # Errors
    /// As [`Claim::any`].
    pub(super) fn one_of_two() -> Result<Self> {
        let first = Self::any()?;
        if HELD.load(Ordering::Relaxed) == 1 {
            Self::any().map_err(|error| NotHere::SecondDevice { cause: Box::new(error) })?;
        }
        Ok(first)
    }

    /// Whether the kernel has a binder device, free or not.
    pub(super) fn is_there() -> bool {
        PATHS.into_iter().any(|path| Path::new(path).exists())
    }

    /// Whether this process has claimed a device.
    pub(super) fn is_held() -> bool {
        HELD.load(Ordering::Relaxed) > 0
    }

    /// The path that workers open.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The backend as results name it.
    pub(super) fn backend(&self) -> Backend {
        let device = match self.held {
            Held::Mounted { .. } => PrivateBinderfs::NAME.to_owned(),
            Held::Locked { .. } => self.path.clone(),
        };
        Backend::Kernel { device, features: Some(self.features.clone()) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

fn mounted() -> Result<Claim> {
    let binderfs = PrivateBinderfs::mount()?;
    let path = binderfs.device("binder");
    let features = Kernel::open(&path, 4096)?.features();
    Ok(Claim::new(path, features, Held::Mounted { _binderfs: binderfs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_binder_device_is_refused_in_one_line() {
        for path in ["/dev/null", "/dev/no-such-device"] {
            let error = Claim::of(path).expect_err("not a binder device").to_string();
            assert!(error.contains(path) && !error.contains('\n'), "{error}");
        }
        assert!(!Claim::is_held());
    }
}
