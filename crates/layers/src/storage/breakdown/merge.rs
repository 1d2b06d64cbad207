//! Adds the totals of one breakdown to another.

use super::Breakdown;

impl Breakdown {
    /// Adds other calls. Both breakdowns are from [`Breakdown::only_totals`]: what those leave
    /// empty is not added.
    pub fn merge(&mut self, other: &Self) {
        for (layer, times) in &other.layers {
            self.layers.entry(*layer).or_default().merge(times);
        }
        for (layer, ns) in &other.behind_ns {
            *self.behind_ns.entry(*layer).or_default() += ns;
        }
        for (cpu, requests) in &other.interrupt_cpus {
            *self.interrupt_cpus.entry(*cpu).or_default() += requests;
        }
        for ((tid, comm), sum) in &other.others_commits {
            self.waited_for((*tid, comm), *sum);
        }
        self.usual.merge(&other.usual);
        self.host.merge(&other.host);
        self.controller_interrupts.add(other.controller_interrupts);
        self.cpu_interrupts.add(other.cpu_interrupts);
        self.doubts.extend(other.doubts.iter().cloned());
        self.calls += other.calls;
        self.sum_ns += other.sum_ns;
        self.requests += other.requests;
        self.flushes += other.flushes;
        self.reads += other.reads;
        self.completed_elsewhere += other.completed_elsewhere;
        self.lost_calls += other.lost_calls;
        self.uncovered_calls += other.uncovered_calls;
        self.unrecorded_switches += other.unrecorded_switches;
        self.unrecorded_switch_calls += other.unrecorded_switch_calls;
        self.unexplained_for_switches_ns += other.unexplained_for_switches_ns;
        self.unexplained_calls += other.unexplained_calls;
        self.disturbed_calls += other.disturbed_calls;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Layer, Layers, Missing, OthersCommit, Piece, Request, Write};
    use super::*;

    fn call(tid: u32) -> (Write, Layers) {
        let end_ns = 1000 + u64::from(tid) * 10;
        let piece = |begin_ns, end_ns, layer| Piece { begin_ns, end_ns, layer };
        let request = Request { leaf: true, interrupt_cpu: Some(tid % 2), ..Request::default() };
        let layers = Layers {
            pieces: vec![piece(0, 400, Layer::Fs), piece(400, end_ns, Layer::Device)],
            requests: vec![request],
            others_commits: vec![OthersCommit { by: Some(tid), comm: format!("t{tid}"), waited_ns: 5 }],
            missing: (tid == 3).then_some(Missing::Lost),
            ..Layers::default()
        };
        (Write { start_ns: 0, end_ns, tid }, layers)
    }

    fn of(tids: std::ops::Range<u32>) -> Breakdown {
        let mut out = Breakdown::only_totals();
        for (write, layers) in tids.map(call) {
            out.add(write, layers);
        }
        out
    }

    #[test]
    fn two_breakdowns_merged_are_the_one_of_all_their_calls() {
        let (mut merged, other) = (of(0..5), of(5..12));
        merged.merge(&other);
        assert_eq!(merged, of(0..12));
        assert_eq!((merged.calls, merged.lost_calls, merged.others_commits.len()), (12, 1, 12));
        assert!(merged.kinds.is_empty() && merged.boundaries.is_empty() && merged.slowest.is_empty());
    }

    #[test]
    fn a_flood_of_threads_that_start_commits_takes_no_memory() {
        let mut merged = of(0..150);
        merged.merge(&of(150..5000));
        assert!(merged.others_commits.len() <= super::super::MOST_COMMITTERS + 1);
        assert_eq!(merged.others_commits.values().map(|(waits, _)| waits).sum::<u64>(), 5000);
    }
}
