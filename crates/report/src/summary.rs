//! A run in a few sentences: what a new user wants to know first. Pure: a result in, text out.

use std::fmt::Write as _;

use roundtrip_analysis::interference::Explained;
use roundtrip_analysis::storage::SeriesLayers;
use roundtrip_layers::storage::Layer;
use roundtrip_run::CpuPlacement;
use roundtrip_run::baseline::{BaselineResult, FUTEX};
use roundtrip_run::ipc::Mode;
use roundtrip_run::ipc::latency::{CallerResult, LatencyResult, Response, Series};
use roundtrip_run::ipc::observe::ObserveResult;
use roundtrip_run::ipc::throughput::{ThroughputResult, ThroughputRow};
use roundtrip_run::ipc::workers::WorkersResult;
use roundtrip_run::storage::StorageResult;
use roundtrip_run::storage::interference::Condition;
use roundtrip_run::storage::observe::ObserveWritesResult;
use roundtrip_run::storage::system_calls::SystemCallsResult;
use roundtrip_sorting::SmallSort as _;

use crate::ipc::latency::inheritance_of;
use crate::ipc::observed_calls;
use crate::storage::beside::{self, Change, Verdict};
use crate::storage::{observed_writes, system_calls};
use crate::text::quantity::{byte_rate, duration, length, percentiles, three_digits};

/// The number of rows of observed calls or writes on the first page: those with the most time.
const SHOWN_FLOWS: usize = 3;

/// The paragraph of a latency test.
pub(crate) fn latency(result: &LatencyResult) -> String {
    let mut out = format!("Latency against {}\n", duration(result.plan.deadline.ns as f64));
    result.series.iter().for_each(|series| latency_lines(&mut out, series, result.plan.mode));
    out
}

/// The paragraph of a throughput test.
pub(crate) fn throughput(result: &ThroughputResult) -> String {
    let mut out = format!("Throughput, placement {}\n", result.plan.placement);
    result.rows.iter().for_each(|row| throughput_line(&mut out, row));
    out
}

/// The paragraph of observed calls: those with the most time.
pub(crate) fn observed_calls(result: &ObserveResult) -> String {
    observed(&observed_calls::answer(result), observed_calls::most_time(result, SHOWN_FLOWS))
}

/// The paragraph of observed writes: those with the most time.
pub(crate) fn observed_writes(result: &ObserveWritesResult) -> String {
    observed(&observed_writes::answer(result), observed_writes::most_time(result, SHOWN_FLOWS))
}

pub(crate) fn system_calls(result: &SystemCallsResult) -> String {
    observed(&system_calls::answer(result), std::iter::empty())
}

fn observed(answer: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    rows.fold(format!("Observed: {answer}\n"), |out, (name, text)| {
        out + "  " + &name + "\n    " + &text + "\n"
    })
}

/// The paragraph of writes with background load; `None` if they were not explained.
pub(crate) fn interference(conditions: &[Explained<'_>]) -> Option<String> {
    let mut out = "The median write with background load, as a ratio to the lone writer\n".to_owned();
    conditions.iter().for_each(|one| beside_line(&mut out, one, beside::control(conditions, one)));
    (!conditions.is_empty()).then_some(out)
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
pub(crate) fn baseline(baseline: &BaselineResult) -> String {
    let mut out = "Baseline, and the ratio to its futex\n".to_owned();
    let Some(&least) = baseline.plan.sizes_bytes.iter().min() else { return out };
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
            line(&mut out, &format!("{transport}, {}", length(least)), &parts.join(", "));
        }
    }
    out
}

fn throughput_line(out: &mut String, row: &ThroughputRow) {
    let Some(rate) = row.bytes_per_second() else { return };
    // Percentiles of single calls if there are some, because the mean of a batch includes
    // disturbances.
    let mut text = match (&row.latency, row.real_time_ns()) {
        (Some(latency), _) if !latency.is_empty() => percentiles(latency, &[50.0, 99.0]),
        (_, Some(ns)) => format!("{} a call", duration(ns)),
        _ => return,
    };
    let _ = write!(text, "; {} one way", byte_rate(rate));
    line(out, &format!("{}, {}", row.stack, length(row.size_bytes)), &text);
}

fn latency_lines(out: &mut String, series: &Series, mode: Mode) {
    let Some(all) = series.all() else { return };
    for caller in all.callers.iter().filter(|caller| !caller.latency.is_empty()) {
        line(
            out,
            &format!("{}, {}", series.stack, caller.caller),
            &format!(
                "{}; {} of {} calls missed{}",
                percentiles(caller.times(), &[50.0, 99.9]),
                caller.missed(),
                caller.count(),
                reached(caller),
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

/// The rate of a caller that had one, to whose schedule its times refer.
fn reached(caller: &CallerResult) -> String {
    let rate_per_s = caller.response.as_ref().and_then(Response::rate_per_s);
    rate_per_s.map(|rate| format!(", of {}/s from when each was due", three_digits(rate))).unwrap_or_default()
}

/// The paragraph of many callers.
pub(crate) fn workers(result: &WorkersResult) -> String {
    let mut out = "Many callers\n".to_owned();
    if result.latency.is_empty() {
        return out;
    }
    line(
        &mut out,
        &format!("{}, {}", result.plan.stack, length(result.plan.size_bytes)),
        &format!(
            "{:.0} calls a second; {}",
            result.iterations_per_s,
            percentiles(&result.latency, &[50.0, 99.0])
        ),
    );
    out
}

/// The maximum number of layers in a line.
const LAYERS: usize = 3;

/// The paragraph of synchronous writes.
pub(crate) fn storage(result: &StorageResult, layers: &[SeriesLayers<'_>]) -> String {
    let mut out = "Synchronous writes\n".to_owned();
    for series in &result.series {
        let Some(writer) = result.writers.get(series.writer) else { continue };
        if series.latency.is_empty() {
            continue;
        }
        let mut text = percentiles(&series.latency, &[50.0, 99.0]);
        let divided = layers
            .iter()
            .find(|one| one.series.writer == series.writer && one.series.size_bytes == series.size_bytes);
        if let Some(SeriesLayers { breakdown, .. }) = divided {
            let mut shares: Vec<_> =
                Layer::ALL.into_iter().map(|layer| (layer, breakdown.share(layer))).collect();
            shares.small_sort_by(|one, other| other.1.total_cmp(&one.1));
            let shares = shares.iter().take(LAYERS).filter(|(_, share)| *share >= 0.01);
            let shares: Vec<String> =
                shares.map(|(layer, share)| format!("{:.0}% {}", share * 100.0, layer.name())).collect();
            let _ = write!(text, "; {}", shares.join(", "));
        }
        let who = format!("{}, {}, {}", writer.api, writer.durability, length(series.size_bytes as usize));
        long_line(&mut out, &who, &text);
    }
    out
}

fn beside_line(out: &mut String, one: &Explained<'_>, control: Option<&Explained<'_>>) {
    let Some(found) = one.beside.response() else { return };
    let longer = |change: Change| if change.ratio() > 1.0 { "longer" } else { "shorter" };
    let verdict = match control.map_or(Verdict::None, |control| beside::verdict(one, control)) {
        _ if one.beside.condition == Condition::Alone => "the effect of chance alone".to_owned(),
        Verdict::Changes(Change::Some(mean), _) => {
            format!("{} times as long on average; some writes wait very long", three_digits(mean))
        }
        Verdict::Changes(change, Some(why)) => format!("{}: {}", longer(change), beside::because(why)),
        Verdict::Changes(change, None) => format!("{}; no events show why", longer(change)),
        Verdict::Unexplained(_) => "cannot tell; no part of the write that explains it changed".to_owned(),
        Verdict::None => "no difference beyond chance".to_owned(),
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
    use roundtrip_analysis::Analysed;

    use roundtrip_latency::Histogram;
    use roundtrip_run::ipc::Stack;
    use roundtrip_run::ipc::throughput::{Batch, ThroughputPlan};
    use roundtrip_run::{Results, Run};

    use super::*;
    use crate::ipc::latency::fixture;
    use crate::kinds::summary;

    fn shown(results: Results) -> String {
        summary(&Analysed::bare(&Run::new(Default::default(), results, None)))
    }

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
            shown(throughput(Some(single))),
            "Throughput, placement free\n  binder, 4 KiB        p50 8.00 us, p99 8.00 us, worst 8.00 us; 410 MB/s one way\n"
        );
        assert_eq!(
            shown(throughput(None)),
            "Throughput, placement free\n  binder, 4 KiB        10.0 us a call; 410 MB/s one way\n"
        );
    }

    #[test]
    fn latency_is_summarised_by_caller_with_the_result_of_inheritance() {
        let text = shown(fixture::result().into());
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
        let result = crate::storage::fixture::result();
        let layers = crate::storage::fixture::layers(&result);
        let run = Run::new(Default::default(), result.clone().into(), None);
        let text = summary(&Analysed { layers, ..Analysed::bare(&run) });
        insta::assert_snapshot!(text);
    }
}
