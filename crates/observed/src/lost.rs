//! Finds the calls during which events were lost. Such a call may have ended unseen, and the end
//! that was recorded may be that of a later call.

use std::collections::VecDeque;

use roundtrip_tracefs::Loss;

/// The losses of a recording, on all CPUs: its threads may have run on any of them.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// The losses that [`Lost::within`] has not reached yet: begin and end in nanoseconds, in
    /// chronological order.
    ahead: VecDeque<(u64, u64)>,
    /// The latest end of the losses before them, in nanoseconds.
    until_ns: u64,
}

impl Lost {
    /// Adds losses, sorted by their begin. Ignores those without an end: they may be anywhere in
    /// the rest of the recording, so every later call would count as spanning one.
    pub(crate) fn add(&mut self, losses: &[Loss]) {
        let bounded = losses.iter().filter(|loss| loss.before_ns < u64::MAX);
        self.ahead.extend(bounded.map(|loss| (loss.after_ns, loss.before_ns)));
    }

    /// Whether events were lost while a call was in flight. The calls must come sorted by their
    /// end.
    pub(crate) fn within(&mut self, start_ns: u64, end_ns: u64) -> bool {
        while let Some(&(after_ns, before_ns)) = self.ahead.front()
            && after_ns < end_ns
        {
            self.until_ns = self.until_ns.max(before_ns);
            self.ahead.pop_front();
        }
        start_ns < self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_spans_the_losses_between_its_start_and_its_end_on_any_cpu() {
        let loss = |cpu, after_ns, before_ns| Loss { cpu, after_ns, before_ns, events: None, damaged: false };
        let mut lost = Lost::default();
        lost.add(&[loss(0, 0, 10), loss(1, 100, 200), loss(0, 150, 160), loss(1, 900, u64::MAX)]);
        for (start_ns, end_ns, expected) in [
            (9, 12, true),
            (10, 100, false),
            (20, 101, true),
            (150, 155, true),
            (100, 300, true),
            (199, 310, true),
            (200, 320, false),
            (850, 900, false),
            (950, 1000, false),
        ] {
            assert_eq!(lost.within(start_ns, end_ns), expected, "{start_ns} to {end_ns}");
        }
        // Those of the next round of a recording in progress.
        let mut lost = Lost::default();
        lost.add(&[]);
        assert!(!lost.within(1, 50));
        lost.add(&[loss(0, 60, 70)]);
        assert!(!lost.within(2, 60) && lost.within(3, 80));
    }
}
