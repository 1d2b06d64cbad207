//! Adds up stretches by kind of reason, then by process, then by thread. Sums are exact at each
//! level.

use roundtrip_sorting::SmallSort as _;

use super::{Process, Reason, ReasonKind, Stretch, Why};
use crate::explanation::Thread;

/// All reasons of an operation, the one that cost most time first. Unknown time is one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// By kind. Those with the same sum are in the order of time.
    pub kinds: Vec<OfKind>,
}

/// All time of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfKind {
    /// The kind.
    pub kind: ReasonKind,
    /// All of its time, in nanoseconds.
    pub sum_ns: u64,
    /// The time that is lost to it: without the usual share, in nanoseconds.
    pub lost_ns: u64,
    /// When it began first.
    pub first_ns: u64,
    /// When it ended last.
    pub last_ns: u64,
    /// By process, the largest first.
    pub processes: Vec<OfProcess>,
}

/// All time of one kind and one process. Reasons that no process names are told apart by what names
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfProcess {
    /// The process.
    pub process: Option<Process>,
    /// All of its time, in nanoseconds.
    pub sum_ns: u64,
    /// The time that is lost to it: without the usual share, in nanoseconds.
    pub lost_ns: u64,
    /// By thread, the largest first.
    pub threads: Vec<OfThread>,
}

/// All time of one kind and one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfThread {
    /// The thread.
    pub thread: Option<Thread>,
    /// All of its time, in nanoseconds.
    pub sum_ns: u64,
    /// The different circumstances, and the time of each, the largest first.
    pub why: Vec<(Why, u64)>,
}

impl Reasons {
    /// Adds up stretches. `usual_ns` is what an undisturbed operation takes; it is taken off own
    /// work and wakeups.
    #[must_use]
    pub fn of(stretches: &[Stretch], usual_ns: u64) -> Self {
        let mut kinds: Vec<OfKind> = Vec::new();
        for stretch in stretches.iter().filter(|stretch| stretch.begin_ns < stretch.end_ns) {
            let kind = stretch.why.reason.kind();
            let index = kinds.iter().position(|of| of.kind == kind).unwrap_or_else(|| {
                let (first_ns, last_ns, processes) = (stretch.begin_ns, stretch.end_ns, Vec::new());
                kinds.push(OfKind { kind, sum_ns: 0, lost_ns: 0, first_ns, last_ns, processes });
                kinds.len() - 1
            });
            kinds[index].add(stretch);
        }
        let mut reasons = Self { kinds };
        reasons.take_off(usual_ns);
        reasons
    }

    /// All time, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.kinds.iter().map(|of| of.sum_ns).sum()
    }

    /// The delay: all time without the usual share, in nanoseconds.
    #[must_use]
    pub fn delay_ns(&self) -> u64 {
        self.kinds.iter().map(|of| of.lost_ns).sum()
    }

    /// The time that no event shows, in nanoseconds.
    #[must_use]
    pub fn unknown_ns(&self) -> u64 {
        self.of_kind(ReasonKind::Unknown).map_or(0, |of| of.lost_ns)
    }

    /// All time of a kind.
    #[must_use]
    pub fn of_kind(&self, kind: ReasonKind) -> Option<&OfKind> {
        self.kinds.iter().find(|of| of.kind == kind)
    }

    /// The known reasons that cost time, the largest first.
    pub fn known(&self) -> impl Iterator<Item = &OfKind> {
        self.kinds.iter().filter(|of| of.kind != ReasonKind::Unknown && of.lost_ns > 0)
    }

    /// Takes the usual time off the kinds that an undisturbed operation has, each in proportion,
    /// and puts all in order.
    fn take_off(&mut self, usual_ns: u64) {
        // The usual work is done first. What a low frequency adds to it counts only what remains.
        let is_slow = |kind: ReasonKind| usize::from(kind == ReasonKind::SlowCpu);
        let mut whole_ns = [0_u64; 2];
        for of in self.kinds.iter().filter(|of| of.kind.is_usual()) {
            whole_ns[is_slow(of.kind)] += of.sum_ns;
        }
        let rest_ns = usual_ns.saturating_sub(whole_ns[0]);
        let left_ns = [whole_ns[0].saturating_sub(usual_ns), whole_ns[1].saturating_sub(rest_ns)];
        let mut before_ns = [0; 2];
        for of in &mut self.kinds {
            of.lost_ns = if of.kind.is_usual() {
                let slow = is_slow(of.kind);
                let lost_ns = share(before_ns[slow], of.sum_ns, whole_ns[slow], left_ns[slow]);
                before_ns[slow] += of.sum_ns;
                lost_ns
            } else {
                of.sum_ns
            };
            of.order();
        }
        self.kinds.small_sort_by_key(|of| std::cmp::Reverse(of.lost_ns));
    }
}

/// The part of `left_ns` that falls to `own_ns`, which follow `before_ns` of `whole_ns`. The parts
/// of all add up to `left_ns` exactly.
fn share(before_ns: u64, own_ns: u64, whole_ns: u64, left_ns: u64) -> u64 {
    let until =
        |ns: u64| (u128::from(ns) * u128::from(left_ns)).checked_div(u128::from(whole_ns)).unwrap_or(0);
    (until(before_ns + own_ns) - until(before_ns)) as u64
}

impl OfKind {
    fn add(&mut self, stretch: &Stretch) {
        let Stretch { why, begin_ns, end_ns } = stretch;
        let ns = stretch.duration_ns();
        self.sum_ns += ns;
        self.first_ns = self.first_ns.min(*begin_ns);
        self.last_ns = self.last_ns.max(*end_ns);
        let same = |of: &OfProcess| match (&of.process, &why.process) {
            (Some(one), Some(other)) => one == other,
            (None, None) => of.reason() == &why.reason,
            _ => false,
        };
        let index = self.processes.iter().position(same).unwrap_or_else(|| {
            let process = why.process.clone();
            self.processes.push(OfProcess { process, sum_ns: 0, lost_ns: 0, threads: Vec::new() });
            self.processes.len() - 1
        });
        self.processes[index].add(why, ns);
    }

    fn order(&mut self) {
        let (sum_ns, lost_ns) = (self.sum_ns, self.lost_ns);
        let mut before_ns = 0;
        for of in &mut self.processes {
            of.lost_ns = share(before_ns, of.sum_ns, sum_ns, lost_ns);
            before_ns += of.sum_ns;
            for thread in &mut of.threads {
                thread.why.small_sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
            }
            of.threads.small_sort_by_key(|thread| std::cmp::Reverse(thread.sum_ns));
        }
        self.processes.small_sort_by_key(|of| std::cmp::Reverse(of.sum_ns));
    }

    /// All circumstances with their time, in no particular order.
    pub fn why(&self) -> impl Iterator<Item = &(Why, u64)> {
        self.processes.iter().flat_map(OfProcess::why)
    }

    /// The value of `detail` that most of the time has. Circumstances for which `detail` returns
    /// `None` do not count.
    pub fn most<T: PartialEq>(&self, detail: impl Fn(&Why) -> Option<T>) -> Option<T> {
        most(self.why(), detail)
    }
}

impl OfProcess {
    fn add(&mut self, why: &Why, ns: u64) {
        self.sum_ns += ns;
        let tid = |thread: &Option<Thread>| thread.as_ref().map(|thread| thread.tid);
        let index = self.threads.iter().position(|of| tid(&of.thread) == tid(&why.thread));
        let index = index.unwrap_or_else(|| {
            self.threads.push(OfThread { thread: why.thread.clone(), sum_ns: 0, why: Vec::new() });
            self.threads.len() - 1
        });
        let of = &mut self.threads[index];
        of.sum_ns += ns;
        match of.why.iter_mut().find(|(known, _)| known == why) {
            Some((_, sum_ns)) => *sum_ns += ns,
            None => of.why.push((why.clone(), ns)),
        }
    }

    /// All circumstances with their time, in no particular order.
    pub fn why(&self) -> impl Iterator<Item = &(Why, u64)> {
        self.threads.iter().flat_map(|of| &of.why)
    }

    /// Like [`OfKind::most`].
    pub fn most<T: PartialEq>(&self, detail: impl Fn(&Why) -> Option<T>) -> Option<T> {
        most(self.why(), detail)
    }

    /// The reason of most of its time.
    ///
    /// # Panics
    /// Never: a process is in the tree because of a stretch.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        most(self.why(), |why| Some(&why.reason)).expect("a process is there because of a stretch")
    }
}

fn most<'a, T: PartialEq>(
    all: impl Iterator<Item = &'a (Why, u64)>,
    detail: impl Fn(&'a Why) -> Option<T>,
) -> Option<T> {
    let mut sums: Vec<(T, u64)> = Vec::new();
    for (why, ns) in all {
        let Some(value) = detail(why) else { continue };
        match sums.iter_mut().find(|(known, _)| *known == value) {
            Some((_, sum_ns)) => *sum_ns += ns,
            None => sums.push((value, *ns)),
        }
    }
    // Of equal ones, the first.
    sums.into_iter().rev().max_by_key(|(_, sum_ns)| *sum_ns).map(|(value, _)| value)
}
