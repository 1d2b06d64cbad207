//! A control group with a write limit for a device in bytes per second. It exists during a run, and
//! the writer enters it for a block. Supports cgroup v1 and v2. Must not know what the limit is
//! for.

use std::path::PathBuf;
use std::rc::Rc;

use roundtrip_files::Owned;

use super::setting::{Claim, Setting};
use crate::error::{Error, Result};
use crate::kernel::cgroup::{self, IoGroups};
use crate::kernel::root::Root;

const PREFIX: &str = "roundtrip-io-";

/// The group. Dropping it removes it. If its process is killed, its guard or a later run does.
#[derive(Debug)]
pub(super) struct Limit {
    directory: Owned,
    home: PathBuf,
    /// The setting that enabled the controller, if this run had to enable it.
    _switched_on: Option<Setting>,
    _claim: Option<Rc<Claim>>,
}

impl Limit {
    /// Creates a group with a limit for a whole device, given as `dev_t`.
    ///
    /// # Errors
    /// The reason why that is not possible here.
    pub(super) fn make(root: &Root, dev: u32, bytes_per_s: u64) -> std::result::Result<Self, String> {
        let Some(IoGroups { unified, mount, home }) = cgroup::io_groups(root) else {
            return Err("no control group of this process has an I/O controller".into());
        };
        let above = root.path(&mount);
        let controllers = mount.join("cgroup.subtree_control");
        // Claimed even if it was already enabled: another run that enabled it would otherwise
        // disable it under this one.
        let claim = unified.then(|| Claim::take(root, &controllers).map(Rc::new)).transpose()?;
        let on = root.read(&controllers).unwrap_or_default().split(' ').any(|name| name == "io");
        let text = |error: Error| error.to_string();
        let off = claim.as_ref().filter(|_| !on);
        let switched_on =
            off.map(|claim| Setting::change(claim, "+io", "-io".into()).map_err(text)).transpose()?;
        let made = Owned::make(&above, PREFIX);
        let directory = made.map_err(|cause| text(Error::file("make a control group in", &above, cause)))?;
        let limit = Self { directory, home: root.path(home), _switched_on: switched_on, _claim: claim };
        let device = format!("{}:{}", dev >> 20, dev & 0xf_ffff);
        let (file, line) = match unified {
            true => ("io.max", format!("{device} wbps={bytes_per_s}")),
            false => ("blkio.throttle.write_bps_device", format!("{device} {bytes_per_s}")),
        };
        let path = limit.directory.path().join(file);
        std::fs::write(&path, line).map_err(|cause| text(Error::file("write to", &path, cause)))?;
        Ok(limit)
    }

    /// Moves a process into the group for as long as the result lives.
    ///
    /// # Errors
    /// [`Error::File`] if the kernel refuses.
    pub(super) fn hold(&self, pid: u32) -> Result<Held> {
        let held = Held { home: self.home.join("cgroup.procs"), pid };
        let path = self.directory.path().join("cgroup.procs");
        std::fs::write(&path, pid.to_string()).map_err(|cause| Error::file("write to", &path, cause))?;
        Ok(held)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // A killed writer leaves its group a moment later.
        for _ in 0..100 {
            if std::fs::remove_dir(self.directory.path()).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// The groups of killed runs.
fn abandoned(root: &Root) -> Vec<Owned> {
    let above = cgroup::io_groups(root).map(|groups| root.path(groups.mount));
    above.map(|above| Owned::abandoned(&above, PREFIX)).unwrap_or_default()
}

/// The groups that killed runs left.
pub(crate) fn groups(root: &Root) -> Vec<PathBuf> {
    abandoned(root).iter().map(|group| group.path().to_owned()).collect()
}

/// Removes the groups that killed runs left, and returns them. A group that is still in use stays.
pub(crate) fn remove_groups(root: &Root) -> Vec<PathBuf> {
    let removed = abandoned(root).into_iter().filter(|group| std::fs::remove_dir(group.path()).is_ok());
    removed.map(|group| group.path().to_owned()).collect()
}

/// A process in the group.
#[derive(Debug)]
pub(super) struct Held {
    home: PathBuf,
    pid: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Fails if the process has ended. Then it is in no group.
        let _ = std::fs::write(&self.home, self.pid.to_string());
    }
}
