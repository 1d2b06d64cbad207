//! How much this program, other processes and the hypervisor used the CPUs during a run. Compares
//! two readings of /proc/stat and of this process's own times. Must not know what ran.

use roundtrip_run::environment::CpuShares;

use crate::kernel::root::Root;
use crate::kernel::stat;

/// CPU times up to some instant.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    all_ticks: u64,
    /// Of processes, and of the kernel's threads.
    busy_ticks: u64,
    kernel_ticks: u64,
    stolen_ticks: u64,
    own_ticks: u64,
}

/// The thread whose children are the kernel's other threads, and its name.
const KERNELS_PARENT: (u32, &str) = (2, "kthreadd");

impl CpuTimes {
    /// The times so far; `None` if /proc does not report them. A worker's time is included only
    /// after this process has waited for the worker. So call this before the first worker starts,
    /// and again after the last one has ended.
    #[must_use]
    pub fn read(root: &Root) -> Option<Self> {
        Self::read_with(root, std::iter::empty())
    }

    /// Like [`CpuTimes::read`], while these children of this process are running. Includes their
    /// own children.
    pub(crate) fn read_with(root: &Root, children: impl Iterator<Item = u32>) -> Option<Self> {
        // cpu user nice system idle iowait irq softirq steal guest guest_nice (proc_stat(5)). User
        // time includes guest time.
        let stat = root.read("proc/stat")?;
        let numbers: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .take(8)
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let &[user, nice, system, idle, iowait, irq, softirq, stolen_ticks] = &numbers[..] else {
            return None;
        };
        let busy_ticks = user + nice + system;

        let children = children.map(|pid| ticks_below(root, pid, MAX_DEPTH)).sum::<Option<u64>>()?;
        let own_ticks = ticks_of(root, "self")? + children;
        let all_ticks = busy_ticks + irq + softirq + idle + iowait + stolen_ticks;
        let (parent, name) = KERNELS_PARENT;
        let is_parent = root.read(format!("proc/{parent}/comm")).is_some_and(|comm| comm.trim() == name);
        // In a container, they are not visible. Their time then counts as that of other processes.
        let kernel_ticks = if is_parent { ticks_below(root, parent, 1).unwrap_or(0) } else { 0 };
        Some(Self { all_ticks, busy_ticks, kernel_ticks, stolen_ticks, own_ticks })
    }

    /// The shares between this instant and a later one; `None` if there was no tick between them.
    /// What the kernel's threads and interrupts do, they do for others, this program among them.
    ///
    /// The kernel counts by samples: whatever runs at a tick gets all of it. A share of other
    /// processes that two standard errors of that can explain is 0, and so is a stolen tick on each
    /// of two CPUs.
    #[must_use]
    pub fn shares_until(&self, later: &Self) -> Option<CpuShares> {
        // Idle times can go backwards by a tick or two.
        let ticks = |later: u64, earlier: u64| later.saturating_sub(earlier) as f64;
        let all = ticks(later.all_ticks, self.all_ticks);
        let own = ticks(later.own_ticks, self.own_ticks);
        let busy = ticks(later.busy_ticks, self.busy_ticks);
        let foreign = busy - own - ticks(later.kernel_ticks, self.kernel_ticks);
        let foreign = if foreign <= 2.0 * busy.sqrt() { 0.0 } else { foreign };
        let stolen = ticks(later.stolen_ticks, self.stolen_ticks);
        let stolen = if stolen <= 2.0 { 0.0 } else { stolen };
        let share = |part: f64| (part / all).min(1.0);
        (all > 0.0).then(|| CpuShares { own: share(own), foreign: share(foreign), stolen: share(stolen) })
    }
}

/// How deep below a worker its processes are: a supervisor, and the program it starts.
const MAX_DEPTH: u32 = 4;

/// The time of a process and of the children that it has waited for. Fields 14 to 17 of
/// /proc/PID/stat: utime stime cutime cstime.
fn ticks_of(root: &Root, pid: &str) -> Option<u64> {
    let stat = root.read(format!("proc/{pid}/stat"))?;
    let fields = stat::split(&stat)?.1.skip(11).take(4);
    fields.map(|number| number.parse::<u64>().ok()).sum()
}

/// The time of a process and of everything below it.
fn ticks_below(root: &Root, pid: u32, depth: u32) -> Option<u64> {
    let mut ticks = ticks_of(root, &pid.to_string())?;
    if depth > 0 {
        // Any thread may have started children (CONFIG_PROC_CHILDREN).
        for tid in root.names(format!("proc/{pid}/task")) {
            let children = root.look(format!("proc/{pid}/task/{tid}/children")).ok()?;
            let pids = children.split_whitespace().filter_map(|child| child.parse().ok());
            ticks += pids.filter_map(|child| ticks_below(root, child, depth - 1)).sum::<u64>();
        }
    }
    Some(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    fn times(cpu: &str, own: &str) -> Option<CpuTimes> {
        let stat = format!("cpu  {cpu}\ncpu0 1 2 3\n");
        let own = format!("4711 (a) b) S 1 1 1 0 -1 4194304 100 0 0 0 {own} 20 0 1 0 100 0 0\n");
        CpuTimes::read(&fixture(&[("proc/stat", &stat), ("proc/self/stat", &own)]))
    }

    #[test]
    fn the_time_of_a_run_is_divided_into_own_foreign_and_stolen() {
        let before = times("100 0 50 1000 0 0 0 10 0 0", "1 2 3 4").unwrap();
        let after = times("190 20 140 1730 0 50 50 110 0 0", "31 42 53 24").unwrap();
        // 1130 ticks in all, 200 of them of processes, 140 of these our own.
        let shares = before.shares_until(&after).unwrap();
        let [own, foreign, stolen] = [140.0, 60.0, 100.0].map(|ticks| ticks / 1130.0);
        assert_eq!(shares, CpuShares { own, foreign, stolen });
    }

    #[test]
    fn what_rounding_explains_is_no_share_of_others() {
        let before = times("0 0 0 0 0 0 0 0 0 0", "0 0 0 0").unwrap();
        let shares = |cpu: &str, own: &str| before.shares_until(&times(cpu, own).unwrap()).unwrap();
        // 18 of 36 ticks are busy, 10 of them our own: two standard errors are 8.5 ticks.
        assert_eq!(shares("18 0 0 16 0 0 0 2 0 0", "10 0 0 0").foreign, 0.0);
        assert_eq!(shares("18 0 0 16 0 0 0 2 0 0", "10 0 0 0").stolen, 0.0);
        assert_eq!(shares("1800 0 0 1800 0 0 0 0 0 0", "1000 0 0 0").foreign, 800.0 / 3600.0);
    }

    #[test]
    fn kernel_threads_and_interrupts_are_no_other_processes() {
        let process =
            |ticks: u64| format!("1 (x) S 1 1 1 0 -1 4194304 100 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 0\n");
        let machine = |busy: u64, interrupts: u64, kernel: u64| {
            let root = fixture(&[
                ("proc/stat", &format!("cpu  {busy} 0 0 1000 0 0 {interrupts} 0 0 0\n")),
                ("proc/self/stat", &process(0)),
                ("proc/2/comm", "kthreadd\n"),
                ("proc/2/stat", &process(0)),
                ("proc/2/task/2/children", "3 4 \n"),
                ("proc/3/stat", &process(kernel)),
                ("proc/4/stat", &process(10)),
            ]);
            CpuTimes::read(&root).unwrap()
        };
        let shares = machine(100, 0, 0).shares_until(&machine(600, 500, 400)).unwrap();
        assert_eq!(shares.foreign, 100.0 / 1000.0);
    }

    #[test]
    fn without_a_tick_there_are_no_shares() {
        let now = times("100 0 50 1000 0 0 0 10 0 0", "1 2 3 4").unwrap();
        assert_eq!(now.shares_until(&now), None);
    }

    #[test]
    fn a_foreign_format_is_none() {
        assert!(times("100 0 50", "1 2 3 4").is_none());
        assert!(times("100 0 50 1000 0 0 0 10 0 0", "x y z").is_none());
        assert!(CpuTimes::read(&fixture(&[])).is_none());
    }

    #[test]
    fn running_workers_and_what_they_started_are_our_own() {
        let process =
            |ticks: u64| format!("1 (x) S 1 1 1 0 -1 4194304 100 0 0 0 {ticks} 1 0 0 20 0 1 0 1 0 0\n");
        let root = fixture(&[
            ("proc/stat", "cpu  100 0 50 1000 0 0 0 10 0 0\n"),
            ("proc/self/stat", &process(5)),
            ("proc/42/stat", &process(20)),
            ("proc/42/task/42/children", "43 99 \n"),
            ("proc/43/stat", &process(30)),
            ("proc/43/task/43/children", ""),
        ]);
        let times = CpuTimes::read_with(&root, std::iter::once(42)).unwrap();
        assert_eq!(times.own_ticks, 6 + 21 + 31);
        assert!(CpuTimes::read_with(&root, std::iter::once(7)).is_none());
    }

    #[test]
    fn the_times_of_this_machine_are_read() {
        assert!(CpuTimes::read(&Root::real()).is_some());
    }
}
