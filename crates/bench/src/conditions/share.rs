//! How much other processes and the hypervisor used the CPUs between two looks. Must not know why.

use roundtrip_run::environment::Change;

use super::Process;
use crate::environment::CpuTimes;
use crate::kernel::root::Root;

/// The shortest span whose shares mean something: CPU time is counted in ticks of 10 ms.
const MIN_SPAN_NS: u64 = 1_000_000_000;

/// If other processes or the hypervisor use at least this share of the CPU time of a span, that is
/// a change. Over a whole run, less is a warning.
const LARGE_SHARE: f64 = 0.2;

/// What a share usually is, and what it was; when, in nanoseconds since the beginning of the run.
type Span = (&'static str, [&'static str; 2], [u64; 2]);

/// The last reading, and when it was made.
#[derive(Debug, Default)]
pub(super) struct Shares(Option<(CpuTimes, u64)>);

impl Shares {
    /// The shares that are too large since the last look. Without processes to measure, other
    /// processes may be what is measured.
    pub(super) fn look(&mut self, root: &Root, processes: &[Process<'_>], at_ns: u64) -> Vec<Span> {
        if processes.is_empty() || self.0.is_some_and(|(_, last_ns)| at_ns - last_ns < MIN_SPAN_NS) {
            return Vec::new();
        }
        // Those of a child include those of its children.
        let pids = processes.iter().filter(|process| process.is_child).map(|process| process.pid);
        let Some(times) = CpuTimes::read_with(root, pids) else { return Vec::new() };
        let Some((last, last_ns)) = self.0.replace((times, at_ns)) else { return Vec::new() };
        let Some(shares) = last.shares_until(&times) else { return Vec::new() };
        let mut spans = Vec::new();
        if shares.foreign >= LARGE_SHARE {
            spans.push((Change::FOREIGN_TIME, ["below 20%", "20% or more"], [last_ns, at_ns]));
        }
        if shares.stolen >= LARGE_SHARE {
            spans.push((Change::STOLEN_TIME, ["below 20%", "20% or more"], [last_ns, at_ns]));
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    /// A machine whose CPUs were busy, stolen and used by the worker 42 for so many ticks, out of
    /// 1000.
    fn machine(busy: u64, stolen: u64, own: u64) -> impl std::ops::Deref<Target = Root> {
        let idle = 1000 - busy - stolen;
        let stat = format!("cpu  {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\n");
        let process =
            |ticks: u64| format!("1 (x) S 1 1 1 0 -1 4194304 100 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 0\n");
        fixture(&[
            ("proc/stat", &stat),
            ("proc/self/stat", &process(0)),
            ("proc/42/stat", &process(own)),
            ("proc/42/task/42/children", ""),
        ])
    }

    #[test]
    fn large_shares_are_spans() {
        let processes = [Process { role: "client", pid: 42, moves: false, is_child: true }];
        let second = 1_000_000_000;
        let of = |busy, stolen, own| {
            let mut shares = Shares(Some((CpuTimes::default(), 0)));
            let spans = shares.look(&machine(busy, stolen, own), &processes, second);
            spans.into_iter().map(|(what, ..)| what).collect::<Vec<_>>()
        };
        assert_eq!(of(900, 10, 890), [""; 0]);
        assert_eq!(of(900, 10, 600), ["CPU time of other processes"]);
        assert_eq!(of(900, 60, 890), [""; 0]);
        assert_eq!(of(100, 250, 100), ["CPU time taken by the hypervisor"]);
    }

    #[test]
    fn without_workers_or_time_there_are_no_shares() {
        assert_eq!(
            Shares::default().look(
                &machine(900, 0, 0),
                &[Process { role: "client", pid: 42, moves: false, is_child: true }],
                0
            ),
            []
        );
        let mut shares = Shares(Some((CpuTimes::default(), 0)));
        assert_eq!(shares.look(&machine(900, 0, 0), &[], 2_000_000_000), []);
        let processes = [Process { role: "client", pid: 42, moves: false, is_child: true }];
        assert_eq!(shares.look(&machine(900, 0, 0), &processes, 1000), []);
    }
}
