//! The calling thread's counters that the kernel returns without a file: getrusage(2). Must contain
//! nothing else.
#![allow(unsafe_code)] // No safe binding of getrusage(2) is among the dependencies.

/// A thread's counters since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// How often it gave up the CPU to wait.
    pub(crate) voluntary_switches: u64,
    /// How often it was preempted.
    pub(crate) involuntary_switches: u64,
    /// Page faults that waited for a device.
    pub(crate) major_faults: u64,
}

/// The calling thread's counters (RUSAGE_THREAD). Makes one system call.
pub(crate) fn thread_usage() -> Option<Usage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of a whole `rusage`, which is all that the call
    // does.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: `rusage` consists of integers, for which zero is valid, and the call has filled it
    // in.
    let usage = unsafe { usage.assume_init() };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    Some(Usage {
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        major_faults: count(usage.ru_majflt),
    })
}
