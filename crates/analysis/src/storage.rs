//! Attributes the time of a storage measurement's writes to layers, from its recording. This file
//! connects `run` and `tracefs` to `layers`, and reads run directories. Must not know how anything
//! is shown.

use std::path::Path;

use roundtrip_layers::storage::{Breakdown, Controller, Devices, Write, Writes};
use roundtrip_run::RECORDING;
use roundtrip_run::storage::{Device, StoragePath, StorageResult, StorageSeries};
use roundtrip_tracefs::Recording;

use crate::damage::{Readable, read_whole};

/// The layers of the calls of one writer and size.
#[derive(Debug)]
pub struct SeriesLayers<'a> {
    /// What was measured.
    pub series: &'a StorageSeries,
    /// The layers in which the calls spent their time.
    pub breakdown: Breakdown,
}

/// Attributes the time of all recorded calls of a run directory to layers. Leaves out calls in
/// damaged snapshots, and series without recorded calls. The `keep` slowest calls of each series
/// are kept in full.
#[must_use]
pub fn divide<'a>(result: &'a StorageResult, directory: &Path, keep: usize) -> Readable<SeriesLayers<'a>> {
    let mut out = Readable::default();
    if result.recorder.is_none() {
        return out;
    }
    let recording = match Recording::open(&directory.join(RECORDING)) {
        Ok(recording) => recording,
        Err(error) => {
            out.damage.push(error.into());
            return out;
        }
    };
    let devices = devices(&result.path);
    for series in &result.series {
        let tid = result.writers.get(series.writer).map_or(0, |writer| writer.opened.tid);
        let mut breakdown = Breakdown::keeping(keep);
        for block in &series.blocks {
            let Some(snapshot) = block.snapshot else { continue };
            let Some(trace) = read_whole(&recording, snapshot, &mut out.damage) else { continue };
            let writes = Writes::new(&trace, devices.clone());
            breakdown.doubts.extend(writes.doubts());
            breakdown.unrecorded_switches += writes.unrecorded_switches();
            for call in &block.calls {
                let write = Write { start_ns: call.start_ns, end_ns: call.end_ns, tid };
                breakdown.add(write, writes.layers(write));
            }
        }
        breakdown.tell_usual();
        if breakdown.calls > 0 {
            out.results.push(SeriesLayers { series, breakdown });
        }
    }
    out
}

/// The devices at the bottom of a file's path, with their names in events.
#[must_use]
pub fn devices(path: &StoragePath) -> Devices {
    of_devices(&path.leaves(), path.partitions())
}

/// Like [`devices`], for given devices that have no other devices below them.
pub(crate) fn of_devices(leaves: &[&Device], partitions: Vec<(u32, u32)>) -> Devices {
    let interrupts =
        |device: &Device| device.interrupts.iter().map(|interrupt| interrupt.name.clone()).collect();
    Devices {
        leaves: leaves.iter().map(|device| device.dev).collect(),
        interrupts: leaves.iter().flat_map(|device| -> Vec<String> { interrupts(device) }).collect(),
        controllers: leaves
            .iter()
            .map(|device| Controller {
                dev: device.dev,
                names: device.controllers.clone(),
                paths: device.paths.clone(),
                interrupts: interrupts(device),
                block_bytes: device.logical_block_bytes.unwrap_or(512),
            })
            .collect(),
        partitions,
    }
}
