//! Calls over the time of a run: for each interval the median as a line, and the maximum as a
//! point, so that outliers appear at their time; and slow calls in the colour of their reason. Must
//! not know any run.

use roundtrip_analysis::slow_calls::Explained;
use roundtrip_latency::{Bin, Deadline, Timeline};
use roundtrip_layers::Explanation;
use roundtrip_layers::reasons::ReasonKind;
use roundtrip_run::environment::Environment;
use roundtrip_sorting::SmallSort as _;

use super::chart::{Axis, Chart, Kind, Line, Scale, durations, round_ticks, short_duration};
use super::colours::{self, Colour, LEGEND};
use crate::explanation::summary;
use crate::ipc::latency::us;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The most changes that are drawn: the text of each needs space.
const MAX_MARKS: usize = 5;

/// Calls of one kind, and when they were made.
pub(super) struct Calls {
    pub(super) name: String,
    pub(super) timeline: Timeline,
}

/// A slow call: when it began, how long it took, in nanoseconds, its colour and its text.
pub(super) struct Slow {
    pub(super) start_ns: u64,
    pub(super) took_ns: u64,
    pub(super) colour: Colour,
    pub(super) text: String,
}

impl Slow {
    /// A slow call, in the colour of its main reason.
    pub(super) fn of(one: &Explained) -> Self {
        let Explanation { reasons, start_ns, .. } = &one.explanation;
        let kind = reasons.main().map_or(ReasonKind::OwnWork, |(kind, _)| kind);
        let took_ns = one.explanation.duration_ns();
        let (number, took, cause) = (one.call.number, duration(took_ns as f64), summary::cause_of(one));
        let text = format!("slow call {number}, {took}: {cause}");
        Self { start_ns: *start_ns, took_ns, colour: colours::of_reason(kind), text }
    }
}

/// The chart of calls of several kinds and of the slow ones among them, with its table; `None` if
/// there are none.
pub(super) fn chart(
    title: String,
    calls: &[Calls],
    slow: &[Slow],
    deadline: Option<Deadline>,
) -> Option<Chart> {
    let bins = || calls.iter().flat_map(|one| one.timeline.bins().map(|(_, bin)| bin));
    let of_slow = || slow.iter().map(|one| one.took_ns);
    let low_ns = bins().map(|bin| bin.percentile_ns(50.0).unwrap_or(bin.max_ns())).chain(of_slow()).min()?;
    let high_ns =
        bins().map(Bin::max_ns).chain(of_slow()).chain(deadline.map(|deadline| deadline.ns)).max()?;
    let width_ns = calls.iter().map(|one| one.timeline.width_ns()).max().unwrap_or(0);
    let lasts = calls.iter().filter_map(|one| one.timeline.bins().last());
    let began = calls.iter().filter(|one| one.timeline.bins().next().is_some());
    let began = began.map(|one| one.timeline.start_ns()).chain(slow.iter().map(|one| one.start_ns));
    let start_ns = began.min()?;
    let ends = lasts.map(|(from_ns, _)| from_ns + width_ns);
    let end_ns = ends.chain(slow.iter().map(|one| one.start_ns - start_ns)).max()?;
    let mut about = match bins().next() {
        Some(_) => format!(
            "The line shows the median call of each {} (within 6%), the points the longest one.",
            short_duration(width_ns as f64)
        ),
        None => "Only slow calls were kept; time starts at the first one.".to_owned(),
    };
    if !slow.is_empty() {
        about.push_str(" Slow calls have the colour of what delayed them most.");
    }
    let level = |deadline: Deadline| {
        let ns = deadline.ns as f64;
        (ns, format!("deadline {}", short_duration(ns)))
    };
    Some(Chart {
        title,
        about,
        kind: Kind::Lines,
        x: Axis {
            label: "time since the start of the run".into(),
            scale: Scale::Linear,
            ticks: round_ticks(0.0, end_ns as f64, short_duration),
        },
        y: durations("latency", low_ns as f64, high_ns as f64),
        lines: lines_of(calls).chain(slow_lines(slow, start_ns)).collect(),
        widest: Some(width_ns as f64),
        marks: Vec::new(),
        levels: deadline.map(level).into_iter().collect(),
        table: table(calls, deadline.is_some()),
    })
}

/// The lines of calls that have some.
fn lines_of(calls: &[Calls]) -> impl Iterator<Item = Line> {
    calls.iter().flat_map(lines).filter(|line| !line.points.is_empty())
}

/// The slow calls of each colour as points.
fn slow_lines(slow: &[Slow], start_ns: u64) -> impl Iterator<Item = Line> {
    LEGEND.into_iter().filter_map(move |(colour, meaning)| {
        let mut ours: Vec<&Slow> = slow.iter().filter(|one| one.colour == colour).collect();
        ours.small_sort_by_key(|one| one.start_ns);
        let point = |one: &&Slow| ((one.start_ns - start_ns) as f64, one.took_ns as f64, one.text.clone());
        let points: Vec<_> = ours.iter().map(point).collect();
        let label = format!("slow: {meaning}");
        (!points.is_empty()).then_some(Line { label, points, apart: true, colour: Some(colour) })
    })
}

/// Where conditions changed, as vertical lines. A chart's time starts with the first turn, a moment
/// after the run.
pub(super) fn changes(environment: &Environment) -> Vec<(f64, String)> {
    let changes = environment.changes.iter().take(MAX_MARKS);
    changes.map(|change| (change.from_ns as f64, format!("{} {}", change.what, change.during))).collect()
}

/// Medians and maxima.
fn lines(Calls { name, timeline }: &Calls) -> [Line; 2] {
    let middle = timeline.width_ns() as f64 / 2.0;
    let usual = timeline.bins().filter_map(|(from_ns, bin)| {
        let median_ns = bin.percentile_ns(50.0)? as f64;
        let (from, count) = (duration(from_ns as f64), bin.count());
        let text = format!("from {from} on {count} calls, median {}", duration(median_ns));
        Some((from_ns as f64 + middle, median_ns, text))
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
        Line { label: format!("{name}, median"), points: usual.collect(), apart: false, colour: None },
        Line { label: format!("{name}, longest"), points: longest.collect(), apart: true, colour: None },
    ]
}

fn table(calls: &[Calls], has_deadline: bool) -> Table {
    let times = ["min", "p50", "p99", "max"].map(|name| Column::narrow(name, "us"));
    let head = [Column::number("from", ""), Column::text("calls of"), Column::narrow("calls", "")];
    let missed = has_deadline.then(|| Column::narrow("missed", ""));
    let mut table = Table::new(head.into_iter().chain(times).chain(missed));
    for Calls { name, timeline } in calls {
        for (from_ns, bin) in timeline.bins() {
            let time = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
            let row = [
                duration(from_ns as f64),
                name.clone(),
                bin.count().to_string(),
                time(Some(bin.min_ns())),
                time(bin.percentile_ns(50.0)),
                time(bin.percentile_ns(99.0)),
                time(Some(bin.max_ns())),
            ];
            table.row(row.into_iter().chain(has_deadline.then(|| bin.missed().to_string())));
        }
    }
    table
}
