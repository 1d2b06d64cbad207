//! What a worker keeps of the capabilities that it inherits: those that its job needs. A process
//! may look through the descriptors of another one only if it has all of its capabilities
//! (ptrace(2), PTRACE_MODE_READ_FSCREDS). So paths through the parent's descriptors are taken over
//! before. Must not know any job.

use std::os::fd::{AsRawFd, IntoRawFd as _};
use std::path::PathBuf;

use roundtrip_stored::Json;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::error::{Error, Result};

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

/// A path by which workers reach an open file of this process.
pub(crate) fn lent(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A job in which paths through descriptors of the parent process lead through ones of this
/// process, which stay open until it ends.
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
            // The job will say so.
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
