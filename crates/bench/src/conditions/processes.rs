//! The conditions of one worker process: where its threads may run, and how they are scheduled.
//! Must not know what it does.

use std::collections::BTreeSet;

use roundtrip_latency::Policy;
use roundtrip_run::Scheduling;
use roundtrip_run::cpus::ranges;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::Reading;
use crate::kernel::root::Root;
use crate::sched;

/// A child of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process<'a> {
    /// "client of pair 1".
    pub(crate) role: &'a str,
    pub(crate) pid: u32,
    /// Whether it chooses its CPUs itself, again and again.
    pub(crate) moves: bool,
}

impl Process<'_> {
    /// Its conditions; nothing of a process that has ended.
    pub(super) fn read(&self, root: &Root) -> Vec<Reading> {
        let tids: Vec<u32> = root
            .names(format!("proc/{}/task", self.pid))
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        let cpus: BTreeSet<Vec<u32>> = tids.iter().filter_map(|&tid| sched::allowed_cpus(tid).ok()).collect();
        let scheduling = tids.iter().filter_map(|&tid| sched::scheduling(tid).ok());
        let cpus = cpus.iter().map(|cpus| ranges(cpus)).collect::<Vec<_>>().join(" and ");
        // Others inherit or take on a higher priority for their calls.
        let lowest = scheduling.min_by_key(rank).map(|one| one.to_string());
        let groups = root.read(format!("proc/{}/cgroup", self.pid)).map(|groups| paths(&groups));
        [
            ("control group", groups),
            ("CPUs", Some(cpus).filter(|cpus| !self.moves && !cpus.is_empty())),
            ("scheduling", lowest),
        ]
        .into_iter()
        .filter_map(|(what, value)| {
            Some(Reading { what: format!("{what} of {}", self.role), pid: self.pid, value: value? })
        })
        .collect()
    }

    /// Whether it was stopped, or continued after a stop, since this was last asked (waitid(2)).
    pub(super) fn was_stopped(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return false };
        let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
    }
}

/// The different paths in a /proc/PID/cgroup: a process is in one group of each hierarchy.
fn paths(groups: &str) -> String {
    let paths: BTreeSet<&str> = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).collect();
    paths.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Orders schedulings from the one that runs last.
fn rank(one: &Scheduling) -> (u8, u8, i8) {
    let class = match one.policy {
        Policy::Idle => 0,
        Policy::Batch => 1,
        Policy::Other => 2,
        _ => 3,
    };
    (class, one.priority, -one.nice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_scheduling_is_found() {
        let idle = Scheduling { policy: Policy::Idle, priority: 0, nice: 0 };
        let mut all =
            [Scheduling::fifo(99), Scheduling::other(-5), idle, Scheduling::other(7), Scheduling::fifo(1)];
        all.sort_by_key(rank);
        let expected =
            [idle, Scheduling::other(7), Scheduling::other(-5), Scheduling::fifo(1), Scheduling::fifo(99)];
        assert_eq!(all, expected);
    }

    #[test]
    fn control_groups_are_named_once() {
        assert_eq!(paths("3:cpuset:/\n2:freezer:/a:b\n0::/\n"), "/ and /a:b");
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_conditions() {
        let gone = Process { role: "x", pid: 1 << 30, moves: false };
        assert_eq!(gone.read(&Root::real()), []);
        assert!(!gone.was_stopped());
    }
}
