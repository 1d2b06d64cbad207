//! `ipc throughput`: the groups and merging of batches of calls.

use std::borrow::Cow;

use super::{Number, time};
use crate::error::Result;
use crate::figures::{Better, Group, Unit};
use crate::ipc::Backend;
use crate::ipc::throughput::{Batch, ThroughputResult};
use crate::test::{Test, Tested, same_plan};

const NUMBERS: &[Number] = &[time("time"), time("cpu"), ("rate", Unit::BytesPerSecond, Better::Higher)];

pub(crate) const TEST: Test = Test {
    name: "throughput",
    command: "ipc throughput",
    title: "Throughput",
    labels: &["stack", "size_bytes", "placement"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for ThroughputResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let rows = self.rows.iter().map(|row| {
            let mut group = Group::new([
                ("stack", row.stack.to_string()),
                ("size_bytes", row.size_bytes.to_string()),
                ("placement", self.plan.placement.to_string()),
            ]);
            group.rounds("time", row.batches.iter().map(Batch::real_time_ns));
            group.rounds("cpu", row.batches.iter().map(Batch::cpu_time_ns));
            group.rounds("rate", row.batches.iter().map(Batch::bytes_per_second));
            if let Some(latency) = &row.latency {
                group.times("", Cow::Borrowed(latency));
            }
            group
        });
        rows.collect()
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
        for (row, more) in self.rows.iter_mut().zip(&other.rows) {
            row.batches.extend(&more.batches);
            if let (Some(latency), Some(more)) = (&mut row.latency, &more.latency) {
                latency.merge(more);
            }
        }
        Ok(())
    }
}
