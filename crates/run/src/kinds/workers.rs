//! `ipc workers`: the group and merging of the calls of all workers together.

use std::borrow::Cow;

use super::{Number, RATE, count};
use crate::error::Result;
use crate::figures::{Group, Limit};
use crate::ipc::Backend;
use crate::ipc::workers::{Above, WorkersResult};
use crate::test::{Test, Tested, same_plan};

const NUMBERS: &[Number] = &[RATE, count("above")];

pub(crate) const TEST: Test = Test {
    name: "workers",
    command: "ipc workers",
    title: "Many callers",
    labels: &["stack", "workers", "size_bytes"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for WorkersResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut group = Group::new([
            ("stack", self.plan.stack.to_string()),
            ("workers", self.plan.workers.to_string()),
            ("size_bytes", self.plan.size_bytes.to_string()),
        ]);
        let calls = self.latency.count();
        group.add("rate", self.iterations_per_s, calls, None);
        group.times("", Cow::Borrowed(&self.latency));
        if let Some(Above { threshold_ns: ns, count: beyond, .. }) = self.above {
            group.add("above", beyond as f64, calls, None);
            group.times.iter_mut().for_each(|times| {
                times.limit = Some(Limit { name: "limit", ns, beyond });
            });
        }
        vec![group]
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn backend(&self) -> Option<&Backend> {
        self.backend.as_ref()
    }

    fn warnings(&self) -> Vec<String> {
        self.limits.clone()
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        same_plan(&self.plan, &other.plan)?;
        // The merged rate is all calls divided by the total time, not the mean of the two rates.
        let calls = |result: &Self| result.iterations_per_s * result.wall_ns as f64;
        let calls_times_ns = calls(self) + calls(other);
        self.wall_ns += other.wall_ns;
        self.iterations_per_s = calls_times_ns / self.wall_ns as f64;
        self.latency.merge(&other.latency);
        for (caller, more) in self.callers.iter_mut().zip(&other.callers) {
            caller.wall_ns += more.wall_ns;
            caller.latency.merge(&more.latency);
        }
        // After a training round, each run has its own threshold. Counts above different thresholds
        // cannot be added.
        self.above = match (self.above, other.above) {
            (Some(above), Some(more)) if above.threshold_ns == more.threshold_ns => Some(Above {
                threshold_ns: above.threshold_ns,
                count: above.count + more.count,
                worst_ns: above.worst_ns.max(more.worst_ns),
            }),
            _ => None,
        };
        Ok(())
    }
}
