//! Threads that sleep in a read, and threads that a step wakes. The next step starts only when each
//! of them has ended its exchange or sleeps again. This file knows no commands.
//!
//! If one step wakes two threads of one process, the scheduler decides which thread takes which
//! work. The comparison must stop there. [`Sleepers::both_woke`] detects this.

use std::collections::BTreeMap;

use super::exchange::Outcome;
use crate::begun::Begun;

/// A process and one of its threads.
pub(super) type Place = (usize, usize);

/// The threads that sleep.
#[derive(Default)]
pub(super) struct Sleepers(BTreeMap<Place, Begun<Outcome>>);

/// How often each thread had slept, for processes of which both threads sleep.
pub(super) type Counts = BTreeMap<Place, u64>;

impl Sleepers {
    pub(super) fn add(&mut self, place: Place, begun: Begun<Outcome>) {
        self.0.insert(place, begun);
    }

    pub(super) fn has(&self, place: Place) -> bool {
        self.0.contains_key(&place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether threads of this process sleep.
    pub(super) fn any_of(&self, process: usize) -> bool {
        self.0.keys().any(|place| place.0 == process)
    }

    /// After an interruption: waits for all threads of a process.
    pub(super) fn end_all_of(&mut self, process: usize) -> Vec<(Place, Outcome)> {
        let places: Vec<Place> = self.0.keys().filter(|place| place.0 == process).copied().collect();
        let begun = places.into_iter().filter_map(|place| self.0.remove_entry(&place));
        begun.map(|(place, begun)| (place, begun.wait())).collect()
    }

    /// Waits until each has ended or sleeps, and takes out those that have ended.
    pub(super) fn ended(&mut self) -> Vec<(Place, Outcome)> {
        let mut ended = Vec::new();
        loop {
            let before = ended.len();
            self.0.retain(|&place, begun| match begun.end_or_sleep() {
                Some(outcome) => {
                    ended.push((place, outcome));
                    false
                }
                None => true,
            });
            // A thread that ended may have woken another one.
            if ended.len() == before {
                ended.sort_by_key(|(place, _)| *place);
                return ended;
            }
        }
    }

    /// The counts before a step, for [`Sleepers::both_woke`].
    pub(super) fn counts(&self) -> Counts {
        let pairs = self
            .0
            .iter()
            .filter(|((process, _), _)| self.0.keys().filter(|place| place.0 == *process).count() > 1);
        pairs.map(|(&place, begun)| (place, begun.times_slept())).collect()
    }

    /// Whether the step since `before` woke two threads of one process, or may have.
    pub(super) fn both_woke(&self, before: &Counts) -> bool {
        let mut woken = before.iter().filter_map(|(place, count)| {
            let sleeps_on = self.0.get(place).is_some_and(|begun| begun.times_slept() == *count);
            (!sleeps_on).then_some(place.0)
        });
        let mut last = None;
        woken.any(|process| last.replace(process) == Some(process))
    }
}
