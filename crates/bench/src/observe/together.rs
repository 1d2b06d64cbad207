//! Completed calls or writes that wait to be examined together: each time, earlier events are read
//! again, so fewer times cost less.

use crate::clock::now_ns;
use crate::recorder::HISTORY_NS;

/// How long the first of them waits, in nanoseconds.
const TOGETHER_NS: u64 = 400_000_000;

/// How many bytes of events may arrive meanwhile. Pages are kept only up to a limit.
const TOGETHER_BYTES: usize = 6 << 20;

/// What waits.
#[derive(Debug)]
pub(super) struct Together<T> {
    all: Vec<T>,
    /// When the first of them began, in nanoseconds.
    first_ns: Option<u64>,
    /// The bytes of events that have arrived since the last time.
    bytes: usize,
}

impl<T> Together<T> {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), first_ns: None, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds one that began at `start_ns`.
    pub(super) fn add(&mut self, start_ns: u64, one: T) {
        self.first_ns = Some(self.first_ns.map_or(start_ns, |first_ns| first_ns.min(start_ns)));
        self.all.push(one);
    }

    /// Notes the bytes of events of a round. Returns whether it is time to examine what waits.
    pub(super) fn is_due(&mut self, taken_bytes: usize) -> bool {
        self.bytes += taken_bytes;
        let waits_ns = self.first_ns.map_or(0, |first_ns| now_ns().saturating_sub(first_ns));
        waits_ns >= TOGETHER_NS || self.bytes >= TOGETHER_BYTES
    }

    /// Takes all that wait, with the instant from which on their events matter, in nanoseconds.
    pub(super) fn take(&mut self) -> Option<(u64, Vec<T>)> {
        self.bytes = 0;
        let first_ns = self.first_ns.take()?;
        Some((first_ns.saturating_sub(HISTORY_NS), std::mem::take(&mut self.all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_due_after_a_while_or_with_many_events_and_is_taken_once() {
        let mut together = Together::new();
        assert!(!together.is_due(1) && together.take().is_none());
        let now_ns = now_ns();
        together.add(now_ns + TOGETHER_NS, "later");
        together.add(now_ns + TOGETHER_NS - 1, "first");
        assert!(!together.is_due(TOGETHER_BYTES - 1) && together.is_due(1));
        let (from_ns, all) = together.take().unwrap();
        assert_eq!((from_ns, all), (now_ns + TOGETHER_NS - 1 - HISTORY_NS, vec!["later", "first"]));
        assert!(together.take().is_none() && together.len() == 0);
        together.add(now_ns.saturating_sub(TOGETHER_NS), "early");
        assert!(together.is_due(0));
    }
}
