//! Calls over the time of a run: for each interval the median as a line, and the maximum as a
//! point, so that outliers appear at their time. Must not know any run.

use ::latency::{Deadline, Timeline, resolvable};

use super::chart::{Axis, Chart, Kind, Line, Scale, durations, round_ticks, short_duration};
use crate::latency::us;
use crate::quantity::duration;
use crate::table::{Column, Table};

/// Calls of one kind, and when they were made.
pub(super) struct Calls {
    pub(super) name: String,
    pub(super) timeline: Timeline,
}

/// The chart of calls of several kinds, with its table; `None` if there are none.
pub(super) fn chart(title: String, calls: &[Calls], deadline: Option<Deadline>) -> Option<Chart> {
    let bins = || calls.iter().flat_map(|one| one.timeline.bins().map(|(_, bin)| bin));
    let low_ns = bins().map(|bin| bin.percentile_ns(50.0)).min()?;
    let high_ns = bins().map(::latency::Bin::max_ns).chain(deadline.map(|deadline| deadline.ns)).max()?;
    let width_ns = calls.iter().map(|one| one.timeline.width_ns()).max()?;
    let lasts = calls.iter().filter_map(|one| one.timeline.bins().last());
    let end_ns = lasts.map(|(from_ns, _)| from_ns).max()? + width_ns;
    let level = |deadline: Deadline| {
        let ns = deadline.ns as f64;
        (ns, format!("deadline {}", short_duration(ns)))
    };
    Some(Chart {
        title,
        about: format!(
            "The line shows the median call of each {} (within 6%), the points the longest one.",
            short_duration(width_ns as f64)
        ),
        kind: Kind::Lines,
        x: Axis {
            label: "time since the start of the run".into(),
            scale: Scale::Linear,
            ticks: round_ticks(0.0, end_ns as f64, short_duration),
        },
        y: durations("latency", low_ns as f64, high_ns as f64),
        lines: calls.iter().flat_map(lines).collect(),
        widest: Some(width_ns as f64),
        marks: Vec::new(),
        levels: deadline.map(level).into_iter().collect(),
        table: table(calls, deadline.is_some()),
    })
}

/// Medians and maxima.
fn lines(Calls { name, timeline }: &Calls) -> [Line; 2] {
    let middle = timeline.width_ns() as f64 / 2.0;
    let usual = timeline.bins().map(|(from_ns, bin)| {
        let median_ns = bin.percentile_ns(50.0) as f64;
        let (from, count) = (duration(from_ns as f64), bin.count());
        let calls = if count == 1 { "call" } else { "calls" };
        let text = format!("from {from} on {count} {calls}, median {}", duration(median_ns));
        (from_ns as f64 + middle, median_ns, text)
    });
    let longest = timeline.bins().map(|(from_ns, bin)| {
        let missed = match bin.missed() {
            0 => String::new(),
            missed => format!(", {missed} missed the deadline"),
        };
        let longest_ns = bin.max_ns() as f64;
        (from_ns as f64 + middle, longest_ns, duration(longest_ns) + &missed)
    });
    [
        Line { label: format!("{name}, median"), points: usual.collect(), apart: false },
        Line { label: format!("{name}, longest"), points: longest.collect(), apart: true },
    ]
}

fn table(calls: &[Calls], has_deadline: bool) -> Table {
    let times = ["min", "p50", "p99", "max"].map(|name| Column::narrow(name, "us"));
    let head = [Column::number("from", ""), Column::text("calls of"), Column::narrow("calls", "")];
    let missed = has_deadline.then(|| Column::narrow("missed", ""));
    let mut table = Table::new(head.into_iter().chain(times).chain(missed));
    for Calls { name, timeline } in calls {
        for (from_ns, bin) in timeline.bins() {
            let mark = if resolvable(bin.count(), 99.0) { "" } else { "*" };
            let time = |ns: u64| us(Some(ns as f64));
            let row = [
                duration(from_ns as f64),
                name.clone(),
                bin.count().to_string(),
                time(bin.min_ns()),
                time(bin.percentile_ns(50.0)),
                time(bin.percentile_ns(99.0)) + mark,
                time(bin.max_ns()),
            ];
            table.row(row.into_iter().chain(has_deadline.then(|| bin.missed().to_string())));
        }
    }
    table
}
