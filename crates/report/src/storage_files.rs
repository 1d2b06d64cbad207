//! A storage measurement as files: CSV with a line for each part of each series, and JSON with
//! everything. Pure: results in, text out.

use layers::storage::{Begin, Breakdown, End, InterruptUse, Layer, Request, SlowCall};
use run::Run;
use run::storage::{StoragePath, StorageResult, StorageSeries};
use serde_json::{Map, Value};

use super::storage_rows::{PERCENTS, Row, rows};
use super::{storage_study, storage_words};
use crate::Error;
use crate::csv::Line;
use analysis::storage::SeriesLayers;

/// The columns of [`place`].
pub(super) const PLACE_COLUMNS: &str = "file_system,device,bus,scheduler,write_cache";

/// Where the writes of a CSV line went.
pub(super) fn place(path: &StoragePath) -> [String; 5] {
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

/// A line for each writer, size and part, and one for each part of each of the slowest calls. Times
/// are in nanoseconds.
pub fn csv(result: &StorageResult, layers: &[SeriesLayers<'_>]) -> String {
    let mut out = format!(
        "writer,durability,position,size_bytes,layer,calls,mean_ns,p50_ns,p90_ns,p99_ns,max_ns,share,of,lost_calls,\
         unexplained_calls,disturbed_calls,doubts,unrecorded_switches,unrecorded_switch_calls,\
         unexplained_for_switches_ns,{PLACE_COLUMNS}\n",
    );
    let tail = place(&result.path);
    for series in &result.series {
        let Some(writer) = result.writers.get(series.writer) else { continue };
        let position = result.plan.position;
        let size_bytes = series.size_bytes.to_string();
        let head = [writer.api.name(), writer.durability.name(), position.name(), &size_bytes];
        let ours = of(layers, series);
        let trust = ours.map_or_else(<[String; 7]>::default, |ours| trust(&ours.breakdown));
        for Row { part, calls, mean_ns, percentiles_ns, share } in rows(series, ours) {
            let percentiles = percentiles_ns.map(field);
            let line = Line::of(&mut out).fields(head).field(part).field(calls).known(mean_ns);
            line.fields(percentiles).known(share).field("all").fields(&trust).fields(&tail).end();
        }
        for (place, slow) in ours.into_iter().flat_map(|ours| ours.breakdown.slowest.iter().enumerate()) {
            for (part, ns, share) in parts(slow) {
                let of = format!("slowest {}", place + 1);
                let line = Line::of(&mut out).fields(head).field(part).field(1).fields([ns; 5]);
                line.field(share).field(of).fields(&trust).fields(&tail).end();
            }
        }
    }
    out
}

fn field(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn of<'a, 's>(layers: &'a [SeriesLayers<'s>], series: &StorageSeries) -> Option<&'a SeriesLayers<'s>> {
    layers.iter().find(|one| std::ptr::eq(one.series, series))
}

/// What users must know before they trust a breakdown.
fn trust(breakdown: &Breakdown) -> [String; 7] {
    let Breakdown { lost_calls, unexplained_calls, disturbed_calls, doubts, .. } = breakdown;
    let Breakdown { unrecorded_switches, unrecorded_switch_calls, unexplained_for_switches_ns, .. } =
        breakdown;
    [
        lost_calls.to_string(),
        unexplained_calls.to_string(),
        disturbed_calls.to_string(),
        doubts.len().to_string(),
        unrecorded_switches.to_string(),
        unrecorded_switch_calls.to_string(),
        unexplained_for_switches_ns.to_string(),
    ]
}

/// A slow call as a whole and by layer: name, nanoseconds, share.
fn parts(slow: &SlowCall) -> Vec<(&'static str, u64, f64)> {
    let whole_ns = slow.write.end_ns - slow.write.start_ns;
    let parts = Layer::ALL.into_iter().map(|layer| (layer.name(), slow.layers.total_ns(layer)));
    let all = std::iter::once(("response", whole_ns)).chain(parts);
    all.map(|(part, ns)| (part, ns, ns as f64 / whole_ns.max(1) as f64)).collect()
}

/// The run as in a run directory, plus its divided writes: `results.storage.layers` has one element
/// for each series.
///
/// # Errors
/// As [`Run::to_json`].
pub fn json(run: &Run, result: &StorageResult, layers: &[SeriesLayers<'_>]) -> Result<String, Error> {
    let mut all = stored::parse(run.to_json()?.as_bytes())?;
    let series = result.series.iter().map(|series| series_json(result, series, of(layers, series)));
    all["results"]["storage"]["layers"] = series.collect();
    Ok(all.to_string() + "\n")
}

/// An object from names and values.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn series_json(result: &StorageResult, series: &StorageSeries, ours: Option<&SeriesLayers<'_>>) -> Value {
    let writer = result.writers.get(series.writer);
    let name = |text: Option<&'static str>| text.map_or(Value::Null, Value::from);
    let mut parts = Map::new();
    for Row { part, calls, mean_ns, percentiles_ns, share } in rows(series, ours) {
        let mut row = object([("calls", calls.into()), ("mean_ns", mean_ns.into()), ("share", share.into())]);
        for ((percentile, _), ns) in PERCENTS.iter().zip(percentiles_ns) {
            row[*percentile] = ns.into();
        }
        parts.insert(part.replace(' ', "_"), row);
    }
    let mut out = object([
        ("writer", name(writer.map(|writer| writer.api.name()))),
        ("durability", name(writer.map(|writer| writer.durability.name()))),
        ("position", result.plan.position.name().into()),
        ("size_bytes", series.size_bytes.into()),
        ("parts", parts.into()),
    ]);
    if let Some(SeriesLayers { breakdown, .. }) = ours {
        let interrupts =
            |of: &InterruptUse| object([("count", of.count.into()), ("handled_ns", of.handled_ns.into())]);
        let cpus = breakdown.interrupt_cpus.iter().map(|(cpu, count)| (cpu.to_string(), (*count).into()));
        out["requests"] = breakdown.requests.into();
        out["flushes"] = breakdown.flushes.into();
        let boundary = |(&(begin, end), &count): (&(Begin, End), &u64)| {
            object([
                ("from", storage_words::begin(begin).into()),
                ("to", storage_words::end(end).into()),
                ("requests", count.into()),
            ])
        };
        out["device_boundaries"] = breakdown.boundaries.iter().map(boundary).collect();
        out["controller_interrupts"] = interrupts(&breakdown.controller_interrupts);
        out["cpu_interrupts"] = interrupts(&breakdown.cpu_interrupts);
        out["requests_ended_by_cpu"] = cpus.collect::<Map<_, _>>().into();
        out["completed_elsewhere"] = breakdown.completed_elsewhere.into();
        out["lost_calls"] = breakdown.lost_calls.into();
        out["unrecorded_switches"] = breakdown.unrecorded_switches.into();
        out["unrecorded_switch_calls"] = breakdown.unrecorded_switch_calls.into();
        out["unexplained_for_switches_ns"] = breakdown.unexplained_for_switches_ns.into();
        out["unexplained_calls"] = breakdown.unexplained_calls.into();
        out["disturbed_calls"] = breakdown.disturbed_calls.into();
        out["doubts"] = storage_words::doubts(&breakdown.doubts).into_iter().collect();
        out["slowest"] = breakdown.slowest.iter().map(slow_json).collect();
        if series.size_bytes == storage_study::SIZE_BYTES {
            out["study"] = storage_study::json(breakdown);
        }
    }
    out
}

/// A call with its pieces in order, and its requests.
fn slow_json(slow: &SlowCall) -> Value {
    let SlowCall { write, layers } = slow;
    let piece = |piece: &layers::storage::Piece| -> Value {
        vec![Value::from(piece.layer.name()), piece.begin_ns.into(), piece.end_ns.into()].into()
    };
    let request = |request: &Request| {
        object([
            ("dev", format!("{}:{}", request.dev >> 20, request.dev & 0xf_ffff).into()),
            ("flush", request.flush.into()),
            ("sectors", request.sectors.into()),
            ("from", storage_words::begin(request.begin).into()),
            ("to", storage_words::end(request.end).into()),
            ("issued_ns", request.issued_ns.into()),
            ("started_ns", request.started_ns.into()),
            ("ended_ns", request.ended_ns.into()),
            ("completed_ns", request.completed_ns.into()),
            ("interrupt_cpu", request.interrupt_cpu.into()),
            ("completed_cpu", request.completed_cpu.into()),
        ])
    };
    object([
        ("start_ns", write.start_ns.into()),
        ("end_ns", write.end_ns.into()),
        ("tid", write.tid.into()),
        ("lost", layers.lost.into()),
        ("pieces", layers.pieces.iter().map(piece).collect()),
        ("requests", layers.requests.iter().map(request).collect()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;
    use crate::storage::page;
    use crate::storage_fixture;

    #[test]
    fn the_csv_file_has_every_part_and_every_slow_call() {
        let result = storage_fixture::result();
        insta::assert_snapshot!(csv(&result, &storage_fixture::layers(&result)));
    }

    #[test]
    fn the_page_has_tables_bars_strace_and_the_slow_call() {
        let result = storage_fixture::result();
        insta::assert_snapshot!(page(&result, &storage_fixture::layers(&result), Look::PLAIN));
    }

    #[test]
    fn the_json_file_is_the_run_with_its_layers() {
        let result = storage_fixture::result();
        let layers = storage_fixture::layers(&result);
        let run = Run::new(Default::default(), result.clone().into(), None);
        let all: Value = serde_json::from_str(&json(&run, &result, &layers).unwrap()).unwrap();
        assert_eq!(all["schema"], "roundtrip.run");
        insta::assert_snapshot!(serde_json::to_string_pretty(&all["results"]["storage"]["layers"]).unwrap());
    }
}
