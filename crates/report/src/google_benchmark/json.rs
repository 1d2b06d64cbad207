//! Google Benchmark's JSON format. The value is written after all rows, so that no program ever
//! reads a partial value.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::format::Format;
use super::{Context, Row, RowKind, TimeUnit};

/// The state of the JSON format.
pub struct Json {
    unit: TimeUnit,
    context: Option<Context>,
    rows: Vec<Row>,
}

impl Json {
    /// Prints times in this unit.
    #[must_use]
    pub fn new(unit: TimeUnit) -> Self {
        Self { unit, context: None, rows: Vec::new() }
    }
}

impl Format for Json {
    fn begin(&mut self, context: &Context, _: &mut dyn Write, _: &mut dyn Write) -> io::Result<()> {
        self.context = Some(context.clone());
        Ok(())
    }

    fn rows(&mut self, rows: &[Row], _: &mut dyn Write) -> io::Result<()> {
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let report = JsonReport {
            context: self.context.as_ref().map(JsonContext::from),
            benchmarks: self.rows.iter().map(|row| JsonRow::new(row, self.unit)).collect(),
        };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

#[derive(Serialize)]
struct JsonReport<'a> {
    context: Option<JsonContext<'a>>,
    benchmarks: Vec<JsonRow<'a>>,
}

#[derive(Serialize)]
struct JsonContext<'a> {
    date: &'a str,
    host_name: &'a str,
    executable: &'a str,
    num_cpus: u32,
    mhz_per_cpu: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_scaling_enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aslr_enabled: Option<bool>,
    caches: Vec<JsonCache<'a>>,
    load_avg: &'a [f64],
    library_version: &'a str,
    library_build_type: &'a str,
    json_schema_version: u32,
    #[serde(flatten)]
    custom: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct JsonCache<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    level: u32,
    size: u64,
    num_sharing: u32,
}

impl<'a> From<&'a Context> for JsonContext<'a> {
    fn from(context: &'a Context) -> Self {
        Self {
            date: &context.date,
            host_name: &context.host_name,
            executable: &context.executable,
            num_cpus: context.num_cpus,
            mhz_per_cpu: context.mhz_per_cpu.round() as u64,
            cpu_scaling_enabled: context.cpu_scaling_enabled,
            aslr_enabled: context.aslr_enabled,
            caches: context
                .caches
                .iter()
                .map(|cache| JsonCache {
                    kind: &cache.kind,
                    level: cache.level,
                    size: cache.size_bytes,
                    num_sharing: cache.num_sharing,
                })
                .collect(),
            load_avg: &context.load_avg,
            library_version: &context.library_version,
            library_build_type: if context.debug_build { "debug" } else { "release" },
            json_schema_version: 1,
            custom: context.custom.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        }
    }
}

#[derive(Serialize)]
struct JsonRow<'a> {
    name: String,
    family_index: usize,
    per_family_instance_index: usize,
    run_name: &'a str,
    run_type: &'static str,
    repetitions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_index: Option<u32>,
    threads: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_unit: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_occurred: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
    iterations: u64,
    real_time: f64,
    cpu_time: f64,
    time_unit: &'static str,
    #[serde(flatten)]
    counters: BTreeMap<&'a str, f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    label: &'a str,
}

impl<'a> JsonRow<'a> {
    fn new(row: &'a Row, unit: TimeUnit) -> Self {
        let (real_time, cpu_time) = row.times(unit);
        let (run_type, repetition_index, aggregate) = match row.kind {
            RowKind::Iteration { repetition_index } => ("iteration", Some(repetition_index), None),
            RowKind::Aggregate(statistic) => ("aggregate", None, Some(statistic)),
        };
        Self {
            name: row.name(),
            family_index: row.family_index,
            per_family_instance_index: row.per_family_instance_index,
            run_name: &row.run_name,
            run_type,
            repetitions: row.repetitions,
            repetition_index,
            threads: row.threads,
            aggregate_name: aggregate.map(|statistic| statistic.name()),
            aggregate_unit: aggregate.map(|_| if row.is_ratio() { "percentage" } else { "time" }),
            error_occurred: row.error.as_ref().map(|_| true),
            error_message: row.error.as_deref(),
            iterations: row.iterations,
            real_time,
            cpu_time,
            time_unit: unit.name(),
            counters: row.counters.iter().map(|(name, counter)| (name.as_str(), counter.value)).collect(),
            label: &row.label,
        }
    }
}
