//! A storage measurement as JSON with its divided writes. Pure: results in, text out.

use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::{Begin, End, InterruptUse, LayerTimes, Request, SlowCall};
use roundtrip_run::Run;
use roundtrip_run::storage::{StorageResult, StorageSeries};
use serde_json::{Map, Value};

use crate::Error;
use crate::storage::rows::{PERCENTS, Row, rows};
use crate::storage::{study, why, words};
use roundtrip_analysis::interference::Explained;
use roundtrip_analysis::storage::SeriesLayers;
use roundtrip_run::storage::interference::InterferenceResult;

fn of<'a, 's>(layers: &'a [SeriesLayers<'s>], series: &StorageSeries) -> Option<&'a SeriesLayers<'s>> {
    layers.iter().find(|one| std::ptr::eq(one.series, series))
}

/// The run as in a run directory, plus its divided writes: `results.storage.layers` has one element
/// for each series.
///
/// # Errors
/// As [`Run::to_json`].
pub fn json(run: &Run, result: &StorageResult, layers: &[SeriesLayers<'_>]) -> Result<String, Error> {
    let mut all = roundtrip_stored::read_text::<Value>(run.to_json()?.as_bytes())?;
    let series = result.series.iter().map(|series| series_json(result, series, of(layers, series)));
    all["results"]["storage"]["layers"] = series.collect();
    Ok(all.to_string() + "\n")
}

/// The run as in a run directory, plus the figures of the study, if sizes were compared beside a
/// CPU-bound process: `results.interference.study` has one element for each writer.
///
/// # Errors
/// As [`Run::to_json`].
pub fn json_of_study(
    run: &Run,
    result: &InterferenceResult,
    explained: &[Explained<'_>],
) -> Result<String, Error> {
    let figures = study::figures::json(result, explained);
    if figures.as_array().is_none_or(Vec::is_empty) {
        return Ok(run.to_json()?);
    }
    let mut all = roundtrip_stored::read_text::<Value>(run.to_json()?.as_bytes())?;
    all["results"]["interference"]["study"] = figures;
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
        for (percentile, ns) in PERCENTS.into_iter().zip(percentiles_ns) {
            row[percentile] = ns.into();
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
        let behind = breakdown.behind_ns.iter().map(|(layer, ns)| (layer.name().to_owned(), (*ns).into()));
        out["behind_ns"] = behind.collect::<Map<_, _>>().into();
        let reason =
            |(kind, times): (&ReasonKind, &LayerTimes)| (kind.name().to_owned(), times.sum_ns.into());
        out["reasons"] = breakdown.kinds.iter().map(reason).collect::<Map<_, _>>().into();
        out["requests"] = breakdown.requests.into();
        out["flushes"] = breakdown.flushes.into();
        let boundary = |(&(begin, end), &count): (&(Begin, End), &u64)| {
            object([
                ("from", words::begin(begin).into()),
                ("to", words::end(end).into()),
                ("requests", count.into()),
            ])
        };
        out["device_boundaries"] = breakdown.boundaries.iter().map(boundary).collect();
        out["controller_interrupts"] = interrupts(&breakdown.controller_interrupts);
        out["cpu_interrupts"] = interrupts(&breakdown.cpu_interrupts);
        out["requests_ended_by_cpu"] = cpus.collect::<Map<_, _>>().into();
        out["completed_elsewhere"] = breakdown.completed_elsewhere.into();
        out["lost_calls"] = breakdown.lost_calls.into();
        out["uncovered_calls"] = breakdown.uncovered_calls.into();
        out["unrecorded_switches"] = breakdown.unrecorded_switches.into();
        out["unrecorded_switch_calls"] = breakdown.unrecorded_switch_calls.into();
        out["unexplained_for_switches_ns"] = breakdown.unexplained_for_switches_ns.into();
        out["unexplained_calls"] = breakdown.unexplained_calls.into();
        out["disturbed_calls"] = breakdown.disturbed_calls.into();
        out["doubts"] = words::doubts(&breakdown.doubts).into_iter().collect();
        out["slowest"] = breakdown.slowest.iter().map(slow_json).collect();
        if series.size_bytes == study::SIZE_BYTES {
            out["study"] = study::json(breakdown);
        }
    }
    out
}

/// A call with its pieces in order, and its requests.
fn slow_json(slow: &SlowCall) -> Value {
    let SlowCall { write, layers } = slow;
    let piece = |piece: &roundtrip_layers::storage::Piece| -> Value {
        vec![Value::from(piece.layer.name()), piece.begin_ns.into(), piece.end_ns.into()].into()
    };
    let request = |request: &Request| {
        object([
            ("dev", format!("{}:{}", request.dev >> 20, request.dev & 0xf_ffff).into()),
            ("flush", request.flush.into()),
            ("sectors", request.sectors.into()),
            ("from", words::begin(request.begin).into()),
            ("to", words::end(request.end).into()),
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
        ("missing", layers.missing.map(words::missing_name).into()),
        ("verdict", why::sentence(layers).into()),
        ("pieces", layers.pieces.iter().map(piece).collect()),
        ("requests", layers.requests.iter().map(request).collect()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fixture;
    use crate::storage::measured::page;
    use crate::text::look::Look;

    #[test]
    fn the_page_has_tables_bars_strace_and_the_slow_call() {
        let result = fixture::result();
        insta::assert_snapshot!(page(&result, &fixture::layers(&result), Look::PLAIN));
    }

    #[test]
    fn the_json_file_is_the_run_with_its_layers() {
        let result = fixture::result();
        let layers = fixture::layers(&result);
        let run = Run::new(Default::default(), result.clone().into(), None);
        let all: Value = serde_json::from_str(&json(&run, &result, &layers).unwrap()).unwrap();
        assert_eq!(all["schema"], "roundtrip.run");
        insta::assert_snapshot!(serde_json::to_string_pretty(&all["results"]["storage"]["layers"]).unwrap());
    }
}
