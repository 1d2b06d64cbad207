//! `storage observe`: the groups of other programs' writes, by process name, file and system call.
//! Process ids differ between runs, so writes that differ only in the process id are counted
//! together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use roundtrip_latency::Histogram;
use roundtrip_vocabulary::OTHERS;

use super::{Number, RATE, count, share, unseen, unseen_name};
use crate::figures::Group;
use crate::storage::observe::{ObserveWritesResult, WriteRow};
use crate::test::{Recording, Test, Tested};

const NUMBERS: &[Number] =
    &[RATE, count("missed"), share("missed.share"), count("failed"), count("throttled")];

pub(crate) const TEST: Test = Test {
    name: "observed_writes",
    command: "storage observe",
    title: "Observed writes",
    labels: &["process", "call", "file"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[""],
};

impl Tested for ObserveWritesResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut sums: BTreeMap<_, Vec<&WriteRow>> = BTreeMap::new();
        for row in &self.rows {
            let process = if row.stands_for > 0 { OTHERS } else { &row.process.name };
            sums.entry((process, &row.call, &row.file)).or_default().push(row);
        }
        let seconds = self.elapsed_ns as f64 / 1e9;
        let groups = sums.into_iter().map(|((process, call, file), rows)| {
            let labels = [("process", process.to_owned()), ("call", call.clone()), ("file", file.clone())];
            let mut group = Group::new(labels);
            let latency: Histogram = rows.iter().map(|row| &row.latency).collect();
            let sum = |of: fn(&WriteRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
            let calls = latency.count();
            if seconds > 0.0 {
                group.add("rate", calls as f64 / seconds, calls, None);
            }
            group.against(self.plan.deadline, sum(|row| row.missed), "", Cow::Owned(latency));
            group.add("failed", sum(|row| row.failed) as f64, calls, None);
            group.add("throttled", sum(|row| row.throttled) as f64, calls, None);
            let divided = || rows.iter().filter_map(|row| row.divided.as_ref());
            let calls = divided().map(|one| one.calls).sum::<u64>();
            let mut layers: BTreeMap<&str, u64> = BTreeMap::new();
            for (layer, time) in divided().flat_map(|one| &one.layers) {
                *layers.entry(layer).or_default() += time.sum_ns;
            }
            for (layer, ns) in layers {
                group.add(format!("{layer}.mean"), ns as f64 / calls.max(1) as f64, calls, None);
            }
            group
        });
        groups.collect()
    }

    fn plan(&self) -> String {
        format!("{:?} {:?} {:?}", self.plan.subject.anybody(), self.plan.file, self.plan.deadline)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = unseen(self.unseen.lost_events, "writes", &self.not_recorded);
        warnings.extend(unseen_name(&self.plan.subject, "writes", self.rows.is_empty()));
        warnings
    }

    fn recording(&self) -> Recording {
        Recording::of(true, self.not_recorded.as_ref())
    }

    fn observed(&self) -> bool {
        true
    }
}
