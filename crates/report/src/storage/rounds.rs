//! The rounds of a comparison of writes with and without background load as CSV. Pure: results in,
//! text out.

use roundtrip_analysis::interference::Explained;
use roundtrip_run::storage::StoragePath;
use roundtrip_run::storage::interference::InterferenceResult;

use crate::text::csv::Line;

/// The columns of [`place`].
const PLACE_COLUMNS: &str = "file_system,device,bus,scheduler,write_cache";

/// Where the writes of a CSV line went.
fn place(path: &StoragePath) -> [String; 5] {
    let device = path.device.as_ref();
    let known = |value: Option<&String>| value.cloned().unwrap_or_default();
    [
        path.file_system.clone(),
        known(device.map(|device| &device.name)),
        device.map(|device| device.bus.name()).unwrap_or_default().to_owned(),
        known(device.and_then(|device| device.scheduler.as_ref())),
        known(device.and_then(|device| device.write_cache.as_ref())),
    ]
}

/// A line for each comparison, round and side as CSV. Times are in nanoseconds.
#[must_use]
pub fn csv(result: &InterferenceResult, explained: &[Explained<'_>]) -> String {
    let mut out = format!(
        "beside,writer,durability,size_bytes,round,side,first,calls,application_p50_ns,device_p50_ns,device_counted_ns,\
         waited_for_cpu_ns_per_write,frequency_khz,neighbour_cpu_ns,neighbour_count,elapsed_ns,lost_calls,doubts,\
         {PLACE_COLUMNS}\n",
    );
    let place = place(&result.path);
    for one in explained {
        let beside = one.beside;
        for (round, pair) in beside.pairs.iter().enumerate() {
            let sides =
                [("alone", &pair.alone, beside.writer), ("beside", &pair.beside, beside.writer_beside)];
            for (index, (side, block, writer)) in sides.into_iter().enumerate() {
                let Some(who) = result.writers.get(writer) else { continue };
                let device = one.sides.as_ref().and_then(|sides| sides[index].device_ns.get(round));
                let breakdown = one.sides.as_ref().map(|sides| &sides[index].breakdown);
                let per_write = block.run_delay_ns.map(|ns| ns as f64 / f64::from(block.all_calls.max(1)));
                Line::of(&mut out)
                    .field(beside.condition)
                    .field(who.api)
                    .field(who.durability)
                    .field(beside.size_bytes)
                    .field(round + 1)
                    .field(side)
                    .field(pair.alone_first == (index == 0))
                    .field(block.calls.len())
                    .known(block.median_ns())
                    .known(device)
                    .known(block.request_ns())
                    .known(per_write)
                    .known(block.frequency_khz)
                    .known(block.neighbour_cpu_ns)
                    .known(block.neighbour_count)
                    .field(block.elapsed_ns)
                    // Counted over all rounds: if something was lost, no round is certain.
                    .known(breakdown.map(|breakdown| breakdown.lost_calls))
                    .known(breakdown.map(|breakdown| breakdown.doubts.len()))
                    .fields(&place)
                    .end();
            }
        }
    }
    out
}
