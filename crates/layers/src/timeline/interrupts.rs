//! The interrupts of one CPU, flattened so that at each instant only the innermost one counts. Must
//! not know whose time they took.

use roundtrip_tracefs::{Body, Name, Names};

use super::within::Within;
use crate::explanation::Softirq;
use crate::kernel_names;

/// An interrupt as named by its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Device { irq: u32, name: Name },
    Softirq(Softirq),
    Vector(Name),
}

impl Source {
    /// Whether one CPU sent it to another.
    pub(crate) fn is_from_cpus(self, names: &Names) -> bool {
        matches!(self, Self::Vector(name) if kernel_names::is_from_cpus(names.text(name)))
    }

    /// Whether a timer raised it.
    pub(crate) fn is_timer(self, names: &Names) -> bool {
        match self {
            Self::Softirq(softirq) => softirq.is_timer(),
            Self::Vector(name) | Self::Device { name, .. } => kernel_names::is_any_timer(names.text(name)),
        }
    }
}

/// A stretch in which one interrupt used the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) source: Source,
}

/// All interrupts of a CPU.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// In chronological order, without overlap.
    stretches: Vec<Stretch>,
    /// Interrupts that have started but not ended.
    open: Vec<Source>,
    /// Stretches since the outermost interrupt started. They are kept if it ends properly.
    pending: Vec<Stretch>,
    mark_ns: u64,
    /// Whether an interrupt may have started without an event for it.
    doubtful: bool,
}

impl Interrupts {
    /// The innermost current interrupt.
    pub(crate) fn current(&self) -> Option<Source> {
        self.open.last().copied()
    }

    /// Whether it is certain that no interrupt is in progress.
    pub(crate) fn is_outside(&self) -> bool {
        self.open.is_empty() && !self.doubtful
    }

    pub(crate) fn observe(&mut self, time_ns: u64, body: &Body) {
        match *body {
            Body::IrqEntry { irq, name } => self.enter(time_ns, Source::Device { irq, name }),
            Body::SoftirqEntry { vector } => self.enter(time_ns, Source::Softirq(Softirq(vector))),
            Body::VectorEntry { kind } => self.enter(time_ns, Source::Vector(kind)),
            Body::IpiEntry { reason } => self.enter(time_ns, Source::Vector(reason)),
            Body::IrqExit { irq, .. } => {
                self.leave(time_ns, |source| matches!(source, Source::Device { irq: own, .. } if own == irq));
            }
            Body::SoftirqExit { vector } => {
                self.leave(time_ns, |source| source == Source::Softirq(Softirq(vector)));
            }
            Body::VectorExit { kind } => self.leave(time_ns, |source| source == Source::Vector(kind)),
            Body::IpiExit { reason } => self.leave(time_ns, |source| source == Source::Vector(reason)),
            // There are no context switches within an interrupt. So if one is open, its end was
            // lost. (On PREEMPT_RT, softirqs run in threads, and appear as such.)
            Body::Switch { .. } => {
                self.forget();
                self.doubtful = false;
            }
            Body::SysEnter { .. } | Body::SysExit { .. } => self.doubtful = false,
            _ => {}
        }
    }

    /// Drops open interrupts, because whether they continue is unknown.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.pending.clear();
        self.doubtful = true;
    }

    fn enter(&mut self, time_ns: u64, source: Source) {
        self.close(time_ns);
        self.open.push(source);
    }

    fn leave(&mut self, time_ns: u64, is: impl Fn(Source) -> bool) {
        match self.open.last() {
            Some(&last) if is(last) => {
                self.close(time_ns);
                self.open.pop();
                if self.open.is_empty() {
                    self.stretches.append(&mut self.pending);
                }
            }
            // Its own start, or the end of an inner interrupt, was not recorded.
            _ => self.forget(),
        }
    }

    fn close(&mut self, time_ns: u64) {
        if let Some(source) = self.current()
            && self.mark_ns < time_ns
        {
            self.pending.push(Stretch { begin_ns: self.mark_ns, end_ns: time_ns, source });
        }
        self.mark_ns = time_ns;
    }

    /// Drops what questions about these stretches do not need.
    pub(super) fn keep_within(&mut self, within: &Within) {
        within.keep_final(&mut self.stretches, |stretch| stretch.begin_ns);
    }

    /// The interrupts that overlap a stretch of time.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> &[Stretch] {
        let first = self.stretches.partition_point(|stretch| stretch.end_ns <= from_ns);
        let after = self.stretches.partition_point(|stretch| stretch.begin_ns < to_ns);
        &self.stretches[first.min(after)..after]
    }

    /// Whether the interrupt that the CPU handles at an instant may be the one that it handled
    /// earlier. `false` if both are recorded and differ.
    pub(crate) fn may_be_one(&self, earlier_ns: u64, time_ns: u64) -> bool {
        let at = |time_ns: u64| self.within(time_ns, time_ns.saturating_add(1)).first();
        at(time_ns).is_none_or(|now| {
            let then = at(earlier_ns).is_some_and(|then| then.source == now.source);
            then && self.entered_before(earlier_ns) == self.entered_before(time_ns)
        })
    }

    /// When the CPU entered the interrupt that it handles at an instant: the outermost one, if they
    /// are nested. `None` outside interrupts.
    pub(crate) fn entered_before(&self, time_ns: u64) -> Option<u64> {
        let after = self.stretches.partition_point(|stretch| stretch.begin_ns <= time_ns);
        let mut earlier = self.stretches[..after].iter().rev();
        let mut begin_ns = earlier.next().filter(|stretch| time_ns < stretch.end_ns)?.begin_ns;
        for stretch in earlier {
            if stretch.end_ns != begin_ns {
                break;
            }
            begin_ns = stretch.begin_ns;
        }
        Some(begin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(events: &[(u64, Body)]) -> Vec<(u64, u64, Source)> {
        let mut interrupts = Interrupts::default();
        events.iter().for_each(|(time_ns, body)| interrupts.observe(*time_ns, body));
        let stretches = interrupts.within(0, u64::MAX).iter();
        stretches.map(|stretch| (stretch.begin_ns, stretch.end_ns, stretch.source)).collect()
    }

    #[test]
    fn the_innermost_interrupt_has_the_time() {
        let kind = Name(4);
        let events = [
            (10, Body::SoftirqEntry { vector: 3 }),
            (15, Body::VectorEntry { kind }),
            (18, Body::VectorExit { kind }),
            (30, Body::SoftirqExit { vector: 3 }),
        ];
        let softirq = Source::Softirq(Softirq(3));
        assert_eq!(observed(&events), [(10, 15, softirq), (15, 18, Source::Vector(kind)), (18, 30, softirq)]);
    }

    #[test]
    fn an_interrupt_is_entered_when_the_outermost_one_begins() {
        let kind = Name(4);
        let events = [
            (5, Body::SoftirqEntry { vector: 1 }),
            (9, Body::SoftirqExit { vector: 1 }),
            (10, Body::SoftirqEntry { vector: 3 }),
            (15, Body::VectorEntry { kind }),
            (18, Body::VectorExit { kind }),
            (30, Body::SoftirqExit { vector: 3 }),
        ];
        let mut interrupts = Interrupts::default();
        events.iter().for_each(|(time_ns, body)| interrupts.observe(*time_ns, body));
        let entered = [4, 5, 9, 10, 16, 29, 30].map(|time_ns| interrupts.entered_before(time_ns));
        assert_eq!(entered, [None, Some(5), None, Some(10), Some(10), Some(10), None]);
        // Around the inner interrupt it is still the outer one.
        let one = [(11, 29), (5, 8), (11, 16), (8, 12), (3, 12)]
            .map(|(earlier_ns, time_ns)| interrupts.may_be_one(earlier_ns, time_ns));
        assert_eq!(one, [true, true, false, false, false]);
        assert!(interrupts.may_be_one(29, 31), "no interrupt is recorded");
    }

    #[test]
    fn an_interrupt_without_start_or_end_is_left_out() {
        let switch = Body::Switch {
            prev: roundtrip_tracefs::ThreadRef::default(),
            prev_state: roundtrip_tracefs::TaskState(0),
            next: roundtrip_tracefs::ThreadRef::default(),
        };
        let events = [
            (10, Body::SoftirqExit { vector: 3 }),
            (20, Body::IrqEntry { irq: 9, name: Name(1) }),
            (25, switch),
            (30, Body::IrqExit { irq: 9, handled: true }),
        ];
        assert_eq!(observed(&events), []);
    }
}
