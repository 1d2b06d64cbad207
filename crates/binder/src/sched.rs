//! The calling thread's scheduling class.

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};

/// The classes that background scheduling uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Other = 0,
    Batch = 3,
}

/// The calling thread's scheduling attributes.
pub(crate) fn attributes() -> Option<SchedAttr> {
    sched_attr::get(0).ok()
}

/// The calling thread's class; `None` if it is not one of [`Policy`].
pub(crate) fn policy() -> Option<Policy> {
    let policy = attributes()?.policy;
    [Policy::Other, Policy::Batch].into_iter().find(|known| *known as u32 == policy)
}

/// Changes the calling thread's class and keeps its nice value. Returns true if the system allowed
/// it.
pub(crate) fn set_policy(policy: Policy) -> bool {
    attributes().is_some_and(|now| set_attributes(SchedAttr { policy: policy as u32, ..now }))
}

/// Changes the calling thread's scheduling attributes. Returns true if the system allowed it.
pub(crate) fn set_attributes(wanted: SchedAttr) -> bool {
    sched_attr::set(0, wanted).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_changes_its_class_and_keeps_its_nice_value() {
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
