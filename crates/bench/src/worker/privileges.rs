//! Drops the capabilities that a worker's job does not need. A process may open another process's
//! descriptors through /proc/PID/fd only if it has all capabilities of that process (ptrace(2),
//! PTRACE_MODE_READ_FSCREDS). So the worker first replaces the paths through its parent's
//! descriptors. Must not know any job.

use std::os::fd::{AsRawFd, IntoRawFd as _};
use std::path::PathBuf;

use roundtrip_stored::Json;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Error, Result};

/// What most jobs need: to set priorities and to lock memory.
pub(crate) const USUAL: CapabilitySet = CapabilitySet::SYS_NICE.union(CapabilitySet::IPC_LOCK);

/// What a job needs to work in any user's folder, and to use the space that a file system reserves
/// for root.
pub(crate) const IN_USERS_FOLDERS: CapabilitySet = USUAL
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYS_RESOURCE);

/// Drops all other capabilities of this process, which must have one thread. It cannot regain them,
/// nor can programs that it executes.
pub(super) fn keep_only(kept: CapabilitySet) -> Result<()> {
    let failed = |cause: rustix::io::Errno| Error::system("drop capabilities", cause);
    let own = rustix::thread::capabilities(None).map_err(failed)?;
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for capability in kept.complement().iter() {
            // Unknown to an older kernel.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    let left = CapabilitySets {
        effective: own.effective & kept,
        permitted: own.permitted & kept,
        inheritable: own.inheritable & kept,
    };
    if left == own { Ok(()) } else { rustix::thread::set_capabilities(None, left).map_err(failed) }
}

/// The path through which workers can open this process's file.
pub(crate) fn lent(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// Replaces each path through a descriptor of the parent process by one through a descriptor of
/// this process, which stays open until the process ends.
pub(super) fn taken_over(job: &Json) -> Json {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    job.edited(|text| with_own_descriptors(text, &format!("/proc/{parent}/fd/")))
}

fn with_own_descriptors(text: &str, lent: &str) -> String {
    let mut edited = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(lent) {
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, left) = after.split_at(length);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        edited.push_str(before);
        match rustix::fs::open(format!("{lent}{number}"), flags, Mode::empty()) {
            Ok(own) => edited.push_str(&format!("/proc/self/fd/{}", own.into_raw_fd())),
            // The job reports the error when it opens the path.
            Err(_) => edited.push_str(&format!("{lent}{number}")),
        }
        rest = left;
    }
    edited.push_str(rest);
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_through_the_parents_descriptors_lead_through_own_ones() {
        let (_read, write) = std::io::pipe().unwrap();
        let lent = format!("/proc/{}/fd/", std::process::id());
        let text = format!(
            "{{\"a\":\"{lent}{}/b\",\"c\":\"{lent}999999\",\"d\":\"/dev/binder\"}}",
            write.as_raw_fd()
        );
        let edited = with_own_descriptors(&text, &lent);
        let own = edited.strip_prefix("{\"a\":\"").and_then(|rest| rest.split_once("/b\"")).unwrap();
        assert!(own.0.starts_with("/proc/self/fd/"), "{edited}");
        assert_eq!(
            std::fs::read_link(own.0).unwrap(),
            std::fs::read_link(format!("{lent}{}", write.as_raw_fd())).unwrap()
        );
        assert_eq!(own.1, format!(",\"c\":\"{lent}999999\",\"d\":\"/dev/binder\"}}"));
        assert_eq!(with_own_descriptors("[]", &lent), "[]");
    }
}
