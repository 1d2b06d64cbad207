//! Whether the machine was quiet while a test measured: what other processes and other virtual
//! machines used of its CPUs. Knows nothing about what was measured.

use std::collections::BTreeMap;
use std::time::Instant;

/// The largest share of all CPUs that other processes may use. The kernel's threads and interrupts
/// do not count: they mostly carry out what the test causes.
const MAX_OTHERS: f64 = 0.05;
/// The largest share of all CPUs that the hypervisor may give to others (`steal`, proc_stat(5)).
const MAX_STOLEN: f64 = 0.01;
/// Ticks per second in /proc, which are the same on all machines (USER_HZ).
const TICKS: f64 = 100.0;

/// Watches the machine from its creation on.
///
/// ```no_run
/// # fn measured() -> f64 { 1.0 }
/// use roundtrip_skips::{Need, Quiet, skip};
///
/// let quiet = Quiet::watch();
/// let ratio = measured();
/// if let Some(why) = quiet.disturbance() {
///     return skip(Need::Quiet, why);
/// }
/// assert!(ratio < 1.1);
/// ```
#[derive(Debug)]
pub struct Quiet {
    start: Instant,
    cpus: Cpus,
    own: u64,
}

/// The used time of all CPUs, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cpus {
    count: u64,
    busy: u64,
    stolen: u64,
}

impl Quiet {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Self {
        Self { start: Instant::now(), cpus: Cpus::now(), own: own() }
    }

    /// What disturbed the machine since then, if anything did: processes other than this one and
    /// those that it started.
    #[must_use]
    pub fn disturbance(&self) -> Option<String> {
        let (used, seconds) = self.used();
        disturbance(used, own().saturating_sub(self.own), seconds)
    }

    /// The share of the CPU time that a hypervisor took since then, 0 to 1.
    #[must_use]
    pub fn stolen_share(&self) -> f64 {
        let (used, seconds) = self.used();
        used.stolen_share(seconds)
    }

    /// What was used since then, and for how many seconds.
    fn used(&self) -> (Cpus, f64) {
        let now = Cpus::now();
        let used = Cpus {
            count: now.count,
            busy: now.busy.saturating_sub(self.cpus.busy),
            stolen: now.stolen.saturating_sub(self.cpus.stolen),
        };
        (used, self.start.elapsed().as_secs_f64())
    }
}

fn disturbance(used: Cpus, own: u64, seconds: f64) -> Option<String> {
    let others = used.busy.saturating_sub(own) as f64 / used.all(seconds);
    let stolen = used.stolen_share(seconds);
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    if others > MAX_OTHERS {
        Some(format!(
            "this machine was not quiet: other processes used {} of its CPUs for {seconds:.1} s",
            percent(others)
        ))
    } else if stolen > MAX_STOLEN {
        Some(format!(
            "this machine was not quiet: its hypervisor took {} of its CPUs away for {seconds:.1} s",
            percent(stolen)
        ))
    } else {
        None
    }
}

impl Cpus {
    /// The time of all CPUs in so many seconds, in ticks.
    fn all(self, seconds: f64) -> f64 {
        seconds * TICKS * self.count.max(1) as f64
    }

    fn stolen_share(self, seconds: f64) -> f64 {
        self.stolen as f64 / self.all(seconds)
    }

    fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Reads proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Self {
        let lines = || text.lines().filter(|line| line.starts_with("cpu"));
        let all: Vec<u64> = lines()
            .next()
            .map(|line| line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect())
            .unwrap_or_default();
        let field = |at: usize| all.get(at).copied().unwrap_or(0);
        Self {
            count: lines().count().saturating_sub(1) as u64,
            busy: [0, 1, 2].map(field).iter().sum(),
            stolen: field(7),
        }
    }
}

/// The CPU time of this process, of those that it started, of those that these waited for, and of
/// the kernel's threads, in ticks.
fn own() -> u64 {
    /// The parent of the kernel's threads.
    const KTHREADD: u32 = 2;
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let text = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        processes.extend(Process::parse(&text).map(|process| (pid, process)));
    }
    let is_own = |pid: u32| {
        // Each step goes to the parent. A bound, because pids may be reused while they are listed.
        let up = std::iter::successors(Some(pid), |pid| processes.get(pid).map(|process| process.parent));
        up.take(processes.len()).any(|pid| [KTHREADD, std::process::id()].contains(&pid))
    };
    processes.iter().filter(|(pid, _)| is_own(**pid)).map(|(_, process)| process.ticks).sum()
}

/// A line of proc_pid_stat(5).
#[derive(Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
}

impl Process {
    fn parse(text: &str) -> Option<Self> {
        // The name, in parentheses, may contain anything.
        let (_, fields) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = [14, 15, 16, 17].into_iter().map(field).sum::<Option<u64>>()?;
        Some(Self { parent: field(4)?.try_into().ok()?, ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_time_of_all_cpus_is_read_without_waits() {
        let text = "cpu  10 2 30 400 50 6 7 8 9 0\ncpu0 5 1 15 200 25 3 3 4 4 0\ncpu1 5 1 15 200 25 3 4 4 5 0\nintr 1";
        assert_eq!(Cpus::parse(text), Cpus { count: 2, busy: 10 + 2 + 30, stolen: 8 });
        assert_eq!(Cpus::parse(""), Cpus::default());
        assert!(Cpus::now().count >= 1);
    }

    #[test]
    fn a_process_has_a_parent_and_times_whatever_its_name_is() {
        let text = "12 (a) b) S 7 12 12 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 9 0 0";
        assert_eq!(Process::parse(text), Some(Process { parent: 7, ticks: 10 }));
        assert_eq!(Process::parse("12 (a) S 7"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let stolen_share = |stolen| Cpus { count: 2, busy: 0, stolen }.stolen_share(10.0);
        assert_eq!(stolen_share(200), 0.1);
        assert_eq!(stolen_share(0), 0.0);
    }

    #[test]
    fn only_what_others_use_is_a_disturbance() {
        let used = |busy, stolen| Cpus { count: 2, busy, stolen };
        // Two CPUs have 2000 ticks in ten seconds.
        assert_eq!(disturbance(used(1500, 0), 1450, 10.0), None);
        let why = disturbance(used(1500, 0), 1300, 10.0).unwrap();
        assert!(why.ends_with("other processes used 10.0% of its CPUs for 10.0 s"), "{why}");
        assert!(disturbance(used(0, 100), 0, 10.0).unwrap().contains("hypervisor took 5.0%"));
    }

    #[test]
    fn the_cpu_time_of_a_child_is_its_parents_while_it_runs_and_afterwards() {
        const LOOP: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read line";
        let before = own();
        let mut child = std::process::Command::new("sh")
            .args(["-c", LOOP])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0]).unwrap();
        let running = own() - before;
        drop(child.stdin.take());
        child.wait().unwrap();
        let ended = own() - before;
        assert!(running >= 5 && ended >= running, "{running} ticks, then {ended}");
    }
}
