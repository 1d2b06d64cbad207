//! The changes so far, from repeated readings of all conditions. Pure.

use std::collections::BTreeMap;

use roundtrip_run::environment::Change;
use roundtrip_sorting::SmallSort as _;

use super::Reading;

/// The most changes that are kept.
const MAX_CHANGES: usize = 100;

/// A condition, and the process it belongs to.
type Key = (String, u32);

/// The changes so far.
#[derive(Debug, Default)]
pub(super) struct Changes {
    first: BTreeMap<Key, String>,
    /// The index of the change that each condition is in.
    open: BTreeMap<Key, usize>,
    changes: Vec<Change>,
}

impl Changes {
    /// Whether any of these conditions is not as at the last reading.
    pub(super) fn differs(&self, readings: &[Reading]) -> bool {
        readings.iter().any(|Reading { what, pid, value }| {
            let key = (what.clone(), *pid);
            let open = self.open.get(&key).and_then(|&index| self.changes.get(index));
            let last = open.map(|change| &change.during).or_else(|| self.first.get(&key));
            last.is_some_and(|last| last != value)
        })
    }

    /// Whether this condition has been read before.
    pub(super) fn knows(&self, reading: &Reading) -> bool {
        self.first.contains_key(&(reading.what.clone(), reading.pid))
    }

    /// Whether this condition is not as it was at first.
    pub(super) fn is_open(&self, reading: &Reading) -> bool {
        self.open.contains_key(&(reading.what.clone(), reading.pid))
    }

    /// Adds readings made `at_ns` after the beginning of the run. A condition's first reading is
    /// what later ones are compared with. A condition that is not among the readings has not
    /// changed: its process may have ended.
    pub(super) fn add(&mut self, readings: Vec<Reading>, at_ns: u64) {
        for Reading { what, pid, value } in readings {
            let key = (what, pid);
            let Some(before) = self.first.get(&key) else {
                self.first.insert(key, value);
                continue;
            };
            let open = self.open.get(&key).and_then(|&index| self.changes.get_mut(index));
            match open {
                Some(change) if change.during == value => {}
                open => {
                    open.into_iter().for_each(|change| change.until_ns = Some(at_ns));
                    self.open.remove(&key);
                    if value != *before && self.changes.len() < MAX_CHANGES {
                        let (what, before) = (key.0.clone(), before.clone());
                        self.open.insert(key, self.changes.len());
                        let change = Change { what, before, during: value, from_ns: at_ns, until_ns: None };
                        self.changes.push(change);
                    }
                }
            }
        }
    }

    /// Adds a condition that differed during a whole span, both ends in nanoseconds since the
    /// beginning of the run. `values` are what it usually is, and what it was.
    pub(super) fn add_span(
        &mut self,
        what: &str,
        [before, during]: [&str; 2],
        [from_ns, until_ns]: [u64; 2],
    ) {
        let follows = |last: &&mut Change| last.what == what && last.until_ns == Some(from_ns);
        let last = self.changes.iter_mut().rev().find(follows).filter(|last| last.during == during);
        if let Some(last) = last {
            last.until_ns = Some(until_ns);
        } else if self.changes.len() < MAX_CHANGES {
            let [what, before, during] = [what, before, during].map(str::to_owned);
            self.changes.push(Change { what, before, during, from_ns, until_ns: Some(until_ns) });
        }
    }

    /// All changes, by time.
    pub(super) fn finish(mut self) -> Vec<Change> {
        self.changes.small_sort_by_key(|change| change.from_ns);
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(what: &str, value: &str) -> Reading {
        Reading { what: what.into(), pid: 0, value: value.into() }
    }

    fn times(changes: Changes) -> Vec<(String, u64, Option<u64>)> {
        changes.finish().into_iter().map(|change| (change.during, change.from_ns, change.until_ns)).collect()
    }

    #[test]
    fn what_changes_is_noted_with_its_time() {
        let mut changes = Changes::default();
        for (at_ns, online, governor) in [
            (0, "0-3", "performance"),
            (1, "0-3", "powersave"),
            (2, "0-3", "powersave"),
            (3, "0-2", "performance"),
            (4, "0-2", "schedutil"),
        ] {
            changes.add(vec![reading("online CPUs", online), reading("governor", governor)], at_ns);
        }
        let expected = [("powersave", 1, Some(3)), ("0-2", 3, None), ("schedutil", 4, None)];
        assert_eq!(times(changes), expected.map(|(during, from, until)| (during.to_owned(), from, until)));
    }

    #[test]
    fn what_does_not_change_or_disappears_is_not_noted() {
        let mut changes = Changes::default();
        changes.add(vec![reading("online CPUs", "0-3")], 0);
        assert!(!changes.differs(&[reading("online CPUs", "0-3"), reading("governor", "x")]));
        assert!(changes.differs(&[reading("online CPUs", "0-2")]));
        changes.add(vec![reading("online CPUs", "0-3")], 1);
        changes.add(vec![], 2);
        assert_eq!(times(changes), []);
    }

    #[test]
    fn a_later_process_with_the_same_role_is_another() {
        let mut changes = Changes::default();
        changes.add(vec![Reading { pid: 7, ..reading("CPUs of server", "0") }], 0);
        changes.add(vec![Reading { pid: 8, ..reading("CPUs of server", "1") }], 1);
        assert_eq!(times(changes), []);
    }

    #[test]
    fn spans_that_follow_each_other_are_one() {
        let mut changes = Changes::default();
        for span_ns in [[0, 1], [1, 2], [3, 4]] {
            changes.add_span("load", ["low", "high"], span_ns);
        }
        assert_eq!(times(changes), [("high".to_owned(), 0, Some(2)), ("high".to_owned(), 3, Some(4))]);
    }

    #[test]
    fn a_condition_that_changes_forever_fills_no_memory() {
        let mut changes = Changes::default();
        for at_ns in 0..10_000 {
            changes.add(vec![reading("governor", &at_ns.to_string())], at_ns);
            changes.add_span("load", ["low", "high"], [2 * at_ns, 2 * at_ns + 1]);
        }
        assert_eq!(changes.finish().len(), MAX_CHANGES);
    }
}
