//! `ipc baseline`: the groups and merging of round trips by mechanisms other than binder.

use std::borrow::Cow;

use super::{Number, ratio, time};
use crate::baseline::{BaselineResult, FUTEX, compare};
use crate::error::Result;
use crate::figures::Group;
use crate::ipc::Backend;
use crate::test::{Test, Tested, same_plan};

const NUMBERS: &[Number] = &[time("time"), ratio("futex.ratio"), ratio("recorder.ratio")];

pub(crate) const TEST: Test = Test {
    name: "baseline",
    command: "ipc baseline",
    title: "Baseline",
    labels: &["transport", "size_bytes", "placement"],
    times: &[""],
    numbers: NUMBERS,
    layers: &[],
};

impl Tested for BaselineResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let cells = self.cells.iter().map(|cell| {
            let mut group = Group::new([
                ("transport", cell.transport.clone()),
                ("size_bytes", cell.size_bytes.to_string()),
                ("placement", cell.placement.to_string()),
            ]);
            group.rounds("time", cell.round_medians_ns.iter().map(|&ns| ns as f64));
            group.ratio("futex.ratio", cell.against_futex.filter(|_| cell.transport != FUTEX));
            group.ratio("recorder.ratio", cell.recorded.as_ref().and_then(|recorded| recorded.against_off));
            group.times("", Cow::Borrowed(&cell.latency));
            group
        });
        cells.collect()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn backend(&self) -> Option<&Backend> {
        self.cells.iter().find_map(|cell| cell.backend.as_ref())
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        same_plan(&self.plan, &other.plan)?;
        for cell in &mut self.cells {
            let more = other.cell(&cell.transport, cell.size_bytes, cell.placement);
            let Some(more) = more else { continue };
            cell.round_medians_ns.extend(&more.round_medians_ns);
            cell.latency.merge(&more.latency);
            if let (Some(ours), Some(theirs)) = (&mut cell.recorded, &more.recorded) {
                ours.round_medians_ns.extend(&theirs.round_medians_ns);
                ours.latency.merge(&theirs.latency);
            }
        }
        compare(&mut self.cells);
        Ok(())
    }
}
