//! A throughput result as tables. Pure: a result in, text out.

use std::fmt::Write as _;

use roundtrip_run::Load;
use roundtrip_run::ipc::throughput::{Batch, ThroughputResult, ThroughputRow};
use roundtrip_run::ipc::{Mode, Stack};

use crate::text::look::Look;
use crate::text::quantity::{self, cpus, three_digits};
use crate::text::table::{Column, Table, under_headings};

/// One table per stack, with one line per size.
#[must_use]
pub fn tables(result: &ThroughputResult, look: Look) -> String {
    under_headings(parts(result), look)
}

/// The tables with their headings, and the meaning of their columns.
pub(crate) fn parts(result: &ThroughputResult) -> (Vec<(String, Table)>, String) {
    let mut tables = Vec::new();
    let (unit, _) = time_unit(result.plan.mode);
    let repeated = result.plan.repetitions > 1;
    for &stack in &result.plan.stacks {
        let rows: Vec<_> = result.rows.iter().filter(|row| row.stack == stack).collect();
        let Some(first) = rows.first() else { continue };
        let spread = repeated.then(|| Column::number("+-%", ""));
        let percentiles = (result.plan.latency_calls > 0)
            .then(|| [Column::number("p50", unit), Column::number("p99", unit)])
            .into_iter()
            .flatten();
        let mut table = Table::new(
            [Column::number("size", "B"), Column::number("time", unit)]
                .into_iter()
                .chain(spread)
                .chain([Column::number("CPU", unit)])
                .chain(percentiles)
                .chain([Column::number("one way", ""), Column::number("calls", "")]),
        );
        rows.iter().for_each(|row| table.row(figures(row, result)));
        tables.push((heading(stack, result, first), table));
    }
    let mut out = String::new();
    let _ = write!(
        out,
        "time: one round trip, from calls timed as a whole. CPU: the client process's CPU time. one way: \
         payload\nbytes in one direction per second (8 B in 69.974 us are 114 kB/s)."
    );
    if result.plan.mode == Mode::Passthrough {
        let _ = write!(
            out,
            "\nA call in process passes its bytes without moving them, so the rate is not a bandwidth."
        );
    }
    if repeated {
        let _ = write!(
            out,
            "\nMedians of {} repetitions; +-% is half their interquartile range.",
            result.plan.repetitions
        );
    }
    if result.plan.latency_calls > 0 {
        let _ = write!(
            out,
            "\np50, p99: from up to {} further calls, timed one by one; each contains about {} ns for reading the clock.",
            result.plan.latency_calls,
            three_digits(result.clock_read_cost_ns)
        );
    }
    out.push('\n');
    (tables, out)
}

/// The unit of a table's times, and its length in nanoseconds. A call in process takes only a few
/// nanoseconds.
fn time_unit(mode: Mode) -> (&'static str, f64) {
    match mode {
        Mode::Binderize => ("us", 1000.0),
        Mode::Passthrough => ("ns", 1.0),
    }
}

/// The background load, at the end of a heading.
pub(super) fn load(loads: &[Load]) -> String {
    loads.iter().map(|load| format!(", with {} hogs ({})", load.hogs, load.scheduling)).collect()
}

fn heading(stack: Stack, result: &ThroughputResult, row: &ThroughputRow) -> String {
    let client = cpus(&row.client_cpus, ",");
    let load = load(&result.plan.loads);
    match row.server_cpus.is_empty() {
        true => format!("{stack}, {}, on CPU {client}{load}", result.plan.mode),
        false => {
            format!(
                "{stack}, {}, client on CPU {client}, server on CPU {}{load}",
                result.plan.mode,
                cpus(&row.server_cpus, ",")
            )
        }
    }
}

fn figures(row: &ThroughputRow, result: &ThroughputResult) -> Vec<String> {
    let (_, unit_ns) = time_unit(result.plan.mode);
    let time = |ns: f64| three_digits(ns / unit_ns);
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let mut cells = vec![quantity::size(row.size_bytes), or_dash(row.real_time_ns().map(time))];
    if result.plan.repetitions > 1 {
        let quartile = |q| row.quantile(q, Batch::real_time_ns);
        let spread = quartile(0.25).zip(quartile(0.75)).zip(row.real_time_ns());
        cells.push(or_dash(
            spread.map(|((q1, q3), median)| format!("{:.0}", (q3 - q1) / 2.0 / median * 100.0)),
        ));
    }
    cells.push(or_dash(row.cpu_time_ns().map(time)));
    if result.plan.latency_calls > 0 {
        for percent in [50.0, 99.0] {
            cells.push(or_dash(percentile_ns(row, percent).map(|ns| time(ns as f64))));
        }
    }
    cells.push(or_dash(row.bytes_per_second().map(quantity::byte_rate)));
    cells.push(row.batches.iter().map(|batch| batch.iterations).sum::<u64>().to_string());
    cells
}

/// A percentile of the individually timed calls.
fn percentile_ns(row: &ThroughputRow, percent: f64) -> Option<u64> {
    row.latency.as_ref()?.percentile_ns(percent)
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Histogram;
    use roundtrip_run::ipc::Backend;
    use roundtrip_run::ipc::DriverPlan;
    use roundtrip_run::ipc::throughput::{Length, ThroughputPlan};

    use super::*;

    fn batch(size_bytes: usize, call_ns: u64) -> Batch {
        Batch {
            iterations: 1000,
            elapsed_ns: 1000 * call_ns,
            cpu_ns: 400 * call_ns,
            one_way_bytes: 1000 * size_bytes as u64,
        }
    }

    fn row(stack: Stack, size_bytes: usize, calls_ns: &[u64], single_calls: u64) -> ThroughputRow {
        let latency: Histogram = (1..=single_calls).map(|n| n * 10).collect();
        ThroughputRow {
            stack,
            size_bytes,
            client_cpus: vec![0, 1],
            server_cpus: vec![1],
            batches: calls_ns.iter().map(|&ns| batch(size_bytes, ns)).collect(),
            latency: (single_calls > 0).then_some(latency),
        }
    }

    fn result() -> ThroughputResult {
        ThroughputResult {
            plan: ThroughputPlan {
                sizes_bytes: vec![8, 65536],
                length: Length::Iterations(1000),
                repetitions: 3,
                ..ThroughputPlan::default()
            },
            backend: Some(Backend::Emulated { profile: DriverPlan::default().profile }),
            clock_read_cost_ns: 25.0,
            rows: vec![
                row(Stack::Binder, 8, &[69_974, 69_974, 80_000], 1000),
                row(Stack::Binder, 65536, &[200_000, 210_000, 220_000], 1000),
                // Too few for a p99.
                row(Stack::Hwbinder, 8, &[2_500, 2_400, 2_450], 50),
            ],
            limits: Vec::new(),
            wake_up: None,
        }
    }

    #[test]
    fn each_stack_has_a_table_and_notes_that_explain_its_columns() {
        insta::assert_snapshot!(tables(&result(), Look::PLAIN));
    }

    #[test]
    fn there_is_no_spread_of_one_repetition_and_no_percentile_without_single_calls() {
        let mut result = result();
        result.plan = ThroughputPlan {
            repetitions: 1,
            latency_calls: 0,
            mode: Mode::Passthrough,
            stacks: vec![Stack::Hwbinder],
            ..result.plan
        };
        result.backend = None;
        result.rows = vec![ThroughputRow { server_cpus: Vec::new(), ..row(Stack::Hwbinder, 4, &[50], 0) }];
        insta::assert_snapshot!(tables(&result, Look::PLAIN));
    }
}
