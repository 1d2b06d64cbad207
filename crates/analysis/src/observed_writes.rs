//! Attributes the time of other programs' writes to layers: for all writes live, and for slow
//! writes again from a run's recording. Must not know how anything is recorded or shown.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use roundtrip_latency::Histogram;
use roundtrip_layers::reasons::{Across, Operation};
use roundtrip_layers::storage::{Breakdown, Devices, Layers, Missing, Write, Writes};
use roundtrip_run::RECORDING;
use roundtrip_run::storage::Device;
use roundtrip_run::storage::observe::{Divided, LayerTime, ObserveWritesResult, OthersCommits, SlowWrite};
use roundtrip_sorting::SmallSort as _;
use roundtrip_tracefs::{Recording, Trace};

use crate::damage::{Readable, read_whole};
use crate::storage::of_devices;
use crate::without::{Left, Whole};

/// Attributes the time of writes to layers as they complete, and sums it up by row.
#[derive(Debug)]
pub struct Divider {
    rows: BTreeMap<usize, Breakdown>,
    deadline_ns: u64,
    /// What delayed the writes that missed the deadline.
    slow: Across,
}

impl Divider {
    /// Without writes. The causes of those that take longer than the deadline, in nanoseconds, are
    /// summed up.
    #[must_use]
    pub fn new(deadline_ns: u64) -> Self {
        Self { rows: BTreeMap::new(), deadline_ns, slow: Across::default() }
    }

    /// Adds writes, each with its row. The trace covers the writes and some time before them.
    pub fn add(&mut self, trace: &Trace, devices: &[Device], writes: impl Iterator<Item = (usize, Write)>) {
        let indexed = Writes::new(trace, known(devices));
        let complete_from_ns = trace.complete_from_ns.values().max().copied().unwrap_or(0);
        for (row, write) in writes {
            let mut layers = indexed.layers(write);
            // Before the oldest kept event, the observer dropped events.
            if write.start_ns < complete_from_ns {
                layers.missing = Some(Missing::Lost);
            }
            self.divided(row, write, layers);
        }
    }

    /// Adds a write whose layers are already known.
    pub(crate) fn divided(&mut self, row: usize, write: Write, mut layers: Layers) {
        if write.end_ns - write.start_ns > self.deadline_ns {
            // What is usual so far.
            layers.usual_ns = self.usual_ns(row);
            self.slow.add_timed(timed(write, Some(self.deadline_ns)), &layers.summed());
        }
        self.rows.entry(row).or_insert_with(Breakdown::only_totals).add(write, layers);
    }

    /// The rows have new places, by their places before. Those with the same place are merged.
    pub fn moved(&mut self, places: &[usize]) {
        for (row, breakdown) in std::mem::take(&mut self.rows) {
            let Some(&place) = places.get(row) else { continue };
            match self.rows.entry(place) {
                Entry::Vacant(free) => drop(free.insert(breakdown)),
                Entry::Occupied(mut with) => with.get_mut().merge(&breakdown),
            }
        }
    }

    /// What delayed the writes that missed the deadline.
    #[must_use]
    pub fn causes(&self) -> &Across {
        &self.slow
    }

    /// How long a write of this row usually runs and is being woken, in nanoseconds; 0 if it is not
    /// known.
    pub(crate) fn usual_ns(&self, row: usize) -> u64 {
        self.rows.get(&row).map_or(0, Breakdown::usual_ns)
    }

    /// The totals of each row; `None` for a row without writes.
    #[must_use]
    pub fn finish(&self) -> Vec<Option<Divided>> {
        let rows = self.rows.last_key_value().map_or(0, |(row, _)| row + 1);
        (0..rows).map(|row| self.rows.get(&row).map(divided)).collect()
    }
}

/// The machine's devices, with the names that events use.
fn known(devices: &[Device]) -> Devices {
    let mut leaves: Vec<&Device> = devices.iter().flat_map(Device::leaves).collect();
    leaves.small_sort_by_key(|device| device.dev);
    leaves.dedup_by_key(|device| device.dev);
    of_devices(&leaves, devices.iter().flat_map(Device::partitions).collect())
}

fn divided(breakdown: &Breakdown) -> Divided {
    let layers = breakdown.layers.iter().map(|(layer, times)| {
        let behind_ns = breakdown.behind_ns.get(layer).copied().unwrap_or(0);
        (layer.name().to_owned(), LayerTime { sum_ns: times.sum_ns, behind_ns, calls: times.calls.clone() })
    });
    let others = breakdown.others_commits.iter().map(|((tid, thread), &(waits, waited_ns))| OthersCommits {
        tid: *tid,
        thread: thread.clone(),
        waits,
        waited_ns,
    });
    Divided {
        calls: breakdown.calls,
        sum_ns: breakdown.sum_ns,
        layers: layers.collect(),
        requests: breakdown.requests,
        reads: breakdown.reads,
        flushes: breakdown.flushes,
        lost_calls: breakdown.lost_calls,
        uncovered_calls: breakdown.uncovered_calls,
        unexplained_for_switches_ns: breakdown.unexplained_for_switches_ns,
        usual_ns: breakdown.usual_ns(),
        others_commits: others.collect(),
    }
}

/// A write, as far as its time matters.
#[must_use]
pub fn timed(write: Write, deadline_ns: Option<u64>) -> Operation {
    Operation { start_ns: write.start_ns, duration_ns: write.end_ns - write.start_ns, deadline_ns }
}

/// What would be left without each of the main causes of slow writes. `slowest`: the causes are
/// those of the slowest writes, even if they met the deadline.
#[must_use]
pub fn without(across: &Across, result: &ObserveWritesResult, slowest: bool) -> Vec<Left> {
    let durations: Histogram = result.rows.iter().map(|row| &row.latency).collect();
    let missed = (!slowest).then(|| (result.plan.deadline.ns, result.missed()));
    let whole = Whole { durations: &durations, missed, elapsed_ns: result.elapsed_ns };
    crate::without::without(across, whole)
}

/// A slow write of a run, with its layers.
#[derive(Debug)]
pub struct Slow<'a> {
    /// The write.
    pub write: &'a SlowWrite,
    /// Its layers.
    pub layers: Layers,
}

/// Attributes the time of a run directory's recorded slow writes to layers, the slowest write
/// first. Writes in damaged snapshots are left out, and the damage is reported.
#[must_use]
pub fn slow<'a>(result: &'a ObserveWritesResult, directory: &Path) -> Readable<Slow<'a>> {
    let mut out = Readable::default();
    if result.slow_writes.iter().all(|write| write.snapshot.is_none()) {
        return out;
    }
    let recording = match Recording::open(&directory.join(RECORDING)) {
        Ok(recording) => recording,
        Err(error) => {
            out.damage.push(error.into());
            return out;
        }
    };
    let mut by_snapshot: BTreeMap<u32, Vec<&SlowWrite>> = BTreeMap::new();
    for write in &result.slow_writes {
        if let Some(snapshot) = write.snapshot {
            by_snapshot.entry(snapshot).or_default().push(write);
        }
    }
    for (snapshot, slow) in by_snapshot {
        let Some(trace) = read_whole(&recording, snapshot, &mut out.damage) else { continue };
        let writes = Writes::new(&trace, known(&result.devices));
        out.results.extend(slow.into_iter().map(|write| {
            let SlowWrite { start_ns, end_ns, tid, .. } = *write;
            let row = result.rows.get(write.row).and_then(|row| row.divided.as_ref());
            let usual_ns = row.map_or(0, |divided| divided.usual_ns);
            Slow { write, layers: Layers { usual_ns, ..writes.layers(Write { start_ns, end_ns, tid }) } }
        }));
    }
    out.results.small_sort_by_key(|slow| std::cmp::Reverse(slow.write.latency_ns()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_writes_add_up_and_name_the_thread_whose_commit_they_waited_for() {
        let directory = Path::new("../../fixtures/runs/x86_64-6.18-observed-writes");
        let run = roundtrip_run::Run::read(directory).unwrap();
        let result = run.results.observed_writes.unwrap();
        let Readable { results, damage } = slow(&result, directory);
        assert!(damage.is_empty(), "{damage:?}");
        assert_eq!(results.len(), 2);
        for Slow { write, layers } in &results {
            let sum_ns: u64 = layers.pieces.iter().map(|piece| piece.end_ns - piece.begin_ns).sum();
            assert_eq!(sum_ns, write.latency_ns());
        }
        // Analysing the recording again gives the same layers and the same commits. The commits
        // were started by the other writers, because a writer does not wait for its own.
        let rows = result.rows.iter().filter_map(|row| Some((row.tid, row.divided.as_ref()?)));
        let waits: Vec<(u32, &OthersCommits)> =
            rows.flat_map(|(tid, one)| one.others_commits.iter().map(move |other| (tid, other))).collect();
        assert!(waits.len() >= 3, "{waits:?}");
        let writers: Vec<u32> = result.rows.iter().map(|row| row.tid).collect();
        assert!(waits.iter().all(|(tid, other)| *tid != other.tid && writers.contains(&other.tid)));
    }

    #[test]
    fn rows_without_divided_writes_have_no_layers() {
        let mut divider = Divider::new(4);
        let writes = [(2, Write { start_ns: 5, end_ns: 9, tid: 1 })];
        divider.add(&Trace::default(), &[], writes.into_iter());
        assert_eq!(divider.causes().operations(), 0, "it met the deadline");
        let rows = divider.finish();
        assert_eq!(rows.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
        let only = rows[2].as_ref().unwrap();
        assert_eq!((only.calls, only.sum_ns, only.layers["unexplained"].sum_ns), (1, 4, 4));
        divider.add(&Trace::default(), &[], [(1, Write { start_ns: 5, end_ns: 7, tid: 2 })].into_iter());
        divider.moved(&[0, 1, 1]);
        let rows = divider.finish();
        let both = rows[1].as_ref().unwrap();
        assert_eq!((rows.len(), both.calls, both.sum_ns), (2, 2, 6));
        assert_eq!(both.layers["unexplained"].calls.count(), 2);
    }
}
