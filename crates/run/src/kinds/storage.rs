//! `storage layers`: the groups of synchronous writes.

use std::borrow::Cow;

use super::share;
use crate::figures::{Group, Labels};
use crate::storage::{StorageResult, WriterResult};
use crate::test::{Recording, Test, Tested};

pub(crate) const TEST: Test = Test {
    name: "storage",
    command: "storage layers",
    title: "Synchronous writes",
    labels: &["writer", "durability", "size_bytes"],
    times: &[""],
    numbers: &[share("host.share")],
    layers: &[""],
};

impl StorageResult {
    /// The labels of writes; `None` for an unknown writer.
    #[must_use]
    pub fn labels(&self, writer: usize, size_bytes: u64) -> Option<Labels> {
        Some(labels(self.writers.get(writer)?, size_bytes))
    }
}

/// The labels of writes.
pub(super) fn labels(writer: &WriterResult, size_bytes: u64) -> Labels {
    vec![
        ("writer", writer.api.to_string()),
        ("durability", writer.durability.to_string()),
        ("size_bytes", size_bytes.to_string()),
    ]
}

impl Tested for StorageResult {
    fn test(&self) -> &'static Test {
        &TEST
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let groups = self.series.iter().filter_map(|series| {
            let mut group = Group::new(self.labels(series.writer, series.size_bytes)?);
            group.times("", Cow::Borrowed(&series.latency));
            Some(group)
        });
        groups.collect()
    }

    fn plan(&self) -> String {
        format!("{:?}", self.plan)
    }

    fn warnings(&self) -> Vec<String> {
        self.recording_ended.iter().cloned().collect()
    }

    fn recording(&self) -> Recording {
        let recorded = self.recorder.is_some() || self.recording_ended.is_some();
        Recording::of(recorded, self.recording_ended.as_ref())
    }
}
