//! Whether this process may run real-time threads, and if not, why. Tries it on a temporary thread,
//! and explains a refusal by limits, capabilities, cgroup and seccomp. Must not change the calling
//! thread.

use roundtrip_binder_driver::sched_attr;
use rustix::process::{Resource, getrlimit};

use super::set_scheduling;
use crate::error::{Error, Result};
use crate::kernel::cgroup;
use crate::kernel::root::Root;
use roundtrip_run::RealtimePermission;
use roundtrip_run::Scheduling;

/// CAP_SYS_NICE (capabilities(7)): any policy, any priority.
const CAP_SYS_NICE: u32 = 23;

/// Tries SCHED_FIFO on a temporary thread: at 99, then at what RLIMIT_RTPRIO allows.
#[must_use]
pub fn realtime_permission() -> RealtimePermission {
    let limit = getrlimit(Resource::Rtprio).current;
    let limit = limit.map_or(99, |priority| priority.min(99) as u8);
    let tried = on_a_thread(move || {
        let refusal = match sys_error(99) {
            None => return Ok(99),
            Some(refusal) => refusal,
        };
        if limit > 0 && limit < 99 && sys_error(limit).is_none() { Ok(limit) } else { Err(refusal) }
    });
    match tried {
        Ok(Ok(max_priority)) => RealtimePermission::Allowed { max_priority },
        Ok(Err(refusal)) => RealtimePermission::Refused { reason: explain(&refusal, limit, &Root::real()) },
        Err(error) => RealtimePermission::Refused { reason: error.to_string() },
    }
}

/// The lowest nice value that this process's threads may set: -20 with CAP_SYS_NICE, else what
/// RLIMIT_NICE allows, but never above the calling thread's own (sched(7)).
#[must_use]
pub fn least_nice() -> i8 {
    let own = super::scheduling(0).map_or(0, |now| now.nice);
    // The limit is 20 - nice (getrlimit(2)).
    let limit = getrlimit(Resource::Nice).current.map_or(-20, |limit| 20 - limit.min(40) as i8);
    let may = |nice: i8| on_a_thread(move || set_scheduling(0, Scheduling::other(nice)).is_ok());
    [-20, limit]
        .into_iter()
        .filter(|&nice| nice < own)
        .find(|&nice| may(nice).unwrap_or(false))
        .unwrap_or(own)
}

/// Runs `tried` on a new thread, whose scheduling ends with it.
fn on_a_thread<T: Send + 'static>(tried: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let failed = |cause| Error::system("start a thread to try a priority", cause);
    let thread = std::thread::Builder::new().spawn(tried).map_err(failed)?;
    thread.join().map_err(|_| failed(std::io::Error::other("it panicked")))
}

/// Requests SCHED_FIFO at `priority` and returns the error; `None` if it was granted. The old
/// policy is then restored at once.
fn sys_error(priority: u8) -> Option<std::io::Error> {
    let before = sched_attr::get(0).ok()?;
    match set_scheduling(0, Scheduling::fifo(priority)) {
        Ok(()) => {
            // Returning to an ordinary policy needs no permission. If it fails, the real-time
            // policy ends with this thread.
            let _ = sched_attr::set(0, before);
            None
        }
        Err(Error::System { cause, .. }) => Some(cause),
        Err(other) => Some(std::io::Error::other(other.to_string())),
    }
}

/// Names the most likely cause, in the order in which the kernel checks (kernel/sched/syscalls.c):
/// the user's rights first, then the task group's real-time budget. Seccomp may refuse before
/// either.
fn explain(refusal: &std::io::Error, rtprio_limit: u8, root: &Root) -> String {
    let status = root.read("proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let filtered = field("Seccomp") == Some("2");
    if refusal.raw_os_error() != Some(libc::EPERM) {
        let by = if filtered {
            " (this process runs under a seccomp filter, which may cause this error)"
        } else {
            ""
        };
        return format!("sched_setattr: {refusal}{by}");
    }
    let capable = field("CapEff")
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .is_some_and(|caps| caps & (1 << CAP_SYS_NICE) != 0);
    if !capable && rtprio_limit == 0 {
        return "no CAP_SYS_NICE and RLIMIT_RTPRIO is 0: run as root, give the binary cap_sys_nice, or raise `ulimit -r`"
            .into();
    }
    let cgroups = cgroup::limits(root);
    if cgroups.rt_runtime_us == Some(0) {
        return "the cgroup's cpu.rt_runtime_us is 0: give the group real-time budget, or move to the root group".into();
    }
    let initial_user_namespace =
        root.read("proc/self/uid_map").is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    if !initial_user_namespace {
        return "CAP_SYS_NICE in this user namespace does not cover the scheduler: run outside it, or raise \
                `ulimit -r`"
            .into();
    }
    if filtered {
        return "refused (EPERM), probably by this process's seccomp filter: allow sched_setattr in it"
            .into();
    }
    format!(
        "refused (EPERM) although RLIMIT_RTPRIO is {rtprio_limit} and CAP_SYS_NICE is {}: a security module may forbid it",
        if capable { "held" } else { "not held" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    fn eperm() -> std::io::Error {
        std::io::Error::from_raw_os_error(libc::EPERM)
    }

    #[test]
    fn the_probe_leaves_the_calling_thread_alone() {
        let before = super::super::scheduling(0).unwrap();
        let permission = realtime_permission();
        assert_eq!(super::super::scheduling(0).unwrap(), before);
        assert_eq!(
            permission.max_priority().is_some(),
            matches!(permission, RealtimePermission::Allowed { .. })
        );
    }

    #[test]
    fn the_limit_of_an_ordinary_user_is_named() {
        let root = fixture(&[("proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n")]);
        assert!(explain(&eperm(), 0, &root).contains("ulimit -r"));
    }

    #[test]
    fn a_group_without_realtime_budget_is_named() {
        let root = fixture(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t0\n"),
            ("proc/self/cgroup", "1:cpu:/box\n"),
            ("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
            ("sys/fs/cgroup/cpu/box/cpu.rt_runtime_us", "0\n"),
        ]);
        assert!(explain(&eperm(), 0, &root).contains("cpu.rt_runtime_us is 0"));
    }

    #[test]
    fn a_user_namespace_is_named() {
        let root = fixture(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t0\n"),
            ("proc/self/uid_map", "         0       1000          1\n"),
        ]);
        assert!(explain(&eperm(), 0, &root).contains("user namespace"));
    }

    #[test]
    fn a_seccomp_filter_is_suspected_when_nothing_else_explains_it() {
        let root = fixture(&[
            ("proc/self/status", "CapEff:\t000001ffffffffff\nSeccomp:\t2\n"),
            ("proc/self/uid_map", "0 0 4294967295\n"),
        ]);
        assert!(explain(&eperm(), 0, &root).contains("seccomp"));
    }
}
