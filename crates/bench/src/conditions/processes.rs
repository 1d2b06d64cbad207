//! The conditions of one worker process: where its threads may run, and how they are scheduled.
//! Must not know what it does.

use std::collections::BTreeSet;

use roundtrip_latency::Policy;
use roundtrip_run::Scheduling;
use roundtrip_run::cpus::ranges;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::Reading;
use crate::kernel::root::Root;
use crate::kernel::stat;
use crate::sched;

/// What the names of the threads begin with that the kernel creates for an io_uring
/// (io_uring/io-wq.c and io_uring/sqpoll.c).
const URING: [&str; 2] = ["iou-wrk-", "iou-sqp-"];

/// The state of a process that is or was stopped.
const STOPPED: &str = "stopped for a time";

/// A process of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process<'a> {
    /// "client of pair 1".
    pub(crate) role: &'a str,
    pub(crate) pid: u32,
    /// Whether it chooses its CPUs itself, again and again.
    pub(crate) moves: bool,
    /// Whether it is a child of this process.
    pub(crate) is_child: bool,
}

impl Process<'_> {
    /// Its conditions; nothing of a process that has ended. To be called while nothing is timed.
    pub(super) fn read(&self, root: &Root) -> Vec<Reading> {
        let scheduling = self.tids(root).into_iter().filter_map(|tid| sched::scheduling(tid).ok());
        // Others inherit or take on a higher priority for their calls.
        let lowest = scheduling.min_by_key(rank).map(|one| one.to_string());
        let groups = root.read(format!("proc/{}/cgroup", self.pid)).map(|groups| paths(&groups));
        let slow = [("control group", groups), ("scheduling", lowest)];
        let slow = slow.into_iter().filter_map(|(what, value)| self.reading(what, value));
        slow.chain(self.glimpse(root)).collect()
    }

    /// The conditions that take little time to read, and do not change with each call.
    pub(super) fn glimpse(&self, root: &Root) -> Vec<Reading> {
        let cpus: BTreeSet<Vec<u32>> =
            self.tids(root).into_iter().filter_map(|tid| sched::allowed_cpus(tid).ok()).collect();
        let cpus = cpus.iter().map(|cpus| ranges(cpus)).collect::<Vec<_>>().join(" and ");
        let cpus = Some(cpus).filter(|cpus| !self.moves && !cpus.is_empty());
        let both = [("CPUs", cpus), ("state", self.state(root).map(str::to_owned))];
        both.into_iter().filter_map(|(what, value)| self.reading(what, value)).collect()
    }

    fn reading(&self, what: &str, value: Option<String>) -> Option<Reading> {
        Some(Reading { what: format!("{what} of {}", self.role), pid: self.pid, value: value? })
    }

    /// Its own threads: without those that the kernel creates in it for its io_urings, which may
    /// run on all CPUs.
    fn tids(&self, root: &Root) -> Vec<u32> {
        let own = |tid: &String| {
            let comm = root.read(format!("proc/{}/task/{tid}/comm", self.pid)).unwrap_or_default();
            !URING.iter().any(|start| comm.starts_with(start))
        };
        let tids = root.names(format!("proc/{}/task", self.pid)).into_iter().filter(own);
        tids.filter_map(|tid| tid.parse().ok()).collect()
    }

    /// Whether it is stopped or frozen; `None` if that is unknown, or if it has ended. Of a child
    /// that is stopped, [`Process::was_stopped`] knows.
    fn state(&self, root: &Root) -> Option<&'static str> {
        let is_stopped = self.is_stopped(root);
        let groups = root.read(format!("proc/{}/cgroup", self.pid))?;
        match (is_frozen(root, &groups), is_stopped, self.is_child) {
            (true, ..) => Some("frozen"),
            (false, true, true) => None,
            (false, true, false) => Some(STOPPED),
            (false, false, _) => Some("running"),
        }
    }

    /// Whether it is stopped now.
    pub(super) fn is_stopped(&self, root: &Root) -> bool {
        let stat = root.read(format!("proc/{}/stat", self.pid)).unwrap_or_default();
        stat::split(&stat).is_some_and(|(_, mut fields)| fields.next() == Some("T"))
    }

    /// The reading of a process that is stopped.
    pub(super) fn stopped(&self) -> Reading {
        Reading { what: format!("state of {}", self.role), pid: self.pid, value: STOPPED.to_owned() }
    }

    /// Whether it was stopped, or continued after a stop, since this was last asked (waitid(2)).
    pub(super) fn was_stopped(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return false };
        let options = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some())
    }
}

/// Whether a control group in a /proc/PID/cgroup is frozen, in either version of control groups
/// (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst, cgroup-v2.rst).
fn is_frozen(root: &Root, groups: &str) -> bool {
    groups.lines().any(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return false };
        if controllers.split(',').any(|name| name == "freezer") {
            let state = root.read(format!("sys/fs/cgroup/freezer{path}/freezer.state"));
            return state.is_some_and(|state| state != "THAWED");
        }
        let events = |mount: &str| root.read(format!("sys/fs/cgroup{mount}{path}/cgroup.events"));
        controllers.is_empty()
            && events("").or_else(|| events("/unified")).is_some_and(|events| events.contains("frozen 1"))
    })
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
    fn a_frozen_group_and_a_stopped_process_are_seen() {
        use crate::kernel::root::fixture;
        let state = |files: &[(&str, &str)], state: &str, is_child| {
            let stat = format!("42 (x) {state} 1\n");
            let root = fixture(&[&[("proc/42/stat", stat.as_str())], files].concat());
            Process { role: "x", pid: 42, moves: false, is_child }.state(&root)
        };
        let v1 = ("proc/42/cgroup", "3:cpu:/\n2:freezer,x:/a\n");
        let frozen = ("sys/fs/cgroup/freezer/a/freezer.state", "FROZEN\n");
        let thawed = ("sys/fs/cgroup/freezer/a/freezer.state", "THAWED\n");
        assert_eq!(state(&[v1, frozen], "D", true), Some("frozen"));
        assert_eq!(state(&[v1, thawed], "D", true), Some("running"));
        let v2 = ("proc/42/cgroup", "0::/b\n");
        for place in ["sys/fs/cgroup/b/cgroup.events", "sys/fs/cgroup/unified/b/cgroup.events"] {
            assert_eq!(state(&[v2, (place, "populated 1\nfrozen 1\n")], "S", true), Some("frozen"));
            assert_eq!(state(&[v2, (place, "populated 1\nfrozen 0\n")], "S", true), Some("running"));
        }
        assert_eq!([true, false].map(|is_child| state(&[v2], "T", is_child)), [None, Some(STOPPED)]);
        assert_eq!(state(&[], "S", true), None);
    }

    #[test]
    fn threads_of_an_io_uring_are_not_its_own() {
        use crate::kernel::root::fixture;
        let root = fixture(&[
            ("proc/42/task/42/comm", "writer\n"),
            ("proc/42/task/43/comm", "iou-wrk-42\n"),
            ("proc/42/task/44/comm", "iou-sqp-42\n"),
        ]);
        let process = Process { role: "x", pid: 42, moves: false, is_child: true };
        assert_eq!(process.tids(&root), [42]);
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_conditions() {
        let gone = Process { role: "x", pid: 1 << 30, moves: false, is_child: true };
        assert_eq!(gone.read(&Root::real()), []);
        assert!(!gone.was_stopped());
    }
}
