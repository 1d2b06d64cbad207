//! A thread's scheduling policy and priority as the kernel's scheduler orders them: what the drivers lend.

use rustix::io::Errno;

use binder_driver::sched_attr::{self, SchedAttr};

/// A scheduling policy and priority, as the kernel's scheduler orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    /// `SCHED_*`.
    pub(crate) policy: u32,
    /// The kernel's number: 0–98 real-time (99 − priority), 100–139 fair (120 + nice). Lower runs first.
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
/// EPERM without `CAP_SYS_NICE` or a sufficient `RLIMIT_RTPRIO`/`RLIMIT_NICE`; ESRCH when there is no such thread.
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
