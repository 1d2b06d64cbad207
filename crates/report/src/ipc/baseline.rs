//! The baseline's results as tables. Pure: a result in, text out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use roundtrip_run::baseline::{BaselineCell, BaselineResult};
use roundtrip_run::{CpuPlacement, Tested};

use crate::text::look::Look;
use crate::text::quantity::{cpus, length, three_digits};
use crate::text::table::{Column, Table, under_headings};

/// One table per placement: for each size, the median with its spread over the rounds, and the
/// ratio to the futex.
#[must_use]
pub fn tables(result: &BaselineResult, look: Look) -> String {
    under_headings(parts(result), look)
}

/// The tables with their headings, and the meaning of their columns.
pub(crate) fn parts(result: &BaselineResult) -> (Vec<(String, Table)>, String) {
    let mut tables = Vec::new();
    for &placement in &result.plan.placements {
        let cells: Vec<_> = result.cells.iter().filter(|cell| cell.placement == placement).collect();
        let Some(first) = cells.first() else { continue };
        let sizes = &result.plan.sizes_bytes;
        let columns = sizes.iter().flat_map(|&bytes| {
            [Column::number(&length(bytes), "us"), Column::number("+-%", ""), Column::number("/futex", "")]
        });
        let mut table = Table::new([Column::text("transport")].into_iter().chain(columns));
        let mut names: Vec<&str> = cells.iter().map(|cell| cell.transport.as_str()).collect();
        names.dedup();
        for name in names {
            let row = sizes.iter().flat_map(|&bytes| match result.cell(name, bytes, placement) {
                Some(cell) => figures(cell),
                None => ["-", "", ""].map(str::to_owned),
            });
            table.row([name.to_owned()].into_iter().chain(row));
        }
        tables.push((heading(placement, first), table));
    }
    if result.recorder.is_some() {
        tables.push(("What the flight recorder costs".to_owned(), recorded(result)));
    }
    (tables, notes(result))
}

/// Notes: the meaning of the columns that are shown, and what could not be measured.
fn notes(result: &BaselineResult) -> String {
    let mut out = String::new();
    if let Some(recorder) = &result.recorder {
        let _ = writeln!(
            out,
            "The flight recorder records {} kernel events, with {} kB for each CPU. on/off is the median of \
             the rounds' ratios.",
            recorder.events.len(),
            recorder.kilobytes
        );
    }
    let _ = writeln!(
        out,
        "Medians of {} rounds; +-% is half the interquartile range of the rounds. /futex is the median ratio to the\n\
         futex in the same round. Each figure contains about {} ns for reading the clock.",
        result.plan.rounds,
        three_digits(result.clock_read_cost_ns),
    );
    if let Some(backend) = result.backend() {
        let over: BTreeSet<&str> = result
            .cells
            .iter()
            .filter(|cell| cell.backend.is_some())
            .map(|cell| cell.transport.as_str())
            .collect();
        let over: Vec<&str> = over.into_iter().collect();
        let _ = writeln!(out, "Over the {backend}: {}.", over.join(", "));
        if let Some(wake_up) = &result.wake_up {
            let _ = writeln!(out, "It wakes threads {wake_up}.");
        }
    }
    for entry in &result.not_possible {
        let what = [
            entry.transport.clone(),
            entry.size_bytes.map(length),
            entry.placement.map(|placement| format!("placement {placement}")),
        ];
        let what: Vec<_> = what.into_iter().flatten().collect();
        let _ = writeln!(out, "Not possible: {}: {}", what.join(", "), entry.reason);
    }
    out
}

/// The time of each cell with and without the flight recorder.
fn recorded(result: &BaselineResult) -> Table {
    let mut table = Table::new([
        Column::text("flight recorder"),
        Column::text("placement"),
        Column::text("size"),
        Column::number("off", "us"),
        Column::number("on", "us"),
        Column::number("on/off", ""),
        Column::text("95% interval"),
    ]);
    for cell in &result.cells {
        let Some(recorded) = &cell.recorded else { continue };
        let us = |ns: Option<f64>| ns.map(|ns| three_digits(ns / 1000.0)).unwrap_or_default();
        let ratio = recorded.against_off;
        let interval = ratio.and_then(|ratio| ratio.interval);
        table.row([
            cell.transport.clone(),
            cell.placement.to_string(),
            length(cell.size_bytes),
            us(cell.median_ns()),
            us(recorded.median_ns()),
            ratio.map(|ratio| format!("{:.2}", ratio.median)).unwrap_or_default(),
            interval.map(|interval| format!("{:.2}-{:.2}", interval.low, interval.high)).unwrap_or_default(),
        ]);
    }
    table
}

fn heading(placement: CpuPlacement, cell: &BaselineCell) -> String {
    match placement {
        CpuPlacement::Same => format!("Both sides on CPU {}", cpus(&cell.client_cpus, ",")),
        CpuPlacement::Split => {
            let [client, server] = [&cell.client_cpus, &cell.server_cpus].map(|list| cpus(list, ","));
            format!("Client on CPU {client}, server on CPU {server}")
        }
        CpuPlacement::Free => match cell.client_cpus[..] {
            [first, second, ..] => {
                format!(
                    "Wherever the kernel places them, starting on CPU {first} (client) and CPU {second} \
                     (server)"
                )
            }
            _ => "Wherever the kernel places them".to_owned(),
        },
    }
}

/// The median in us, the spread in percent, and the ratio.
fn figures(cell: &BaselineCell) -> [String; 3] {
    let quartiles = cell.quantile_ns(0.25).zip(cell.quantile_ns(0.75)).zip(cell.median_ns());
    let spread = quartiles.map(|((q1, q3), median)| format!("{:.0}", (q3 - q1) / 2.0 / median * 100.0));
    [
        cell.median_ns().map(|ns| three_digits(ns / 1000.0)).unwrap_or_default(),
        spread.unwrap_or_default(),
        cell.against_futex.map(|comparison| format!("{:.2}", comparison.median)).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::{Comparison, Histogram};
    use roundtrip_run::RecorderInfo;
    use roundtrip_run::baseline::{BaselinePlan, NotPossible, RecordedCell};
    use roundtrip_run::ipc::{Backend, Profile};

    use super::*;

    fn cell(
        transport: &str,
        size_bytes: usize,
        placement: CpuPlacement,
        medians_ns: [u64; 3],
    ) -> BaselineCell {
        let mut latency = Histogram::new();
        medians_ns.into_iter().for_each(|ns| latency.record(ns));
        let medians = medians_ns.map(|ns| ns as f64);
        BaselineCell {
            transport: transport.into(),
            backend: (transport == "binder").then_some(Backend::Emulated { profile: Profile::Ack }),
            size_bytes,
            placement,
            client_cpus: vec![0],
            server_cpus: vec![if placement == CpuPlacement::Same { 0 } else { 1 }],
            round_medians_ns: medians_ns.into(),
            latency,
            against_futex: Comparison::of_rounds(&medians, &[2000.0, 2000.0, 2000.0]).ok(),
            recorded: None,
        }
    }

    fn result() -> BaselineResult {
        BaselineResult {
            plan: BaselinePlan {
                sizes_bytes: vec![4, 65536],
                placements: vec![CpuPlacement::Same, CpuPlacement::Split],
                rounds: 3,
                ..BaselinePlan::default()
            },
            clock_read_cost_ns: 25.0,
            cells: vec![
                cell("futex", 4, CpuPlacement::Same, [2000, 2000, 2000]),
                cell("futex", 65536, CpuPlacement::Same, [5000, 5600, 6200]),
                cell("mqueue", 4, CpuPlacement::Same, [2500, 2500, 2500]),
                cell("futex", 4, CpuPlacement::Split, [8000, 8000, 9000]),
                cell("binder", 4, CpuPlacement::Split, [9000, 9000, 9000]),
            ],
            not_possible: vec![NotPossible {
                transport: Some("mqueue".into()),
                size_bytes: Some(65536),
                placement: None,
                reason: "at most 8192 bytes: fs.mqueue.msgsize_max".into(),
            }],
            recorder: None,
            wake_up: None,
        }
    }

    #[test]
    fn each_placement_has_a_table_with_notes_on_missing_cells_below() {
        let expected = "\
Both sides on CPU 0
transport  4 B (us)  +-%  /futex  64 KiB (us)  +-%  /futex
futex          2.00    0    1.00         5.60    5    2.80
mqueue         2.50    0    1.25            -

Client on CPU 0, server on CPU 1
transport  4 B (us)  +-%  /futex  64 KiB (us)  +-%  /futex
futex          8.00    3    4.00            -
binder         9.00    0    4.50            -

Medians of 3 rounds; +-% is half the interquartile range of the rounds. /futex is the median ratio to the
futex in the same round. Each figure contains about 25.0 ns for reading the clock.
Over the emulated driver (ack profile): binder.
Not possible: mqueue, 64 KiB: at most 8192 bytes: fs.mqueue.msgsize_max
";
        assert_eq!(tables(&result(), Look::PLAIN), expected);
    }

    #[test]
    fn the_cost_of_the_recorder_has_a_separate_table() {
        let mut result = result();
        result.recorder = Some(RecorderInfo {
            events: vec!["sched/sched_switch".into()],
            missing: vec![],
            kilobytes: 4096,
        });
        let on_ns = [2500.0; 3];
        result.cells[0].recorded = Some(RecordedCell {
            round_medians_ns: vec![2500; 3],
            against_off: Comparison::of_rounds(&on_ns, &[2000.0; 3]).ok(),
            ..RecordedCell::default()
        });
        let text = tables(&result, Look::PLAIN);
        let line = text.lines().find(|line| line.ends_with("1.25")).unwrap_or_else(|| panic!("{text}"));
        assert!(line.starts_with("futex") && line.contains("same"), "{line}");
        assert!(text.contains("1 kernel events, with 4096 kB for each CPU"), "{text}");
    }
}
