//! Reads the figures in the JSON of Google Benchmark's `--benchmark_out` (its docs/user_guide.md).
//! Must not know which program wrote the file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::figures::{Better, Bounds, Figure, Unit};

/// The largest accepted file, in bytes.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
struct Document {
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Benchmark {
    name: String,
    /// "iteration" or "aggregate". Before version 1.4.1, only the names identified aggregates.
    run_type: Option<String>,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    time_unit: Option<String>,
    bytes_per_second: Option<f64>,
    items_per_second: Option<f64>,
    error_occurred: Option<bool>,
}

/// The figures in a file; `None` if the file has another format.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Figure>>> {
    if path.is_dir() {
        return Ok(None);
    }
    let bytes = roundtrip_files::read(path, MOST_BYTES)
        .map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    let Ok(document) = roundtrip_stored::read_text::<Document>(&bytes) else { return Ok(None) };
    Ok(Some(figures(document)))
}

fn figures(document: Document) -> Vec<Figure> {
    // All repetitions of a benchmark have the same name.
    let mut values: BTreeMap<(String, &str), (Unit, Better, Vec<f64>)> = BTreeMap::new();
    for benchmark in document.benchmarks {
        if benchmark.error_occurred == Some(true)
            || benchmark.run_type.is_some_and(|kind| kind != "iteration")
        {
            continue;
        }
        let unit_ns = match benchmark.time_unit.as_deref() {
            Some("s") => 1e9,
            Some("ms") => 1e6,
            Some("us") => 1e3,
            _ => 1.0,
        };
        let time = |value: Option<f64>| value.map(|value| value * unit_ns);
        for (figure, value, unit, better) in [
            ("time", time(benchmark.real_time), Unit::Nanoseconds, Better::Lower),
            ("cpu", time(benchmark.cpu_time), Unit::Nanoseconds, Better::Lower),
            ("rate", benchmark.bytes_per_second, Unit::BytesPerSecond, Better::Higher),
            ("items", benchmark.items_per_second, Unit::PerSecond, Better::Higher),
        ] {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                let entry = values.entry((benchmark.name.clone(), figure));
                entry.or_insert((unit, better, Vec::new())).2.push(value);
            }
        }
    }
    let figure =
        |((benchmark, name), (unit, better, mut values)): ((String, &str), (Unit, Better, Vec<f64>))| {
            values.sort_by(f64::total_cmp);
            let bounds = roundtrip_latency::median_interval(&values).map(Bounds::from);
            Some(Figure {
                name: name.to_owned(),
                of: vec![("benchmark", benchmark)],
                value: Some(roundtrip_latency::quantile(&values, 0.5)?),
                unit,
                better,
                samples: values.len() as u64,
                bounds,
                in_clumps: bounds,
            })
        };
    values.into_iter().filter_map(figure).collect()
}
