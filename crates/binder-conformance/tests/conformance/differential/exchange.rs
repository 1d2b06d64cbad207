//! One exchange with the driver, and the scheduling of a thread, both on the calling thread. This
//! file knows no sequences.

use std::fmt;

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_binder_driver::{Commands, Errno, Error, Return, Returns};

use super::steps::Policy;
use crate::Sequential;

/// The result of an exchange.
pub(super) struct Outcome {
    pub(super) result: Result<(), Refused>,
    /// The bytes of the commands that the driver did not consume.
    pub(super) left: usize,
    pub(super) returns: Vec<Return>,
    /// The thread's nice value, and its policy unless that is SCHED_OTHER.
    pub(super) scheduled: String,
}

/// Makes one exchange on the calling thread.
pub(super) fn exchange_now(
    driver: &dyn Sequential,
    mut commands: Commands,
    memory: &[&[u8]],
    returns: Option<&mut Returns>,
) -> Outcome {
    let mut returns = returns;
    let result = driver.write_read(&mut commands, memory, returns.as_deref_mut()).map_err(errno);
    let returns = returns.filter(|_| result.is_ok()).map(Iterator::collect).unwrap_or_default();
    let nice = rustix::process::getpriority_process(None).expect("the calling thread's own");
    let attr = sched_attr::get(0).expect("the calling thread's own");
    let usual = attr.policy == libc::SCHED_OTHER.cast_unsigned();
    let policy = if usual { String::new() } else { format!(" policy {}/{}", attr.policy, attr.priority) };
    Outcome { result, left: commands.pending().len(), returns, scheduled: format!("{policy} nice {nice}") }
}

/// A policy, with the calling thread's present nice value.
pub(super) fn attr_of(policy: Policy) -> SchedAttr {
    let (policy, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let nice = rustix::process::getpriority_process(None).expect("the calling thread's own");
    SchedAttr { policy: policy.cast_unsigned(), priority, nice, ..SchedAttr::default() }
}

/// Sets how the calling thread is scheduled.
pub(super) fn schedule(attr: &SchedAttr) -> Result<(), Option<i32>> {
    sched_attr::set(0, *attr).map_err(|error| error.raw_os_error())
}

pub(super) fn errno(error: Error) -> Refused {
    Refused(error.errno().expect("an errno"))
}

/// A driver's errno, shown as a number, because C libraries word it differently.
#[derive(Clone, Copy)]
pub(super) struct Refused(Errno);

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errno {}", self.0.raw_os_error())
    }
}
