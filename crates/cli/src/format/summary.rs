//! A run in a few sentences: what a newcomer wants to know first. Pure: a result in, text out.

use std::fmt::Write as _;

use bench::floor::{BASELINE, CpuPlacement, FloorResult};
use bench::ipc::latency::Series;
use bench::ipc::throughput::{ThroughputResult, ThroughputRow};
use bench::run::Results;

use super::quantity::{byte_rate, duration, length};

/// A paragraph for each test that was run.
pub(crate) fn paragraphs(results: &Results) -> String {
    let mut out = String::new();
    if let Some(floor) = &results.floor {
        out.push_str("The floor\n");
        floor_line(&mut out, floor);
    }
    if let Some(throughput) = &results.throughput {
        out.push_str("\nThroughput\n");
        throughput.rows.iter().for_each(|row| throughput_line(&mut out, row, throughput, results));
    }
    if let Some(latency) = &results.latency {
        let _ = writeln!(out, "\nLatency against {}", duration(latency.plan.deadline.ns as f64));
        latency.series.iter().for_each(|series| latency_lines(&mut out, series));
    }
    out
}

fn line(out: &mut String, what: &str, text: &str) {
    let _ = writeln!(out, "  {what:<20} {text}");
}

fn floor_line(out: &mut String, floor: &FloorResult) {
    let Some(&least) = floor.plan.sizes_bytes.iter().min() else { return };
    let parts = CpuPlacement::ALL.into_iter().filter_map(|placement| {
        let ns = floor.cell(BASELINE, least, placement)?.median_ns()?;
        let place = match placement {
            CpuPlacement::Same => "on one CPU",
            CpuPlacement::Split => "across two",
            CpuPlacement::Free => "left to the kernel",
        };
        Some(format!("{} {place}", duration(ns)))
    });
    let parts: Vec<_> = parts.collect();
    if !parts.is_empty() {
        line(out, &format!("futex, {}", length(least)), &parts.join(", "));
    }
}

fn throughput_line(out: &mut String, row: &ThroughputRow, throughput: &ThroughputResult, results: &Results) {
    let (Some(ns), Some(rate)) = (row.real_time_ns(), row.bytes_per_second()) else { return };
    let mut text = format!("{} a call", duration(ns));
    let p99 = row.latency.as_ref().and_then(|latency| latency.percentile_ns(99.0));
    if let Some(p99_ns) = p99 {
        let _ = write!(text, ", p99 {}", duration(p99_ns as f64));
    }
    let _ = write!(text, "; {} one way", byte_rate(rate));
    // Only figures of one placement and size can be compared; they are of one run, but not interleaved.
    let placement = throughput.plan.placement;
    let floor =
        results.floor.as_ref().and_then(|floor| floor.cell(BASELINE, row.size_bytes, placement)?.median_ns());
    if let Some(floor_ns) = floor {
        let _ = write!(text, "; about {:.1} times the floor", ns / floor_ns);
    }
    line(out, &format!("{}, {}", row.stack, length(row.size_bytes)), &text);
}

fn latency_lines(out: &mut String, series: &Series) {
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
    let mut text = format!("inheritance {}", series.verdict.name());
    if let Some(reason) = series.verdict.reason() {
        let _ = write!(text, " ({reason})");
    }
    if all.count() > 0 {
        let percent = all.same_cpu() as f64 / all.count() as f64 * 100.0;
        let _ = write!(text, "; {percent:.0}% of calls served on the caller's CPU");
    }
    line(out, &series.stack.to_string(), &text);
}
