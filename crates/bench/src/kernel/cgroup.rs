//! The limits of this process's control group: CPU quota, real-time budget, CPUs. Reads cgroup v1,
//! cgroup v2 and hybrid hierarchies. Must not know what the limits are applied to.

use std::path::PathBuf;

use roundtrip_run::environment::Cgroups;

use crate::kernel::root::Root;

/// Reads /proc/self/cgroup and /proc/self/mountinfo, then the files they lead to (cgroups(7)).
pub fn limits(root: &Root) -> Cgroups {
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let cpu = Directory::find(&groups, &mounts, "cpu");
    let cpuset = Directory::find(&groups, &mounts, "cpuset");
    let unified = Directory::find(&groups, &mounts, "");

    let mut limits = Cgroups::default();
    let v1 = cpu.iter().flat_map(Directory::upwards).filter_map(|dir| quota_v1(root, &dir));
    let v2 = unified.iter().flat_map(Directory::upwards).filter_map(|dir| quota_v2(root, &dir));
    limits.cpu_quota_cpus = v1.chain(v2).min_by(f64::total_cmp);
    limits.rt_runtime_us = cpu.and_then(|dir| root.number(dir.path().join("cpu.rt_runtime_us")));
    limits.cpuset_cpus = cpuset
        .and_then(|dir| {
            let dir = dir.path();
            root.read(dir.join("cpuset.effective_cpus")).or_else(|| root.read(dir.join("cpuset.cpus")))
        })
        .or_else(|| root.read(unified?.path().join("cpuset.cpus.effective")));
    limits
}

fn quota_v1(root: &Root, dir: &std::path::Path) -> Option<f64> {
    let quota: f64 = root.number(dir.join("cpu.cfs_quota_us"))?;
    let period: f64 = root.number(dir.join("cpu.cfs_period_us"))?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn quota_v2(root: &Root, dir: &std::path::Path) -> Option<f64> {
    let text = root.read(dir.join("cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// The `cpu.stat` files of the control groups that have a CPU quota and contain a process, directly
/// or in a child group.
pub(crate) fn quota_stats(root: &Root, pid: u32) -> Vec<PathBuf> {
    let groups = root.read(format!("proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let stats = |controller: &str, quota: fn(&Root, &std::path::Path) -> Option<f64>| {
        let directory = Directory::find(&groups, &mounts, controller);
        let limited = directory.iter().flat_map(Directory::upwards).filter(|dir| quota(root, dir).is_some());
        limited.map(|dir| root.path(dir.join("cpu.stat"))).collect::<Vec<_>>()
    };
    [stats("cpu", quota_v1), stats("", quota_v2)].concat()
}

/// How often a group exhausted its quota, and for how many nanoseconds it was throttled, summed
/// over all CPUs, from its `cpu.stat` (Documentation/scheduler/sched-bwc.rst). Version 2 counts
/// microseconds, version 1 nanoseconds.
pub(crate) fn throttled(stat: &str) -> (u64, u64) {
    let number = |name: &str| -> Option<u64> {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.trim().parse().ok()
    };
    let ns = number("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| number("throttled_time"));
    (number("nr_throttled").unwrap_or(0), ns.unwrap_or(0))
}

/// Where control groups limit I/O. Paths are below the root that they were read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IoGroups {
    /// Whether they are cgroups of version 2.
    pub(crate) unified: bool,
    /// The topmost visible group.
    pub(crate) mount: PathBuf,
    /// This process's own group.
    pub(crate) home: PathBuf,
}

/// The hierarchy whose groups can limit I/O, if there is one.
pub(crate) fn io_groups(root: &Root) -> Option<IoGroups> {
    let groups = root.read("proc/self/cgroup")?;
    let mounts = root.read("proc/self/mountinfo")?;
    let found = |controller: &str| Directory::find(&groups, &mounts, controller);
    let has_io = |directory: &Directory| {
        let controllers = root.read(directory.mount.join("cgroup.controllers")).unwrap_or_default();
        controllers.split(' ').any(|name| name == "io")
    };
    let of = |unified: bool, directory: Directory| {
        let home = directory.path();
        IoGroups { unified, mount: directory.mount, home }
    };
    let unified = found("").filter(has_io).map(|directory| of(true, directory));
    unified.or_else(|| found("blkio").map(|directory| of(false, directory)))
}

/// How much more memory this process and its children can use without reclaim, in bytes: the
/// machine's available memory, or less if this control group or one above it has a limit. `None` if
/// the kernel does not report it.
pub(crate) fn memory_left_bytes(root: &Root) -> Option<u64> {
    let info = root.read("proc/meminfo")?;
    let available = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = available.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10;
    let groups = root.read("proc/self/cgroup").unwrap_or_default();
    let mounts = root.read("proc/self/mountinfo").unwrap_or_default();
    let left = |controller: &str, limit: &str, used: &str| {
        let directory = Directory::find(&groups, &mounts, controller);
        let left = directory.iter().flat_map(Directory::upwards).filter_map(|dir| {
            // "Unlimited" is "max", or more than any machine has.
            let limit: u64 = root.number(dir.join(limit))?;
            Some(limit.saturating_sub(root.number(dir.join(used))?))
        });
        left.min().unwrap_or(u64::MAX)
    };
    let v1 = left("memory", "memory.limit_in_bytes", "memory.usage_in_bytes");
    Some(machine.min(v1).min(left("", "memory.max", "memory.current")))
}

/// A group of one hierarchy, and where the hierarchy is mounted.
struct Directory {
    mount: PathBuf,
    /// Relative to the mount.
    group: PathBuf,
}

impl Directory {
    /// Finds the hierarchy of a v1 controller. The empty name means v2.
    fn find(groups: &str, mounts: &str, controller: &str) -> Option<Self> {
        let path = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            controllers.split(',').any(|name| name == controller).then_some(path)
        })?;
        // id parent major:minor root mount-point options … - type source super-options
        // (proc_pid_mountinfo(5))
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (mount_root, mount) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1).unwrap_or(""));
            let matches = match controller {
                "" => kind == "cgroup2",
                _ => kind == "cgroup" && options.split(',').any(|option| option == controller),
            };
            // In a container the mount may show only part of the hierarchy. The group is then
            // relative to that part.
            let group = path.strip_prefix(mount_root.trim_end_matches('/')).unwrap_or("");
            let group = group.trim_start_matches('/');
            matches.then(|| Self { mount: mount.into(), group: group.into() })
        })
    }

    fn path(&self) -> PathBuf {
        self.mount.join(&self.group)
    }

    /// The directories from the group up to the mount. A limit of any of them applies.
    fn upwards(&self) -> impl Iterator<Item = PathBuf> {
        self.group.ancestors().map(|group| self.mount.join(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    #[test]
    fn version_2_uses_the_lowest_quota_on_the_path_to_the_root() {
        let root = fixture(&[
            ("proc/self/cgroup", "0::/user.slice/app\n"),
            ("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/user.slice/app/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/user.slice/app/cpuset.cpus.effective", "0-1\n"),
        ]);
        let limits = limits(&root);
        assert_eq!(limits.cpu_quota_cpus, Some(1.5));
        assert_eq!(limits.cpuset_cpus.as_deref(), Some("0-1"));
        assert_eq!(limits.rt_runtime_us, None);
    }

    #[test]
    fn version_1_reads_quota_realtime_budget_and_cpuset_from_their_own_hierarchies() {
        let root = fixture(&[
            ("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/docker/abc\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 33 31 0:30 / /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-3\n"),
        ]);
        let expected = Cgroups {
            cpu_quota_cpus: Some(0.5),
            rt_runtime_us: Some(950_000),
            cpuset_cpus: Some("0-3".into()),
        };
        assert_eq!(limits(&root), expected);
    }

    #[test]
    fn groups_with_a_quota_report_how_often_it_was_exhausted() {
        let root = fixture(&[
            ("proc/42/cgroup", "0::/user.slice/app\n"),
            ("proc/self/mountinfo", "26 25 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/user.slice/app/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(quota_stats(&root, 42), [root.path("sys/fs/cgroup/user.slice/cpu.stat")]);
        assert!(quota_stats(&root, 43).is_empty());
        assert_eq!(throttled("usage_usec 5\nnr_throttled 3\nthrottled_usec 7\n"), (3, 7000));
        assert_eq!(throttled("nr_periods 9\nnr_throttled 2\nthrottled_time 800\n"), (2, 800));
        assert_eq!(throttled(""), (0, 0));
    }

    #[test]
    fn available_memory_is_the_minimum_of_machine_and_groups() {
        let files = [
            ("proc/self/cgroup", "4:memory:/app\n0::/app\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/memory rw - cgroup cgroup rw,memory\n33 31 0:30 / /cg/two rw - cgroup2 none rw\n",
            ),
            ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n"),
            ("cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("cg/memory/memory.usage_in_bytes", "1000\n"),
        ];
        assert_eq!(memory_left_bytes(&fixture(&files)), Some(5000 << 10));
        let limit = [
            ("cg/memory/app/memory.limit_in_bytes", "700000\n"),
            ("cg/memory/app/memory.usage_in_bytes", "600000\n"),
        ];
        assert_eq!(memory_left_bytes(&fixture(&[&files[..], &limit].concat())), Some(100_000));
        assert_eq!(memory_left_bytes(&fixture(&[])), None);
    }

    #[test]
    fn groups_that_limit_io_are_of_version_2_where_that_has_the_controller() {
        let files = [
            ("proc/self/cgroup", "7:blkio:/app\n0::/x\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/blkio rw - cgroup cgroup rw,blkio\n33 31 0:30 / /cg/two rw - cgroup2 none rw\n",
            ),
        ];
        let of = |unified, mount: &str, home: &str| {
            Some(IoGroups { unified, mount: mount.into(), home: home.into() })
        };
        assert_eq!(io_groups(&fixture(&files)), of(false, "/cg/blkio", "/cg/blkio/app"));
        let controllers = [("cg/two/cgroup.controllers", "cpu io memory\n")];
        let both = fixture(&[&files[..], &controllers].concat());
        assert_eq!(io_groups(&both), of(true, "/cg/two", "/cg/two/x"));
        assert_eq!(io_groups(&fixture(&[])), None);
    }

    #[test]
    fn no_limit_reads_as_none() {
        let root = fixture(&[
            ("proc/self/cgroup", "1:cpu:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n33 31 0:30 / /cg/two rw - cgroup2 none rw\n",
            ),
            ("cg/cpu/cpu.cfs_quota_us", "-1\n"),
            ("cg/cpu/cpu.cfs_period_us", "100000\n"),
            ("cg/two/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(limits(&root), Cgroups::default());
        assert_eq!(limits(&fixture(&[])), Cgroups::default());
    }
}
