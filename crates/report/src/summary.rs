//! A run in a few sentences: what a newcomer wants to know first. Pure: a result in, text out.

use std::fmt::Write as _;

use run::CpuPlacement;
use run::Results;
use run::floor::{BASELINE, FloorResult};
use run::ipc::Mode;
use run::ipc::latency::Series;
use run::ipc::throughput::ThroughputRow;

use super::latency::inheritance_of;
use super::quantity::{byte_rate, duration, length};

/// A paragraph for each test that was run.
pub fn paragraphs(results: &Results) -> String {
    let mut out = String::new();
    if let Some(floor) = &results.floor {
        out.push_str("Baseline, and the ratio to its futex\n");
        floor_lines(&mut out, floor);
    }
    if let Some(throughput) = &results.throughput {
        let _ = writeln!(out, "\nThroughput, placement {}", throughput.plan.placement);
        throughput.rows.iter().for_each(|row| throughput_line(&mut out, row));
    }
    if let Some(latency) = &results.latency {
        let _ = writeln!(out, "\nLatency against {}", duration(latency.plan.deadline.ns as f64));
        latency.series.iter().for_each(|series| latency_lines(&mut out, series, latency.plan.mode));
    }
    out
}

fn line(out: &mut String, what: &str, text: &str) {
    let _ = writeln!(out, "  {what:<20} {text}");
}

/// The floor, and the driver and both stacks in the same interleaved run: only there a ratio means something.
fn floor_lines(out: &mut String, floor: &FloorResult) {
    let Some(&least) = floor.plan.sizes_bytes.iter().min() else { return };
    for transport in [BASELINE, "binder-driver", "binder", "hwbinder"] {
        let parts = CpuPlacement::ALL.into_iter().filter_map(|placement| {
            let cell = floor.cell(transport, least, placement)?;
            let place = match placement {
                CpuPlacement::Same => "on one CPU",
                CpuPlacement::Split => "across two",
                CpuPlacement::Free => "left to the kernel",
            };
            let ratio = cell.against_futex.filter(|_| transport != BASELINE);
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
    // Of single calls where there are some: a mean over a batch also holds what others did to it meanwhile.
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
    fn a_call_is_told_by_its_median_or_where_no_call_was_timed_alone_by_its_mean() {
        let mut single = Histogram::new();
        (0..100).for_each(|_| single.record(8_000));
        assert_eq!(
            paragraphs(&throughput(Some(single))),
            "\nThroughput, placement free\n  binder, 4 KiB        p50 8.00 us, p99 8.00 us; 410 MB/s one way\n"
        );
        assert_eq!(
            paragraphs(&throughput(None)),
            "\nThroughput, placement free\n  binder, 4 KiB        10.0 us a call; 410 MB/s one way\n"
        );
    }

    #[test]
    fn latency_is_told_by_caller_and_inheritance_with_its_reason() {
        let text = paragraphs(&fixture::result().into());
        assert!(text.starts_with("\nLatency against 2.50 ms\n"), "{text}");
        for hint in [
            "hwbinder, fifo:99    p50 120 us",
            "1 of 3 calls missed",
            "real-time inheritance: PASS; 67% of calls",
            "real-time inheritance: off; ",
        ] {
            assert!(text.contains(hint), "no '{hint}' in:\n{text}");
        }
    }
}
