//! A run in a few sentences: what a new user wants to know first. Pure: a result in, text out.

use std::fmt::Write as _;

use analysis::interference::Explained;
use analysis::storage::SeriesLayers;
use layers::storage::Layer;
use run::CpuPlacement;
use run::Results;
use run::baseline::{BaselineResult, FUTEX};
use run::ipc::Mode;
use run::ipc::latency::Series;
use run::ipc::throughput::ThroughputRow;
use run::ipc::workers::WorkersResult;
use run::storage::StorageResult;
use run::storage::interference::Condition;

use super::beside::{self, Change};
use super::latency::inheritance_of;
use super::quantity::{byte_rate, duration, length, three_digits};
use super::{observed_calls, observed_writes};

/// The number of rows of observed calls or writes on the first page: those with the most time.
const SHOWN_FLOWS: usize = 3;

/// A paragraph for each test of the run. `layers` contains the divided writes and `conditions` the
/// explained comparisons, if they were recorded.
#[must_use]
pub fn paragraphs(results: &Results, layers: &[SeriesLayers<'_>], conditions: &[Explained<'_>]) -> String {
    let mut out = String::new();
    if let Some(baseline) = &results.baseline {
        out.push_str("Baseline, and the ratio to its futex\n");
        baseline_lines(&mut out, baseline);
    }
    if let Some(throughput) = &results.throughput {
        let _ = writeln!(out, "Throughput, placement {}", throughput.plan.placement);
        throughput.rows.iter().for_each(|row| throughput_line(&mut out, row));
    }
    if let Some(latency) = &results.latency {
        let _ = writeln!(out, "\nLatency against {}", duration(latency.plan.deadline.ns as f64));
        latency.series.iter().for_each(|series| latency_lines(&mut out, series, latency.plan.mode));
    }
    if let Some(workers) = &results.workers {
        out.push_str("\nMany callers\n");
        workers_line(&mut out, workers);
    }
    if let Some(observed) = &results.observed_calls {
        let _ = writeln!(out, "\nObserved: {}", observed_calls::answer(observed));
        for (name, text) in observed_calls::most_time(observed, SHOWN_FLOWS) {
            let _ = writeln!(out, "  {name}\n    {text}");
        }
    }
    if let Some(observed) = &results.observed_writes {
        let _ = writeln!(out, "\nObserved: {}", observed_writes::answer(observed));
        for (name, text) in observed_writes::most_time(observed, SHOWN_FLOWS) {
            let _ = writeln!(out, "  {name}\n    {text}");
        }
    }
    if let Some(storage) = &results.storage {
        out.push_str("\nSynchronous writes\n");
        storage_lines(&mut out, storage, layers);
    }
    if !conditions.is_empty() {
        out.push_str("\nThe median write with background load, as a ratio to the lone writer\n");
        conditions.iter().for_each(|one| beside_line(&mut out, one, beside::control(conditions, one)));
    }
    out.trim_start_matches('\n').to_owned()
}

fn line(out: &mut String, what: &str, text: &str) {
    let _ = writeln!(out, "  {what:<20} {text}");
}

/// A line about writes, which have longer names.
fn long_line(out: &mut String, what: &str, text: &str) {
    let _ = writeln!(out, "  {what:<26} {text}");
}

/// The baseline, the driver and both stacks, from one interleaved run: ratios are only meaningful
/// within one run.
fn baseline_lines(out: &mut String, baseline: &BaselineResult) {
    let Some(&least) = baseline.plan.sizes_bytes.iter().min() else { return };
    for transport in [FUTEX, "binder-driver", "binder", "hwbinder"] {
        let parts = CpuPlacement::ALL.into_iter().filter_map(|placement| {
            let cell = baseline.cell(transport, least, placement)?;
            let place = match placement {
                CpuPlacement::Same => "on one CPU",
                CpuPlacement::Split => "across two",
                CpuPlacement::Free => "placed by the scheduler",
            };
            let ratio = cell.against_futex.filter(|_| transport != FUTEX);
            let ratio = ratio.map(|ratio| format!(" ({:.2}x)", ratio.median)).unwrap_or_default();
            Some(format!("{}{ratio} {place}", duration(cell.median_ns()?)))
        });
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            line(out, &format!("{transport}, {}", length(least)), &parts.join(", "));
        }
    }
}

fn throughput_line(out: &mut String, row: &ThroughputRow) {
    let Some(rate) = row.bytes_per_second() else { return };
    let percentile = |percent| row.latency.as_ref().and_then(|latency| latency.percentile_ns(percent));
    // Percentiles of single calls if there are some, because the mean of a batch includes
    // disturbances.
    let mut text = match (percentile(50.0), percentile(99.0), row.real_time_ns()) {
        (Some(p50), Some(p99), _) => {
            format!("p50 {}, p99 {}", duration(p50 as f64), duration(p99 as f64))
        }
        (_, _, Some(ns)) => format!("{} a call", duration(ns)),
        _ => return,
    };
    let _ = write!(text, "; {} one way", byte_rate(rate));
    line(out, &format!("{}, {}", row.stack, length(row.size_bytes)), &text);
}

fn latency_lines(out: &mut String, series: &Series, mode: Mode) {
    let Some(all) = series.all() else { return };
    for caller in &all.callers {
        let percentile = |percent| caller.latency.percentile_ns(percent).map(|ns| duration(ns as f64));
        let (Some(p50), Some(p999), Some(max_ns)) =
            (percentile(50.0), percentile(99.9), caller.latency.max_ns())
        else {
            continue;
        };
        line(
            out,
            &format!("{}, {}", series.stack, caller.caller),
            &format!(
                "p50 {p50}, p99.9 {p999}, worst {}; {} of {} calls missed",
                duration(max_ns as f64),
                caller.deadline.missed,
                caller.count(),
            ),
        );
    }
    let mut text = format!("real-time inheritance: {}", inheritance_of(series, mode));
    if all.count() > 0 {
        let percent = all.same_cpu() as f64 / all.count() as f64 * 100.0;
        let _ = write!(text, "; {percent:.0}% of calls served on the caller's CPU");
    }
    line(out, &series.stack.to_string(), &text);
}

fn workers_line(out: &mut String, result: &WorkersResult) {
    let percentile = |percent| result.latency.percentile_ns(percent).map(|ns| duration(ns as f64));
    let (Some(p50), Some(p99), Some(max_ns)) = (percentile(50.0), percentile(99.0), result.latency.max_ns())
    else {
        return;
    };
    line(
        out,
        &format!("{}, {}", result.plan.stack, length(result.plan.size_bytes)),
        &format!(
            "{:.0} calls a second; p50 {p50}, p99 {p99}, worst {}",
            result.iterations_per_s,
            duration(max_ns as f64)
        ),
    );
}

/// The maximum number of layers in a line.
const LAYERS: usize = 3;

fn storage_lines(out: &mut String, result: &StorageResult, layers: &[SeriesLayers<'_>]) {
    for series in &result.series {
        let Some(writer) = result.writers.get(series.writer) else { continue };
        let percentile = |percent| series.latency.percentile_ns(percent).map(|ns| duration(ns as f64));
        let (Some(p50), Some(p99)) = (percentile(50.0), percentile(99.0)) else { continue };
        let mut text = format!("p50 {p50}, p99 {p99}");
        let divided = layers
            .iter()
            .find(|one| one.series.writer == series.writer && one.series.size_bytes == series.size_bytes);
        if let Some(SeriesLayers { breakdown, .. }) = divided {
            let mut shares: Vec<_> =
                Layer::ALL.into_iter().map(|layer| (layer, breakdown.share(layer))).collect();
            shares.sort_by(|one, other| other.1.total_cmp(&one.1));
            let shares = shares.iter().take(LAYERS).filter(|(_, share)| *share >= 0.01);
            let shares: Vec<String> =
                shares.map(|(layer, share)| format!("{:.0}% {}", share * 100.0, layer.name())).collect();
            let _ = write!(text, "; {}", shares.join(", "));
        }
        let who = format!("{}, {}, {}", writer.api, writer.durability, length(series.size_bytes as usize));
        long_line(out, &who, &text);
    }
}

fn beside_line(out: &mut String, one: &Explained<'_>, control: Option<&Explained<'_>>) {
    let Some(found) = one.beside.response() else { return };
    let verdict = match control.and_then(|control| beside::change(one, control)) {
        _ if one.beside.condition == Condition::Alone => "the effect of chance alone".to_owned(),
        Some(Change::Some(mean)) => {
            format!("{} times as long on average; some writes wait very long", three_digits(mean))
        }
        Some(Change::Usual(ratio)) => if ratio > 1.0 { "longer" } else { "shorter" }.to_owned(),
        None => "no difference beyond chance".to_owned(),
    };
    let has_control =
        control.is_some_and(|control| control.beside.response().is_some_and(|of| of.interval.is_some()));
    let text = match found.interval.filter(|_| has_control) {
        Some(own) => format!("{:.2} ({:.2} to {:.2}): {verdict}", found.median, own.low, own.high),
        None => format!("{:.2}: cannot tell; fewer than 6 rounds", found.median),
    };
    let who = format!("{}, {}", one.beside.condition, length(one.beside.size_bytes as usize));
    long_line(out, &who, &text);
}

#[cfg(test)]
mod tests {
    use ::latency::Histogram;
    use run::ipc::Stack;
    use run::ipc::throughput::{Batch, ThroughputPlan, ThroughputResult};

    use super::*;
    use crate::latency::fixture;

    fn throughput(latency: Option<Histogram>) -> Results {
        let batch = Batch { iterations: 100, elapsed_ns: 1_000_000, cpu_ns: 500_000, one_way_bytes: 409_600 };
        let row = ThroughputRow {
            stack: Stack::Binder,
            size_bytes: 4096,
            client_cpus: vec![0],
            server_cpus: vec![1],
            batches: vec![batch],
            latency,
        };
        let plan = ThroughputPlan::default();
        ThroughputResult {
            plan,
            backend: None,
            clock_read_cost_ns: 20.0,
            rows: vec![row],
            limits: vec![],
            wake_up: None,
        }
        .into()
    }

    #[test]
    fn a_call_is_summarised_by_its_median_or_else_by_the_mean_of_batches() {
        let mut single = Histogram::new();
        (0..100).for_each(|_| single.record(8_000));
        assert_eq!(
            paragraphs(&throughput(Some(single)), &[], &[]),
            "Throughput, placement free\n  binder, 4 KiB        p50 8.00 us, p99 8.00 us; 410 MB/s one way\n"
        );
        assert_eq!(
            paragraphs(&throughput(None), &[], &[]),
            "Throughput, placement free\n  binder, 4 KiB        10.0 us a call; 410 MB/s one way\n"
        );
    }

    #[test]
    fn latency_is_summarised_by_caller_with_the_result_of_inheritance() {
        let text = paragraphs(&fixture::result().into(), &[], &[]);
        assert!(text.starts_with("Latency against 2.50 ms\n"), "{text}");
        for hint in [
            "hwbinder, fifo:99    p50 120 us",
            "1 of 3 calls missed",
            "real-time inheritance: PASS; 67% of calls",
            "real-time inheritance: off; ",
        ] {
            assert!(text.contains(hint), "no '{hint}' in:\n{text}");
        }
    }

    #[test]
    fn a_write_is_summarised_by_its_percentiles_and_largest_layers() {
        let result = crate::storage_fixture::result();
        let layers = crate::storage_fixture::layers(&result);
        let text = paragraphs(&result.clone().into(), &layers, &[]);
        insta::assert_snapshot!(text);
    }
}
