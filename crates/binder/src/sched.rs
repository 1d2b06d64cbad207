//! The calling thread's scheduling class.
//!
//! `sched_getattr(2)` and `sched_setattr(2)` have no safe wrapper, and musl's `sched_setscheduler` answers ENOSYS. They
//! are called here, and nowhere else in this crate.
#![allow(unsafe_code)]

/// The classes that background scheduling moves a thread between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Other = 0,
    Batch = 3,
}

/// How a thread is scheduled: `struct sched_attr` of the kernel's `include/uapi/linux/sched/types.h`, in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SIZE: u32 = size_of::<Attributes>() as u32;
const _: () = assert!(SIZE == 48);

/// How the calling thread is scheduled.
pub(crate) fn attributes() -> Option<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most SIZE bytes to the structure, which is that long and lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    (result == 0).then_some(attributes)
}

/// The calling thread's class, if it is one of the two.
pub(crate) fn policy() -> Option<Policy> {
    let policy = attributes()?.policy;
    [Policy::Other, Policy::Batch].into_iter().find(|known| *known as u32 == policy)
}

/// Changes the calling thread's class and leaves its nice value alone. True when the system allowed it.
pub(crate) fn set_policy(policy: Policy) -> bool {
    attributes().is_some_and(|now| set_attributes(Attributes { policy: policy as u32, ..now }))
}

/// Has the calling thread scheduled as another one was. True when the system allowed it.
pub(crate) fn set_attributes(wanted: Attributes) -> bool {
    let wanted = Attributes { size: SIZE, ..wanted };
    // SAFETY: the kernel reads the structure, which is as long as it says and lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves_between_the_classes_and_keeps_its_nice_value() {
        std::thread::spawn(|| {
            let nice = rustix::process::getpriority_process(None).unwrap();
            assert!(set_policy(Policy::Batch));
            assert_eq!(policy(), Some(Policy::Batch));
            assert!(set_policy(Policy::Other));
            assert_eq!(policy(), Some(Policy::Other));
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), nice);
        })
        .join()
        .unwrap();
    }
}
