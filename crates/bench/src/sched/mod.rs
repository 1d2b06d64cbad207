//! Scheduling of one thread: policy, priority, nice value, affinity and where it runs. Changes only
//! the given thread and keeps no state. Must not know why a thread's scheduling is changed.

mod permission;

pub use permission::{least_nice, realtime_permission};

use roundtrip_binder_driver::sched_attr::{self, SchedAttr};
use roundtrip_latency::{Placement, Policy};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, Result};
use roundtrip_run::Scheduling;

/// The kernel's thread id of the calling thread.
#[must_use]
pub fn gettid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Sets the calling thread's name, and that of threads it starts later, in `ps` and in traces.
/// Names are truncated to 15 bytes (PR_SET_NAME(2const)).
pub fn set_name(name: &str) {
    // A name that contains a zero byte is ignored. Nothing depends on it.
    if let Ok(name) = std::ffi::CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// The CPU that the calling thread runs on now.
#[inline]
#[must_use]
pub fn current_cpu() -> u32 {
    rustix::thread::sched_getcpu() as u32
}

/// How a thread is scheduled. `tid` 0 is the calling thread.
///
/// # Errors
/// [`Error::System`] if there is no such thread (ESRCH).
pub fn scheduling(tid: u32) -> Result<Scheduling> {
    let attr = sched_attr::get(tid)
        .map_err(|source| Error::system(format!("read the scheduling policy of {}", thread(tid)), source))?;
    Ok(Scheduling {
        policy: Policy::from_kernel(attr.policy),
        priority: u8::try_from(attr.priority).unwrap_or(u8::MAX),
        nice: i8::try_from(attr.nice).unwrap_or(0),
    })
}

/// Changes how a thread is scheduled. `tid` 0 is the calling thread.
///
/// # Errors
/// [`Error::System`]: EPERM without permission (see [`realtime_permission`]), EINVAL for a priority
/// that the policy does not have, ESRCH if there is no such thread.
pub fn set_scheduling(tid: u32, wanted: Scheduling) -> Result<()> {
    let attr = SchedAttr {
        policy: wanted.policy.to_kernel(),
        nice: i32::from(wanted.nice),
        priority: u32::from(wanted.priority),
        ..Default::default()
    };
    sched_attr::set(tid, attr).map_err(|source| {
        let Scheduling { policy, priority, nice } = wanted;
        let value =
            if policy.is_realtime() { format!("priority {priority}") } else { format!("nice {nice}") };
        Error::system(format!("give {} {} with {value}", thread(tid), policy.name()), source)
    })
}

/// The calling thread's current CPU and scheduling. Makes one system call.
///
/// # Errors
/// As [`scheduling`].
pub fn placement() -> Result<Placement> {
    let Scheduling { policy, priority, nice } = scheduling(0)?;
    Ok(Placement { cpu: current_cpu(), policy, priority, nice })
}

/// The CPUs that a thread may run on, ascending. `tid` 0 is the calling thread. The kernel has
/// already restricted them to the thread's cpuset.
///
/// # Errors
/// [`Error::System`] if there is no such thread.
pub fn allowed_cpus(tid: u32) -> Result<Vec<u32>> {
    let set = sched_getaffinity(pid(tid))
        .map_err(|source| Error::system(format!("read the CPU affinity of {}", thread(tid)), source))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Restricts a thread to these CPUs. `tid` 0 is the calling thread, which already runs on one of
/// them when this returns.
///
/// # Errors
/// [`Error::System`] if none of the CPUs is usable (EINVAL), [`Error::NoSuchCpu`] for a CPU number
/// that no kernel supports.
pub fn set_allowed_cpus(tid: u32, cpus: &[u32]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(Error::NoSuchCpu { cpu, last: CpuSet::MAX_CPU - 1 });
        }
        set.set(cpu as usize);
    }
    sched_setaffinity(pid(tid), &set)
        .map_err(|source| Error::system(format!("pin {} to CPUs {cpus:?}", thread(tid)), source))
}

fn pid(tid: u32) -> Option<rustix::process::Pid> {
    // 0 becomes None, which rustix passes to the kernel as "the calling thread".
    rustix::process::Pid::from_raw(tid.cast_signed())
}

fn thread(tid: u32) -> String {
    if tid == 0 { "the calling thread".into() } else { format!("thread {tid}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_of_the_calling_thread_can_be_raised_and_read_back() {
        std::thread::spawn(|| {
            set_scheduling(0, Scheduling::other(7)).unwrap();
            assert_eq!(scheduling(0).unwrap(), Scheduling::other(7));
            assert_eq!(scheduling(gettid()).unwrap(), Scheduling::other(7));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_pinned_to_one_cpu_runs_there() {
        std::thread::spawn(|| {
            for cpu in allowed_cpus(0).unwrap() {
                set_allowed_cpus(0, &[cpu]).unwrap();
                assert_eq!(current_cpu(), cpu);
                assert_eq!(allowed_cpus(0).unwrap(), [cpu]);
                assert_eq!(placement().unwrap().cpu, cpu);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_impossible_priority_is_an_error_that_names_thread_and_policy() {
        let error = set_scheduling(0, Scheduling { policy: Policy::Fifo, priority: 0, nice: 0 }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the calling thread") && text.contains("SCHED_FIFO"), "{text}");
    }

    #[test]
    fn a_cpu_beyond_all_kernels_is_refused() {
        assert!(set_allowed_cpus(0, &[100_000]).unwrap_err().to_string().contains("100000"));
    }
}
