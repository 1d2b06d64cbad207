//! Combines many calls: the time in each layer, the slowest calls in full, and how reliable the
//! figures are. Must not know how they are shown.

mod merge;

use std::collections::{BTreeMap, BTreeSet};

use roundtrip_latency::{Histogram, resolvable};
use serde::Serialize;

use super::host::HostShares;
use crate::reasons::{Across, ReasonKind, Reasons};

use super::{
    Begin, Doubt, End, InterruptUse, Interruptions, Layer, Layers, Missing, OthersCommit, Piece, Request,
    Write,
};

/// If more than this percentage of a call is unexplained, the whole call counts as unexplained.
const UNEXPLAINED_PERCENT: u64 = 1;

/// The least number of calls that show what is usual.
const MANY: u64 = 10;

/// The most threads whose commits are told apart. What more of them started is taken together.
const MOST_COMMITTERS: usize = 200;

/// The time of many calls in one layer, or for one kind of reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerTimes {
    /// The total over all calls, in nanoseconds.
    pub sum_ns: u64,
    /// The time of each call that spent some time there.
    pub calls: Histogram,
}

impl Default for LayerTimes {
    /// Without calls. There are many of these for each row of a table, so they start small.
    fn default() -> Self {
        Self { sum_ns: 0, calls: Histogram::growing() }
    }
}

impl LayerTimes {
    /// Adds one call.
    fn add(&mut self, ns: u64) {
        self.sum_ns += ns;
        self.calls.record(ns);
    }

    /// Adds other calls.
    fn merge(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        self.calls.merge(&other.calls);
    }
}

/// One of the slowest calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCall {
    /// The call.
    pub write: Write,
    /// Where its time was spent.
    pub layers: Layers,
}

/// Many calls of one kind, divided into layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// The number of calls.
    pub calls: u64,
    /// Their total duration, in nanoseconds.
    pub sum_ns: u64,
    /// The time by layer. Layers without any time are missing.
    pub layers: BTreeMap<Layer, LayerTimes>,
    /// The time by kind of reason. Kinds without any time are missing.
    pub kinds: BTreeMap<ReasonKind, LayerTimes>,
    /// The time by reason, and by the name and class of the process that names it.
    pub reasons: Across,
    /// How long each call ran and was being woken: what undisturbed calls do, too.
    usual: LayerTimes,
    /// How much of each layer a thread was runnable while another had its CPU, in nanoseconds.
    pub behind_ns: BTreeMap<Layer, u64>,
    /// Requests to devices with nothing below them, not counting flushes.
    pub requests: u64,
    /// Flushes of such devices.
    pub flushes: u64,
    /// Reads from such devices. A write that changes part of a block that is not in memory must
    /// read the block first.
    pub reads: u64,
    /// The number of requests by the events that start and end their time at the controller.
    pub boundaries: BTreeMap<(Begin, End), u64>,
    /// Interrupts of their controllers.
    pub controller_interrupts: InterruptUse,
    /// Interrupts that CPUs sent each other.
    pub cpu_interrupts: InterruptUse,
    /// The number of requests by the CPU that handled the controller's interrupt.
    pub interrupt_cpus: BTreeMap<u32, u64>,
    /// Requests that completed on another CPU than the one that handled the interrupt.
    pub completed_elsewhere: u64,
    /// Calls with lost events. They are included, but nothing about them is certain.
    pub lost_calls: u64,
    /// Calls that the recording does not cover as a whole, although no event was lost. The same
    /// applies to them.
    pub uncovered_calls: u64,
    /// The least number of context switches that the kernel did not record during these calls,
    /// although no event was lost.
    pub unrecorded_switches: u64,
    /// Calls that may contain such a switch.
    pub unrecorded_switch_calls: u64,
    /// How much time of these calls is unexplained because of such switches, in nanoseconds.
    pub unexplained_for_switches_ns: u64,
    /// Calls of which more than one percent is unexplained.
    pub unexplained_calls: u64,
    /// Calls in which other tasks used a CPU while the application or a helper was runnable.
    pub disturbed_calls: u64,
    /// The duration of each call without its device.
    pub host: LayerTimes,
    /// The host's share of each call's own time, which excludes waiting behind other tasks.
    pub host_shares: HostShares,
    /// Commits of other threads that these calls waited for, by the thread that started the commit
    /// (id and name; 0 if unknown, or if it is one of too many): the number of waits, and their
    /// total duration in nanoseconds.
    pub others_commits: BTreeMap<(u32, String), (u64, u64)>,
    /// Why the figures are uncertain: what the recordings lack.
    pub doubts: BTreeSet<Doubt>,
    /// The slowest calls, slowest first.
    pub slowest: Vec<SlowCall>,
    /// How many of the slowest calls to keep.
    keep: usize,
    /// Whether it lacks what takes memory for each call or kind of reason.
    only_totals: bool,
}

impl Breakdown {
    /// An empty breakdown that will keep the `keep` slowest calls in full.
    #[must_use]
    pub fn keeping(keep: usize) -> Self {
        Self { keep, ..Self::default() }
    }

    /// An empty breakdown whose `kinds`, `reasons`, `boundaries`, `host_shares` and `slowest` stay
    /// empty. Its memory does not grow with the number of calls.
    #[must_use]
    pub fn only_totals() -> Self {
        Self { only_totals: true, ..Self::default() }
    }

    /// Adds a call.
    pub fn add(&mut self, write: Write, layers: Layers) {
        let duration_ns = write.end_ns - write.start_ns;
        self.calls += 1;
        self.sum_ns += duration_ns;
        let mut totals: BTreeMap<Layer, u64> = BTreeMap::new();
        for &Piece { begin_ns, end_ns, layer } in &layers.pieces {
            *totals.entry(layer).or_default() += end_ns - begin_ns;
        }
        let had = |layer: Layer| totals.get(&layer).copied().unwrap_or(0);
        self.lost_calls += u64::from(layers.missing == Some(Missing::Lost));
        self.uncovered_calls += u64::from(layers.missing == Some(Missing::OutsideRecording));
        self.unrecorded_switch_calls += u64::from(layers.unrecorded_switches > 0);
        self.unexplained_for_switches_ns += layers.unexplained_for_switches_ns;
        self.unexplained_calls +=
            u64::from(had(Layer::Unexplained) * 100 > duration_ns * UNEXPLAINED_PERCENT);
        self.disturbed_calls +=
            u64::from(layers.behind_others_ns + had(Layer::Preempted) + had(Layer::Stolen) > 0);
        if layers.missing.is_none() && !self.only_totals {
            self.host_shares.add(
                duration_ns,
                had(Layer::Device),
                had(Layer::Unexplained),
                layers.behind_others_ns,
            );
        }
        for (&layer, &ns) in &totals {
            self.layers.entry(layer).or_default().add(ns);
        }
        self.add_reasons(&layers);
        self.host.add(duration_ns - had(Layer::Device));
        self.count(&layers);
        for OthersCommit { by, comm, waited_ns } in &layers.others_commits {
            self.waited_for((by.unwrap_or(0), comm), (1, *waited_ns));
        }
        let place =
            self.slowest.partition_point(|slow| slow.write.end_ns - slow.write.start_ns >= duration_ns);
        if place < self.keep {
            self.slowest.insert(place, SlowCall { write, layers });
            self.slowest.truncate(self.keep);
        }
    }

    /// Counts waits for commits that a thread started: their number, and their total time in
    /// nanoseconds.
    fn waited_for(&mut self, (tid, comm): (u32, &str), (waits, waited_ns): (u64, u64)) {
        let mut by = (tid, comm.to_owned());
        if self.others_commits.len() >= MOST_COMMITTERS && !self.others_commits.contains_key(&by) {
            by = (0, roundtrip_vocabulary::OTHERS.to_owned());
        }
        let sum = self.others_commits.entry(by).or_default();
        *sum = (sum.0 + waits, sum.1 + waited_ns);
    }

    fn add_reasons(&mut self, layers: &Layers) {
        let reasons = Reasons::of(&layers.reasons, 0);
        if !self.only_totals {
            for of in &reasons.kinds {
                self.kinds.entry(of.kind).or_default().add(of.sum_ns);
            }
            self.reasons.add(&reasons);
        }
        let usual = reasons.kinds.iter().filter(|of| of.kind.is_usual());
        self.usual.add(usual.map(|of| of.sum_ns).sum());
        for layer in Layer::ALL {
            let ns = layers.behind_ns(layer);
            if ns > 0 {
                *self.behind_ns.entry(layer).or_default() += ns;
            }
        }
    }

    fn count(&mut self, layers: &Layers) {
        let leaves = layers.requests.iter().filter(|request| request.leaf);
        for Request { flush, write, interrupt_cpu, completed_cpu, begin, end, .. } in leaves {
            if !self.only_totals {
                *self.boundaries.entry((*begin, *end)).or_default() += 1;
            }
            *(if *flush { &mut self.flushes } else { &mut self.requests }) += 1;
            self.reads += u64::from(!write && !flush);
            if let Some(cpu) = interrupt_cpu {
                *self.interrupt_cpus.entry(*cpu).or_default() += 1;
                self.completed_elsewhere += u64::from(cpu != completed_cpu);
            }
        }
        let Interruptions { controller, from_cpus, .. } = &layers.interruptions;
        controller.values().for_each(|of| self.controller_interrupts.add(*of));
        from_cpus.values().for_each(|of| self.cpu_interrupts.add(*of));
    }

    /// How long a call usually runs and is being woken, in nanoseconds: the median; 0 if there are
    /// too few calls to tell.
    #[must_use]
    pub fn usual_ns(&self) -> u64 {
        self.usual.calls.percentile_ns(50.0).filter(|_| self.calls >= MANY).unwrap_or(0)
    }

    /// Tells the slowest calls what is usual among all.
    pub fn tell_usual(&mut self) {
        let usual_ns = self.usual_ns();
        self.slowest.iter_mut().for_each(|slow| slow.layers.usual_ns = usual_ns);
    }

    /// The mean time per call in a layer, in nanoseconds; 0 without calls.
    #[must_use]
    pub fn mean_ns(&self, layer: Layer) -> f64 {
        self.mean_of(self.layers.get(&layer))
    }

    /// A layer's share of the total time, 0 to 1.
    #[must_use]
    pub fn share(&self, layer: Layer) -> f64 {
        self.share_of(self.layers.get(&layer))
    }

    /// The mean time per call with a kind of reason, in nanoseconds; 0 without calls.
    #[must_use]
    pub fn mean_of_kind_ns(&self, kind: ReasonKind) -> f64 {
        self.mean_of(self.kinds.get(&kind))
    }

    /// The share of the total time with a kind of reason, 0 to 1.
    #[must_use]
    pub fn share_of_kind(&self, kind: ReasonKind) -> f64 {
        self.share_of(self.kinds.get(&kind))
    }

    fn mean_of(&self, times: Option<&LayerTimes>) -> f64 {
        let sum_ns = times.map_or(0, |times| times.sum_ns);
        if self.calls == 0 { 0.0 } else { sum_ns as f64 / self.calls as f64 }
    }

    fn share_of(&self, times: Option<&LayerTimes>) -> f64 {
        let sum_ns = times.map_or(0, |times| times.sum_ns);
        if self.sum_ns == 0 { 0.0 } else { sum_ns as f64 / self.sum_ns as f64 }
    }

    /// The host's share, 0 to 1: everything but the device.
    #[must_use]
    pub fn host_share(&self) -> f64 {
        1.0 - self.share(Layer::Device)
    }

    /// Calls that spent no time in a layer.
    #[must_use]
    pub fn calls_without(&self, layer: Layer) -> u64 {
        self.calls - self.layers.get(&layer).map_or(0, |times| times.calls.count())
    }

    /// A percentile of the time that calls spent in a layer, in nanoseconds. Calls that spent no
    /// time in it count as 0. `None` if there are too few calls ([`resolvable`]).
    #[must_use]
    pub fn percentile_ns(&self, layer: Layer, percent: f64) -> Option<u64> {
        // The rank among the calls with time in the layer. They follow the calls without any.
        let rank = (percent / 100.0 * self.calls as f64 * (1.0 - 1e-12)).ceil() as u64;
        let rank = rank.saturating_sub(self.calls_without(layer));
        let times = self.layers.get(&layer).and_then(|times| times.calls.ranked_ns(rank));
        resolvable(self.calls, percent).then(|| times.unwrap_or(0))
    }

    /// The longest time that a call spent in a layer, in nanoseconds; 0 without any.
    #[must_use]
    pub fn max_ns(&self, layer: Layer) -> u64 {
        self.layers.get(&layer).and_then(|times| times.calls.max_ns()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(pieces: &[(u64, u64, Layer)], requests: Vec<Request>) -> Layers {
        let pieces = pieces.iter().map(|&(begin_ns, end_ns, layer)| Piece { begin_ns, end_ns, layer });
        Layers { pieces: pieces.collect(), requests, ..Layers::default() }
    }

    #[test]
    fn shares_means_and_percentiles_are_over_all_calls() {
        let mut breakdown = Breakdown::keeping(1);
        for _ in 0..3 {
            let write = Write { start_ns: 0, end_ns: 100, tid: 1 };
            breakdown.add(write, layers(&[(0, 40, Layer::Fs), (40, 100, Layer::Device)], Vec::new()));
        }
        let request = Request { leaf: true, completed_cpu: 1, interrupt_cpu: Some(0), ..Request::default() };
        let slow = Write { start_ns: 0, end_ns: 500, tid: 1 };
        breakdown
            .add(slow, layers(&[(0, 490, Layer::Device), (490, 500, Layer::Unexplained)], vec![request]));
        assert_eq!((breakdown.calls, breakdown.sum_ns), (4, 800));
        assert_eq!((breakdown.mean_ns(Layer::Fs), breakdown.share(Layer::Device)), (30.0, 670.0 / 800.0));
        assert_eq!(breakdown.percentile_ns(Layer::Fs, 25.0), Some(0));
        assert_eq!((breakdown.percentile_ns(Layer::Fs, 100.0), breakdown.max_ns(Layer::Fs)), (None, 40));
        assert_eq!((breakdown.requests, breakdown.flushes, breakdown.completed_elsewhere), (1, 0, 1));
        assert_eq!((breakdown.unexplained_calls, breakdown.disturbed_calls), (1, 0));
        assert_eq!((breakdown.host.sum_ns, breakdown.host.calls.max_ns()), (130, Some(40)));
        let woken = layers(&[(0, 100, Layer::Wake)], Vec::new());
        breakdown.add(Write { start_ns: 0, end_ns: 100, tid: 1 }, woken.clone());
        assert_eq!(breakdown.disturbed_calls, 0);
        breakdown.add(Write { start_ns: 0, end_ns: 100, tid: 1 }, Layers { behind_others_ns: 1, ..woken });
        assert_eq!(breakdown.disturbed_calls, 1);
        assert_eq!(breakdown.slowest.iter().map(|slow| slow.write).collect::<Vec<_>>(), [slow]);
    }
}
