//! Latency on the page: the distribution of each caller's calls against the deadline, where the
//! time was spent, and what the scheduler did.

use std::collections::BTreeMap;

use roundtrip_run::ipc::latency::{CallerResult, LatencyResult, Series};

use super::bars::Ranges;
use super::chart::{Axis, Chart, Kind, Line, durations, log_ticks, short_duration};
use super::over_time;
use super::page::Page;
use super::ranges::{ranges, span};
use super::subject::Subject;
use crate::ipc::latency;
use crate::text::quantity::{duration, duration_or_dash};
use crate::text::table::{Column, Table};

/// The number of bins per power of ten in a histogram.
const BINS: f64 = 20.0;

/// The calls of one caller in one series, over all pairs.
struct Calls {
    name: String,
    of: CallerResult,
    deadline_ns: u64,
}

/// Adds the latency of all runs that have one.
pub(crate) fn section(page: &mut Page, subjects: &[Subject<'_>]) {
    let ours: Vec<_> =
        subjects.iter().filter_map(|one| Some((one, one.analysed.run.results.latency.as_ref()?))).collect();
    let calls: Vec<Calls> =
        ours.iter().flat_map(|(subject, result)| callers(subject, result, subjects.len() > 1)).collect();
    page.ranges(&of_calls(&calls));
    page.within("div", &[("class", "pair")], |page| {
        page.within("div", &[], |page| page.chart(&histogram(&calls)));
        page.within("div", &[], |page| page.chart(&distribution(&calls)));
    });
    page.ranges(&legs(&calls));
    for (subject, result) in &ours {
        // With the slow calls, if there are any.
        if subject.explained.is_empty() {
            over_time(subject, subjects.len()).iter().for_each(|chart| page.chart(chart));
        }
        for series in &result.series {
            let heading = latency::heading(result, series);
            let (what, inheritance) = heading.split_once('\n').unwrap_or((&heading, ""));
            let what = subject.named(what, subjects.len());
            page.element("h3", &[], &what);
            page.paragraphs("about", inheritance);
            page.folded(&format!("Times: {what}"), &latency::times(series));
            page.folded(&format!("Legs: {what}"), &latency::legs(series));
            page.folded(&format!("Scheduling: {what}"), &latency::scheduling(series));
        }
        for &stack in &result.plan.stacks {
            let compared: Vec<_> = result.series.iter().filter(|series| series.stack == stack).collect();
            if compared.len() > 1 {
                let title = format!("{stack}: what real-time inheritance changes");
                page.folded(&subject.named(&title, subjects.len()), &latency::side_by_side(&compared));
            }
        }
        page.notes(&latency::notes(result));
    }
}

/// The calls of each series over the run, with those that were slow.
pub(super) fn over_time(subject: &Subject<'_>, runs: usize) -> Vec<Chart> {
    let Some(result) = &subject.analysed.run.results.latency else { return Vec::new() };
    let charts = result.series.iter().enumerate().filter_map(|(index, series)| {
        let all = series.all()?;
        let calls = |caller: &CallerResult| over_time::Calls {
            name: format!("{} caller", caller.caller),
            timeline: caller.timeline.clone(),
        };
        let calls: Vec<_> = all.callers.iter().map(calls).collect();
        let slow = subject.explained.iter().filter(|one| one.call.kind.0 == index);
        let slow: Vec<_> = slow.map(over_time::Slow::of).collect();
        let heading = latency::heading(result, series);
        let what = subject.named(heading.lines().next().unwrap_or_default(), runs);
        let mut chart =
            over_time::chart(format!("Over the run: {what}"), &calls, &slow, Some(result.plan.deadline))?;
        if result.plan.rate_per_s.is_some() {
            chart.y.label = "response".into();
        }
        chart.marks = over_time::changes(&subject.analysed.run.environment);
        Some(chart)
    });
    charts.collect()
}

/// Every caller of a run, with a name that is unique on the page.
fn callers(subject: &Subject<'_>, result: &LatencyResult, several: bool) -> Vec<Calls> {
    let twice =
        |series: &Series| result.series.iter().filter(|other| other.stack == series.stack).count() > 1;
    let mut out = Vec::new();
    for series in &result.series {
        let Some(all) = series.all() else { continue };
        for of in all.callers {
            let setting = if twice(series) {
                format!(", inheritance {}", series.inheritance.name())
            } else {
                String::new()
            };
            let name = format!("{}, {} caller{setting}", series.stack, of.caller);
            let name = if several { subject.named(&name, 2) } else { name };
            out.push(Calls { name, of, deadline_ns: result.plan.deadline.ns });
        }
    }
    out
}

/// The deadlines of these calls, without duplicates.
fn deadlines(calls: &[Calls]) -> Vec<(f64, String)> {
    let mut all: Vec<u64> = calls.iter().map(|one| one.deadline_ns).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|ns| (ns as f64, format!("deadline {}", short_duration(ns as f64)))).collect()
}

/// Each caller's calls from the median to the maximum, with the deadline.
fn of_calls(calls: &[Calls]) -> Ranges {
    let all: Vec<_> = calls.iter().map(|one| (one.name.clone(), one.of.times())).collect();
    ranges("Each caller's calls: median, 99th percentile, worst", &all, deadlines(calls))
}

/// Where the time was spent.
fn legs(calls: &[Calls]) -> Ranges {
    let legs = calls.iter().flat_map(|Calls { name, of, .. }| {
        let legs = [("request", &of.request), ("handling", &of.handling), ("reply", &of.reply)];
        legs.map(|(leg, times)| (format!("{leg}: {name}"), times))
    });
    ranges("Legs: to the server's handler, in it, and back", &legs.collect::<Vec<_>>(), Vec::new())
}

/// What the times of these calls are.
fn measure(calls: &[Calls]) -> &'static str {
    if calls.iter().any(|one| one.of.response.is_some()) { "response" } else { "latency" }
}

/// The bin of a duration.
fn bin(ns: u64) -> i32 {
    ((ns.max(1) as f64).log10() * BINS).floor() as i32
}

fn begin_ns(bin: i32) -> f64 {
    10_f64.powf(f64::from(bin) / BINS)
}

/// The distribution of the calls' times.
fn histogram(calls: &[Calls]) -> Chart {
    let binned: Vec<BTreeMap<i32, u64>> = calls
        .iter()
        .map(|one| {
            let mut bins = BTreeMap::new();
            for (top_ns, count) in one.of.times().buckets() {
                // The upper bound of the last bucket may exceed the longest call.
                *bins.entry(bin(top_ns.min(one.of.times().max_ns().unwrap_or(top_ns)))).or_default() += count;
            }
            bins
        })
        .collect();
    let keys = || binned.iter().flat_map(BTreeMap::keys).copied();
    let (first, last) = (keys().min().unwrap_or(0), keys().max().unwrap_or(0));
    let between = |at: i32| format!("{} to {}", duration(begin_ns(at)), duration(begin_ns(at + 1)));
    let lines = calls.iter().zip(&binned).map(|(one, bins)| {
        let points = (first..=last + 1).map(|at| {
            let count = bins.get(&at).copied().unwrap_or(0);
            let calls = if count == 1 { "call" } else { "calls" };
            (begin_ns(at), count as f64, format!("{}: {count} {calls}", between(at)))
        });
        Line { label: one.name.clone(), points: points.collect(), apart: false, colour: None }
    });
    let head = [Column::number("from", ""), Column::number("to", "")];
    let mut table =
        Table::new(head.into_iter().chain(calls.iter().map(|one| Column::number(&one.name, "calls"))));
    for at in (first..=last).filter(|at| binned.iter().any(|bins| bins.contains_key(at))) {
        let counts = binned.iter().map(|bins| bins.get(&at).copied().unwrap_or(0).to_string());
        let ends = [begin_ns(at), begin_ns(at + 1)].map(duration);
        table.row(ends.into_iter().chain(counts));
    }
    let most = binned.iter().flat_map(BTreeMap::values).max().copied().unwrap_or(1);
    Chart {
        title: "How many calls took how long".into(),
        about: "Both axes are logarithmic, so a single slow call is as visible as a thousand usual ones."
            .into(),
        kind: Kind::Steps,
        x: durations(measure(calls), begin_ns(first), begin_ns(last + 1)),
        y: Axis {
            label: "calls".into(),
            scale: super::chart::Scale::Log,
            ticks: log_ticks(1.0, most as f64, |value| format!("{value:.0}")),
        },
        lines: lines.collect(),
        widest: None,
        marks: deadlines(calls),
        levels: Vec::new(),
        table,
    }
}

/// The percentiles in the table of a distribution.
const SHARES: [f64; 12] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// The cumulative distribution of the calls' times.
fn distribution(calls: &[Calls]) -> Chart {
    let (low, high) = span(calls.iter().map(|one| one.of.times()));
    let most = calls.iter().map(|one| one.of.times().count()).max().unwrap_or(1).max(2) as f64;
    let percent = |share: f64| format!("{}%", trimmed(share * 100.0));
    let nines =
        (1..=12).map(|digits| 1.0 - 10_f64.powi(-digits)).take_while(|share| 1.0 - share > 0.2 / most);
    let ticks = [(0.0, percent(0.0), 0), (0.5, percent(0.5), 0)];
    let ticks = ticks.into_iter().chain(nines.map(|share| (share, percent(share), 0))).collect();
    let mut table = Table::new(
        [Column::text("share of calls")]
            .into_iter()
            .chain(calls.iter().map(|one| Column::number(&one.name, "at most"))),
    );
    for share in SHARES {
        let cells: Vec<String> = calls
            .iter()
            .map(|one| {
                let times = one.of.times();
                duration_or_dash(times.percentile_ns(share).or(times.max_ns().filter(|_| share == 100.0)))
            })
            .collect();
        table.row([percent(share / 100.0)].into_iter().chain(cells));
    }
    Chart {
        title: "The share of calls that took at most this long".into(),
        about:
            "The cumulative distribution. Each step up adds a nine, which leaves room for the slowest calls."
                .into(),
        kind: Kind::Lines,
        x: durations(measure(calls), low, high),
        y: Axis { label: "share of calls".into(), scale: super::chart::Scale::Nines, ticks },
        lines: calls.iter().map(cumulated).collect(),
        widest: None,
        marks: deadlines(calls),
        levels: Vec::new(),
        table,
    }
}

/// A percentage without unnecessary digits.
fn trimmed(percent: f64) -> String {
    let text = format!("{percent:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The most points in a curve.
const POINTS: usize = 600;

fn cumulated(calls: &Calls) -> Line {
    let times = calls.of.times();
    let total = times.count() as f64;
    let mut below = 0;
    let all: Vec<(u64, u64)> = times
        .buckets()
        .map(|(top_ns, count)| {
            below += count;
            (top_ns.min(times.max_ns().unwrap_or(top_ns)), below)
        })
        .collect();
    // The curve's tail has the fewest buckets, and all its points are kept. Where the curve is
    // dense, points are dropped.
    let tail = all.len().saturating_sub(POINTS / 2);
    let every = tail.div_ceil(POINTS / 2).max(1);
    let kept = all.iter().enumerate().filter(|(index, _)| *index >= tail || index % every == 0);
    let points = kept.map(|(_, &(ns, below))| {
        let share = below as f64 / total;
        let text =
            format!("{}% of calls took at most {}", share_text(share * 100.0, total), duration(ns as f64));
        // The axis cannot show 100%, so the last point is half a call lower.
        (ns as f64, share.min(1.0 - 0.5 / total), text)
    });
    Line { label: calls.name.clone(), points: points.collect(), apart: false, colour: None }
}

/// A share with only as many digits as this many calls justify.
fn share_text(percent: f64, calls: f64) -> String {
    let digits = (calls.log10() - 2.0).ceil().clamp(0.0, 6.0) as usize;
    format!("{percent:.digits$}")
}
