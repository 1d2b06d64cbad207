//! When the recording is incomplete. Nothing that spans such a gap is certain. Must not know who
//! asks.

use std::collections::BTreeMap;

use roundtrip_tracefs::Trace;

/// Stretches without all events, in nanoseconds: of each CPU, and of any CPU.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    any: Vec<(u64, u64)>,
    /// Those of them during which events were lost, rather than not yet or no longer recorded.
    lost: Vec<(u64, u64)>,
    by_cpu: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Gaps {
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut by_cpu: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for (&cpu, &from_ns) in &trace.complete_from_ns {
            if from_ns > 0 {
                by_cpu.entry(cpu).or_default().push((0, from_ns));
            }
        }
        let mut lost = Vec::new();
        for loss in &trace.losses {
            // A loss between two events of the same instant still counts.
            let end_ns = loss.before_ns.max(loss.after_ns.saturating_add(1));
            by_cpu.entry(loss.cpu).or_default().push((loss.after_ns, end_ns));
            lost.push((loss.after_ns, end_ns));
        }
        if let Some(stopped_ns) = trace.stopped_ns {
            by_cpu.entry(u32::MAX).or_default().push((stopped_ns, u64::MAX));
        }
        let any = united(by_cpu.values().flatten().copied().collect());
        for gaps in by_cpu.values_mut() {
            *gaps = united(std::mem::take(gaps));
        }
        Self { any, lost: united(lost), by_cpu }
    }

    /// Whether events of `from_ns..to_ns` were lost, on any CPU.
    pub(crate) fn lost_within(&self, from_ns: u64, to_ns: u64) -> bool {
        let first = self.lost.partition_point(|gap| gap.1 <= from_ns);
        self.lost.get(first).is_some_and(|gap| gap.0 <= to_ns)
    }

    /// The first and the last unknown instant within `from_ns..to_ns`, on one CPU or on any.
    pub(crate) fn within(&self, cpu: Option<u32>, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        let gaps = match cpu {
            None => &self.any,
            Some(cpu) => self.by_cpu.get(&cpu)?,
        };
        let first = gaps.partition_point(|gap| gap.1 <= from_ns);
        // An event that one CPU lost may have the same time as an event of another CPU.
        let after = gaps.partition_point(|gap| gap.0 < to_ns || (cpu.is_none() && gap.0 == to_ns));
        (first < after).then(|| (gaps[first].0.max(from_ns), gaps[after - 1].1.min(to_ns)))
    }
}

/// Sorts the stretches and combines overlapping ones.
fn united(mut gaps: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    gaps.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in gaps {
        match out.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => out.push((begin, end)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use roundtrip_tracefs::Loss;

    use super::*;

    #[test]
    fn a_gap_is_found_on_its_cpu_and_among_all_and_one_without_length_counts() {
        let loss = |cpu, after_ns, before_ns| Loss { cpu, after_ns, before_ns, events: None, damaged: false };
        let trace = Trace {
            losses: vec![loss(0, 10, 20), loss(1, 15, 30), loss(0, 50, 50)],
            complete_from_ns: [(1, 5)].into(),
            ..Trace::default()
        };
        let gaps = Gaps::of(&trace);
        assert_eq!(gaps.within(None, 0, 100), Some((0, 51)));
        assert_eq!(gaps.within(None, 6, 40), Some((10, 30)));
        assert_eq!(gaps.within(Some(0), 12, 18), Some((12, 18)));
        assert_eq!(gaps.within(Some(0), 20, 50), None);
        assert_eq!(gaps.within(Some(0), 20, 51), Some((50, 51)));
        assert_eq!(gaps.within(Some(7), 0, 100), None);
        // Before the recording began on a CPU, nothing was lost.
        assert_eq!(gaps.within(None, 0, 4), Some((0, 4)));
        assert_eq!(
            [(0, 4), (6, 12), (30, 49), (50, 51)].map(|(from, to)| gaps.lost_within(from, to)),
            [false, true, false, true]
        );
    }
}
