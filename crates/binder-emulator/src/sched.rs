//! A thread's scheduling policy and priority as the kernel's scheduler orders them: what
//! servers inherit.

use rustix::io::Errno;

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};

/// A scheduling policy and priority, as the kernel's scheduler orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    /// `SCHED_*`.
    pub(crate) policy: u32,
    /// The kernel's number: 0–98 real-time (99 − priority), 100–139 fair (120 + nice). Lower runs
    /// first.
    pub(crate) level: i32,
}

/// `SCHED_OTHER`.
pub(crate) const OTHER: u32 = libc::SCHED_OTHER as u32;
/// `SCHED_FIFO`.
pub(crate) const FIFO: u32 = libc::SCHED_FIFO as u32;
/// `SCHED_RR`.
pub(crate) const RR: u32 = libc::SCHED_RR as u32;
/// `SCHED_BATCH`.
pub(crate) const BATCH: u32 = libc::SCHED_BATCH as u32;

impl Priority {
    /// The fair class at a nice value of −20 to 19.
    pub(crate) fn nice(nice: i32) -> Self {
        Self { policy: OTHER, level: nice.clamp(-20, 19).saturating_add(120) }
    }

    /// True for `SCHED_FIFO` and `SCHED_RR`.
    pub(crate) fn is_realtime(self) -> bool {
        self.policy == FIFO || self.policy == RR
    }

    /// One word of shared memory; never 0.
    pub(crate) fn to_word(self) -> u64 {
        (1 << 63) | (u64::from(self.policy & 0xffff) << 16) | (self.level as u64 & 0xffff)
    }

    /// The inverse of [`Priority::to_word`]; `None` for 0 (not known).
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { policy: (word >> 16) as u32 & 0xffff, level: (word & 0xffff) as i32 })
    }
}

/// The policy and priority of thread `tid` (0: the caller).
///
/// # Errors
/// ESRCH when there is no such thread.
pub(crate) fn get(tid: i32) -> Result<Priority, Errno> {
    let attr = sched_attr::get(tid.cast_unsigned()).map_err(errno)?;
    let level = match attr.policy {
        FIFO | RR => 99_i32.saturating_sub_unsigned(attr.priority),
        _ => attr.nice.saturating_add(120),
    };
    Ok(Priority { policy: attr.policy, level })
}

/// Sets the policy and priority of thread `tid` (0: the caller).
///
/// # Errors
/// EPERM without `CAP_SYS_NICE` or a sufficient `RLIMIT_RTPRIO`/`RLIMIT_NICE`; ESRCH when there is
/// no such thread.
pub(crate) fn set(tid: i32, to: Priority) -> Result<(), Errno> {
    let mut attr = SchedAttr { policy: to.policy, ..Default::default() };
    if to.is_realtime() {
        attr.priority = 99_i32.saturating_sub(to.level).cast_unsigned();
    } else {
        attr.nice = to.level.saturating_sub(120);
    }
    sched_attr::set(tid.cast_unsigned(), attr).map_err(errno)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_one_word_and_never_0() {
        for policy in [OTHER, FIFO, RR, BATCH, libc::SCHED_IDLE as u32] {
            for level in [0, 1, 39, 98, 100, 120, 139] {
                let priority = Priority { policy, level };
                assert_ne!(priority.to_word(), 0);
                assert_eq!(Priority::from_word(priority.to_word()), Some(priority));
            }
        }
        assert_eq!(Priority::from_word(0), None);
    }

    #[test]
    fn nice_values_and_policies_match_the_scheduler() {
        let levels = [-100, -20, 0, 19, 100].map(|nice| Priority::nice(nice).level);
        assert_eq!(levels, [100, 100, 120, 139, 139]);
        let realtime = [OTHER, BATCH, FIFO, RR].map(|policy| Priority { policy, level: 0 }.is_realtime());
        assert_eq!(realtime, [false, false, true, true]);
        let own = get(0).expect("this thread's own");
        assert_eq!(own, get(crate::mutex::own_tid().cast_signed()).expect("this thread's own"));
        assert_eq!(get(i32::MAX), Err(Errno::SRCH));
        assert_eq!(set(i32::MAX, own), Err(Errno::SRCH));
    }
}
