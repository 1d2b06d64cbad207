//! Processes that the kernel has killed for lack of memory. Must not know whose they were.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::Signal;

/// The kernel's count of such kills at some time, on the whole machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kills(Option<u64>);

impl Kills {
    /// The current count. Kernels before Linux 4.13 do not report it.
    pub(crate) fn now() -> Self {
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let count = vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Self(count.and_then(|count| count.trim().parse().ok()))
    }

    /// What to say of a process that was started at this time, as the end of a sentence; empty if
    /// SIGKILL did not end it, or the kernel has killed nothing for lack of memory since.
    pub(crate) fn behind(self, status: ExitStatus) -> &'static str {
        if status.signal() == Some(Signal::KILL.as_raw()) { self.since() } else { "" }
    }

    fn since(self) -> &'static str {
        match (self.0, Self::now().0) {
            (Some(before), Some(now)) if now > before => {
                "; memory ran out meanwhile, and the kernel killed for it: allow more (memory.max of the \
                 control group), or end other programs"
            }
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_blamed_on_memory_only_if_the_kernel_has_counted_one_since() {
        let now = Kills::now();
        assert_eq!((Kills(None).since(), Kills(Some(u64::MAX)).since()), ("", ""));
        let before = now.0.map(|count| Kills(count.checked_sub(1)));
        // No count is smaller than 0.
        if let Some(before @ Kills(Some(_))) = before {
            assert!(before.since().starts_with("; memory ran out"), "{}", before.since());
        }
    }
}
