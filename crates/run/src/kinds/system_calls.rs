//! `storage syscalls`: the groups of other programs' system calls, by name.

use std::borrow::Cow;

use super::{Number, RATE, count, share, unseen, unseen_name};
use crate::figures::Group;
use crate::storage::system_calls::SystemCallsResult;
use crate::test::{Recording, Test, Tested};

const NUMBERS: &[Number] = &[RATE, count("failed"), share("time.share")];

pub(crate) const TEST: Test = Test {
    name: "system_calls",
    command: "storage syscalls",
    title: "System calls",
    labels: &["call"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for SystemCallsResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let (seconds, sum_ns) = (self.elapsed_ns as f64 / 1e9, self.sum_ns());
        let groups = self.rows.iter().map(|row| {
            let mut group = Group::new([("call", row.call.clone())]);
            let calls = row.latency.count();
            if seconds > 0.0 {
                group.add("rate", calls as f64 / seconds, calls, None);
            }
            group.add("failed", row.failed as f64, calls, None);
            if sum_ns > 0 {
                let share = 100.0 * row.latency.sum_ns() as f64 / sum_ns as f64;
                group.add("time.share", share, calls, None);
            }
            group.times("", Cow::Borrowed(&row.latency));
            group
        });
        groups.collect()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan.subject.anybody())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = unseen(self.unseen.lost_events, "system calls", &self.not_recorded);
        warnings.extend(unseen_name(&self.plan.subject, "system calls", self.rows.is_empty()));
        warnings
    }

    fn recording(&self) -> Recording {
        Recording::of(true, self.not_recorded.as_ref())
    }

    fn observed(&self) -> bool {
        true
    }
}
