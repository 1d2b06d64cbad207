//! The other IPC tests on the page: throughput by size with the baseline, mechanisms other than
//! binder, many callers, and binder against hwbinder.

use roundtrip_run::baseline::{BaselineResult, FUTEX};
use roundtrip_run::ipc::throughput::{Batch, ThroughputResult};
use roundtrip_sorting::SmallSort as _;

use super::bars::{Range, Ranges, Scale};
use super::chart::{Axis, Chart, Kind, Line, durations};
use super::each;
use super::over_time;
use super::page::Page;
use super::ranges::{ranges, ticks};
use super::subject::Subject;
use crate::ipc::{baseline, observed_calls, throughput, traits, workers};
use crate::text::quantity::{byte_rate, duration, length};
use crate::text::table::{Column, Table};

/// The number of rows of observed calls that are drawn: those with the most time. The table has all
/// rows.
const DRAWN: usize = 30;

/// Adds the baselines of all runs.
pub(crate) fn baseline(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        let result = subject.analysed.run.results.baseline.as_ref()?;
        page.ranges(&transports(result));
        let (tables, notes) = baseline::parts(result);
        tables.iter().for_each(|(heading, table)| page.folded(heading, table));
        page.notes(&notes);
        Some(())
    });
}

/// Adds the workers of all runs.
pub(crate) fn workers(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        let result = subject.analysed.run.results.workers.as_ref()?;
        let callers = result.callers.iter().map(|one| (format!("worker {}", one.worker), &one.latency));
        let callers: Vec<_> = callers.collect();
        page.ranges(&ranges("Each worker's calls: median, 99th percentile, worst", &callers, Vec::new()));
        let (heading, table, notes) = workers::parts(result);
        page.paragraphs("about", &heading);
        page.folded("Each worker, and all", &table);
        page.notes(&notes);
        Some(())
    });
}

/// Adds other programs' calls of all runs.
pub(crate) fn observed_calls(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        let result = subject.analysed.run.results.observed_calls.as_ref()?;
        page.paragraphs("about", &observed_calls::answer(result));
        let shown = result.flows.iter().filter(|flow| !flow.latency.is_empty()).take(DRAWN);
        let shown: Vec<_> = shown.map(|flow| (observed_calls::name(flow), &flow.latency)).collect();
        let title = "Calls by client, server and method: median, 99th percentile, worst";
        page.ranges(&ranges(title, &shown, Vec::new()));
        // With the slow calls, if there are any.
        if subject.explained.is_empty() {
            over_time(subject, subjects.len()).iter().for_each(|chart| page.chart(chart));
        }
        let (table, notes) = observed_calls::parts(result, observed_calls::MOST_ROWS);
        page.folded("All observed calls", &table);
        page.notes(&notes);
        Some(())
    });
}

/// Other programs' calls over the run, with those that were slow; `None` if there were none.
pub(super) fn over_time(subject: &Subject<'_>, runs: usize) -> Option<Chart> {
    let result = subject.analysed.run.results.observed_calls.as_ref()?;
    let calls = over_time::Calls { name: "all calls".into(), timeline: result.timeline.clone() };
    let slow = subject.explained.iter().map(over_time::Slow::of).collect::<Vec<_>>();
    let title = subject.named("Over the run", runs);
    over_time::chart(title, &[calls], &slow, Some(result.plan.deadline))
}

/// Adds other programs' system calls of all runs.
pub(crate) fn system_calls(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        let result = subject.analysed.run.results.system_calls.as_ref()?;
        let shown = result.rows.iter().take(DRAWN);
        let shown: Vec<_> = shown.map(|row| (row.call.clone(), &row.latency)).collect();
        page.ranges(&ranges("System calls: median, 99th percentile, worst", &shown, Vec::new()));
        let (table, notes) = crate::storage::system_calls::parts(result);
        page.table("All system calls", &table);
        page.notes(&notes);
        Some(())
    });
}

/// Adds the comparisons of the stacks of all runs.
pub(crate) fn traits(page: &mut Page, subjects: &[Subject<'_>]) {
    each(page, subjects, |page, subject| {
        let result = subject.analysed.run.results.traits.as_ref()?;
        let (table, notes) = traits::parts(result);
        page.paragraphs("about", &result.backend.to_string());
        page.table("Binder against hwbinder", &table);
        page.notes(&notes);
        Some(())
    });
}

/// Adds the throughput of all runs in one chart.
pub(crate) fn throughput(page: &mut Page, subjects: &[Subject<'_>]) {
    let ours: Vec<_> = subjects
        .iter()
        .filter_map(|one| Some((one, one.analysed.run.results.throughput.as_ref()?)))
        .collect();
    page.chart(&by_size(&ours, subjects));
    for (subject, result) in &ours {
        let (tables, notes) = throughput::parts(result);
        for (heading, table) in &tables {
            page.folded(&subject.named(heading, subjects.len()), table);
        }
        page.notes(&notes);
    }
}

/// The duration of a call by payload size, for each stack and for the baseline if the same run
/// measured it.
fn by_size(ours: &[(&Subject<'_>, &ThroughputResult)], subjects: &[Subject<'_>]) -> Chart {
    let runs = subjects.len();
    let mut lines = Vec::new();
    for (subject, result) in ours {
        for &stack in &result.plan.stacks {
            let rows = result.rows.iter().filter(|row| row.stack == stack);
            let points = rows.filter_map(|row| {
                let (ns, rate) = (row.real_time_ns()?, row.quantile(0.5, Batch::bytes_per_second)?);
                let size = length(row.size_bytes);
                Some((
                    row.size_bytes as f64,
                    ns,
                    format!("{size}: {}, {} one way", duration(ns), byte_rate(rate)),
                ))
            });
            lines.push(line(subject.named(&stack.to_string(), runs), points.collect()));
        }
    }
    // The baseline of the same run, and of runs that measured nothing else.
    for subject in subjects {
        let own = subject.analysed.run.results.throughput.as_ref();
        let placement = own.or(ours.first().map(|(_, result)| *result)).map(|result| result.plan.placement);
        if let (Some(baseline), Some(placement)) = (&subject.analysed.run.results.baseline, placement) {
            let cells =
                baseline.cells.iter().filter(|cell| cell.transport == FUTEX && cell.placement == placement);
            let points = cells.filter_map(|cell| {
                let ns = cell.median_ns()?;
                Some((cell.size_bytes as f64, ns, format!("{}: {}", length(cell.size_bytes), duration(ns))))
            });
            lines.push(line(subject.named(&format!("{FUTEX}, the baseline"), runs), points.collect()));
        }
    }
    let mut sizes: Vec<usize> =
        lines.iter().flat_map(|line| line.points.iter().map(|point| point.0 as usize)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let table = table_by_size(&lines, &sizes);
    let times = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let (low, high) = times().fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
    Chart {
        title: "A round trip by payload size".into(),
        about:
            "Each point is the median of the repetitions. The distance from the baseline to a stack is the \
             cost of that stack."
                .into(),
        kind: Kind::Lines,
        x: Axis {
            label: "payload each way".into(),
            scale: super::chart::Scale::Log,
            ticks: sizes.iter().map(|&size| (size as f64, length(size), 0)).collect(),
        },
        y: durations("a round trip", low, high),
        lines,
        widest: None,
        marks: Vec::new(),
        levels: Vec::new(),
        table,
    }
}

/// One row per size, with the time of each line.
fn table_by_size(lines: &[Line], sizes: &[usize]) -> Table {
    let mut table = Table::new(
        [Column::text("size")].into_iter().chain(lines.iter().map(|line| Column::number(&line.label, ""))),
    );
    for &size in sizes {
        let cells = lines.iter().map(|line| {
            let point = line.points.iter().find(|point| point.0 as usize == size);
            point.map_or_else(|| "-".to_owned(), |point| duration(point.1))
        });
        table.row([length(size)].into_iter().chain(cells));
    }
    table
}

fn line(label: String, mut points: Vec<(f64, f64, String)>) -> Line {
    points.small_sort_by(|one, other| one.0.total_cmp(&other.0));
    Line { label, points, apart: false, colour: None }
}

/// The duration of the smallest payload for each transport and placement.
fn transports(result: &BaselineResult) -> Ranges {
    let least = result.plan.sizes_bytes.iter().min().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for &placement in &result.plan.placements {
        for cell in result.cells.iter().filter(|cell| cell.size_bytes == least && cell.placement == placement)
        {
            let Some(((median, q1), q3)) =
                cell.median_ns().zip(cell.quantile_ns(0.25)).zip(cell.quantile_ns(0.75))
            else {
                continue;
            };
            let ratio = cell.against_futex.filter(|_| cell.transport != FUTEX);
            let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({:.2}x {FUTEX})", ratio.median));
            let text = format!("{}{ratio}", duration(median));
            rows.push(Range {
                label: format!("{}, {placement}", cell.transport),
                points: vec![(median, text.clone())],
                text,
                whole: None,
                most: Some((q1, q3)),
            });
        }
    }
    let all = || rows.iter().flat_map(|row| row.most.into_iter().flat_map(|(low, high)| [low, high]));
    let (low, high) = all().fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(ns), high.max(ns)));
    Ranges {
        title: format!("A round trip of {}: median and quartiles of the rounds", length(least)),
        scale: Scale::Log,
        ticks: ticks(low, high),
        rows,
        marks: Vec::new(),
        chance: None,
    }
}
