//! What the kernel counts of the calling thread and tells without a file: getrusage(2). Must hold
//! nothing else.
#![allow(unsafe_code)] // No safe binding of getrusage(2) is among the dependencies.

/// Counts of a thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Times that it gave up the CPU to wait.
    pub(crate) voluntary_switches: u64,
    /// Times that the CPU was taken from it.
    pub(crate) involuntary_switches: u64,
    /// Page faults that had to wait for a device.
    pub(crate) major_faults: u64,
}

/// Those of the calling thread (RUSAGE_THREAD). One system call.
pub(crate) fn thread_usage() -> Option<Usage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of a whole `rusage`, which is all that the call
    // does.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: `rusage` consists of integers, for which zeroes are a value, and the call has filled
    // it in.
    let usage = unsafe { usage.assume_init() };
    let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
    Some(Usage {
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        major_faults: count(usage.ru_majflt),
    })
}
