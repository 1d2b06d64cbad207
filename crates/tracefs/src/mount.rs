//! Finds tracefs, or mounts it privately. Must not know what is read there.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use roundtrip_files::Owned;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    mount, unmount,
};

use crate::error::{Error, Result};
use crate::format::Format;
use crate::lockdown::locked_down;
use crate::namespace::{foreign_clock, foreign_ids};

/// Where distributions and Android mount it (Documentation/trace/ftrace.rst). The second path is
/// through debugfs.
pub const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The prefix of the temporary directories that serve as mount points.
const MOMENT: &str = "roundtrip-tracefs-";

/// A tracefs that this process may use.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Keeps the private mount alive. The mount ends with this value.
    private: Option<OwnedFd>,
}

impl Tracefs {
    /// Opens a private mount if possible. Such a mount is in no directory: it leaves nothing
    /// behind, does not change the machine's mounts, and no process can unmount it. Otherwise opens
    /// the existing mount.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if tracefs is not mounted and cannot be mounted. Also if this
    /// process is in another pid or time namespace, where thread ids or times differ from those in
    /// the events.
    pub fn open() -> Result<Self> {
        if let Some(reason) = foreign_ids().or_else(foreign_clock).or_else(locked_down) {
            return Err(not_available(reason));
        }
        let descriptor = match detached() {
            Ok(descriptor) => descriptor,
            Err(errno) => {
                return Self::mounted()?.ok_or_else(|| {
                    not_available(match errno {
                        Errno::PERM | Errno::ACCESS => {
                            "tracefs is not mounted, and mounting it needs root (CAP_SYS_ADMIN)".to_owned()
                        }
                        Errno::NODEV => "this kernel has no tracefs: it needs CONFIG_TRACING".to_owned(),
                        errno => format!("tracefs is not mounted and cannot be: {errno}"),
                    })
                });
            }
        };
        // The path contains the pid, so that other processes of the same user can open files below
        // it.
        let root = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd()));
        Ok(Self { root, private: Some(descriptor) })
    }

    /// The mounted tracefs, if there is one.
    ///
    /// # Errors
    /// [`Error::NotAvailable`] if it is mounted but this process may not read it, or if kernel
    /// lockdown forbids it.
    pub fn mounted() -> Result<Option<Self>> {
        if let Some(reason) = locked_down() {
            return Err(not_available(reason));
        }
        for place in PLACES {
            match std::fs::metadata(Path::new(place).join("tracing_on")) {
                Ok(_) => return Ok(Some(Self::at(place))),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(not_available(format!(
                        "{place} is not accessible to this user: run as root, or remount it with a gid and \
                         mode that allow this user"
                    )));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The tracefs at this path, which is not checked.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), private: None }
    }

    /// Its root directory. Other processes can open paths below a private mount as long as this
    /// value lives.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is mounted for this process only.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private.is_some()
    }

    /// Whether the kernel has an event, `system/event`.
    #[must_use]
    pub fn has_event(&self, event: &str) -> bool {
        self.root.join("events").join(event).join("format").exists()
    }

    /// Whether the kernel has an event, `system/event`, with this field.
    #[must_use]
    pub fn has_field(&self, event: &str, field: &str) -> bool {
        let Some((system, name)) = event.split_once('/') else { return false };
        let text = std::fs::read_to_string(self.root.join("events").join(event).join("format"));
        let format = text.ok().and_then(|text| Format::parse(system, name, &text).ok());
        format.is_some_and(|format| format.field(field).is_some())
    }
}

fn not_available(reason: impl Into<String>) -> Error {
    Error::NotAvailable { reason: reason.into() }
}

/// Makes a detached mount, with the mount calls of Linux 5.2. On older kernels, mounts on a new
/// directory, which is unmounted and removed at once.
fn detached() -> Result<OwnedFd, Errno> {
    let made = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    });
    match made {
        Err(Errno::NOSYS) => mounted_for_a_moment(),
        other => other,
    }
}

fn mounted_for_a_moment() -> Result<OwnedFd, Errno> {
    let above = std::env::temp_dir();
    for left in Owned::abandoned(&above, MOMENT) {
        let _ = rustix::fs::rmdir(left.path());
    }
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let owned = Owned::make(&above, MOMENT).map_err(errno)?;
    let place = owned.path();
    let opened =
        mount("nodev", place, "tracefs", MountFlags::NOSUID | MountFlags::NODEV, None).and_then(|()| {
            let opened = rustix::fs::open(place, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            // The open directory keeps the mount alive.
            unmount(place, UnmountFlags::DETACH)?;
            opened
        });
    let removed = rustix::fs::rmdir(place);
    opened.and_then(|opened| removed.map(|()| opened))
}

/// Reads a control file as text.
pub(crate) fn read(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// Reads a control file. Some files return only what fits into the first read
/// (`events/header_page`), so the first read must be large.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let failed = |cause| Error::file("read", path, cause);
    let mut file = File::open(path).map_err(failed)?;
    let (mut all, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(length) => all.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
}

/// Writes a setting in one call, without truncating the file first, which would clear some files.
pub(crate) fn write(path: &Path, value: &str) -> Result<()> {
    let written =
        File::options().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|cause| Error::file("write", path, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_mount_shows_the_kernels_trace_and_leaves_nothing_behind() {
        let places = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let before = places();
        for make in [detached, mounted_for_a_moment] {
            let descriptor = match make() {
                Ok(descriptor) => descriptor,
                Err(Errno::PERM | Errno::ACCESS) => {
                    let _ = writeln!(std::io::stderr(), "not tested: mounting tracefs needs root");
                    return;
                }
                Err(errno) => panic!("{errno}"),
            };
            let root = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd()));
            assert!(Tracefs::at(&root).has_event("sched/sched_switch"));
            // Like a worker: another process, with the same path.
            let seen = std::process::Command::new("cat").arg(root.join("tracing_on")).output().unwrap();
            assert!(seen.status.success() && seen.stdout.len() == 2, "{seen:?}");
            assert_eq!(places(), before);
        }
    }
}
