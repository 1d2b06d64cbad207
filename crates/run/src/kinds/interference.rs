//! `storage interference`: the groups of writes with a condition and without it.

use std::borrow::Cow;

use super::{Number, ratio, storage};
use crate::figures::{Group, Labels};
use crate::storage::interference::{Beside, InterferenceResult, Measured, Pair};
use crate::test::{Recording, Test, Tested};

const NUMBERS: &[Number] = &[ratio("response.ratio"), ratio("device.ratio")];

pub(crate) const TEST: Test = Test {
    name: "interference",
    command: "storage interference",
    title: "Writes with background load",
    labels: &["beside", "writer", "durability", "size_bytes"],
    times: &["", "alone."],
    numbers: NUMBERS,
    layers: &["", "alone."],
};

impl InterferenceResult {
    /// The labels of a comparison; `None` if its writer is unknown.
    #[must_use]
    pub fn labels(&self, one: &Beside) -> Option<Labels> {
        let mut labels = storage::labels(self.writers.get(one.writer)?, one.size_bytes);
        labels.insert(0, ("beside", one.condition.to_string()));
        Some(labels)
    }
}

impl Tested for InterferenceResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let groups = self.comparisons.iter().filter_map(|one| {
            let mut group = Group::new(self.labels(one)?);
            group.ratio("response.ratio", one.response());
            if self.recorder.is_none() {
                // Events are more exact than the device's counters.
                group.ratio("device.ratio", one.compare(Measured::request_ns));
            }
            for (prefix, side) in [("", beside as fn(&Pair) -> &Measured), ("alone.", alone)] {
                let calls = one.pairs.iter().flat_map(|pair| &side(pair).calls);
                group.times(prefix, Cow::Owned(calls.map(|call| call.latency_ns()).collect()));
            }
            Some(group)
        });
        groups.collect()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn warnings(&self) -> Vec<String> {
        self.recording_ended.iter().chain(&self.ended).cloned().collect()
    }

    fn recording(&self) -> Recording {
        let recorded = self.recorder.is_some() || self.recording_ended.is_some();
        Recording::of(recorded, self.recording_ended.as_ref())
    }
}

fn alone(pair: &Pair) -> &Measured {
    &pair.alone
}

fn beside(pair: &Pair) -> &Measured {
    &pair.beside
}
