//! The three figures that support a run's answer. Must not know the page.

use roundtrip_analysis::interference::Explained;
use roundtrip_analysis::storage::SeriesLayers;
use roundtrip_latency::Histogram;
use roundtrip_run::Tested;
use roundtrip_run::baseline::{BaselineCell, FUTEX};
use roundtrip_run::figures::Times;
use roundtrip_run::ipc::throughput::ThroughputRow;
use roundtrip_run::storage::interference::Condition;

use super::subject::Subject;
use crate::storage::beside::{self, Change};
use crate::text::inert;
use crate::text::quantity::{byte_rate, duration, length, three_digits};

/// A figure of the first screen.
pub(crate) struct Figure {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

fn time(name: impl Into<String>, ns: f64) -> Figure {
    Figure { name: name.into(), text: duration(ns), value: ns, unit: "ns" }
}

/// The groups of a test with a deadline.
fn against_deadline(part: &dyn Tested) -> Vec<Figure> {
    let groups = part.groups();
    let calls = groups.iter().filter_map(|group| Some((group.name(), group.calls()?)));
    of_calls(&calls.filter(|(_, times)| !times.histogram.is_empty()).collect::<Vec<_>>())
}

pub(crate) fn latency(subject: &Subject<'_>) -> Vec<Figure> {
    subject.analysed.run.results.latency.as_ref().map(|result| against_deadline(result)).unwrap_or_default()
}

pub(crate) fn observed_calls(subject: &Subject<'_>) -> Vec<Figure> {
    subject
        .analysed
        .run
        .results
        .observed_calls
        .as_ref()
        .map(|result| against_deadline(result))
        .unwrap_or_default()
}

pub(crate) fn observed_writes(subject: &Subject<'_>) -> Vec<Figure> {
    subject
        .analysed
        .run
        .results
        .observed_writes
        .as_ref()
        .map(|result| against_deadline(result))
        .unwrap_or_default()
}

pub(crate) fn throughput(subject: &Subject<'_>) -> Vec<Figure> {
    let Some(result) = &subject.analysed.run.results.throughput else { return Vec::new() };
    let fastest = result.rows.iter().min_by_key(|row| row.size_bytes);
    let largest = result.rows.iter().max_by_key(|row| row.size_bytes);
    let call = |row: &ThroughputRow| {
        Some(time(format!("a {} call over {}", length(row.size_bytes), row.stack), row.real_time_ns()?))
    };
    let rate = largest.and_then(|row| {
        let value = row.bytes_per_second()?;
        Some(Figure {
            name: format!("one way, {} over {}", length(row.size_bytes), row.stack),
            text: byte_rate(value),
            value,
            unit: "B/s",
        })
    });
    [fastest.and_then(call), largest.and_then(call), rate].into_iter().flatten().collect()
}

pub(crate) fn storage(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Some(result) = &subject.analysed.run.results.storage
        && let Some(series) = result.series.iter().max_by_key(|series| series.latency.percentile_ns(50.0))
    {
        let size = length(series.size_bytes as usize);
        let at = |percent| series.latency.percentile_ns(percent).map(|ns| ns as f64);
        all.extend(at(50.0).map(|ns| time(format!("a write of {size} (median)"), ns)));
        all.extend(
            at(99.0)
                .map(|ns| time(format!("99% of {} such writes took at most", series.latency.count()), ns)),
        );
        let same = |one: &&SeriesLayers<'_>| {
            one.series.writer == series.writer && one.series.size_bytes == series.size_bytes
        };
        all.extend(subject.analysed.layers.iter().find(same).map(|one| {
            let value = one.breakdown.host_share() * 100.0;
            Figure {
                name: "of the time on the host, the rest in the device".into(),
                text: format!("{value:.1}%"),
                value,
                unit: "%",
            }
        }));
    }
    all
}

/// Writes with background load.
pub(crate) fn interference(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if subject.analysed.run.results.interference.is_none() {
        return all;
    }
    let chance = |one: &&Explained<'_>| one.beside.condition == Condition::Alone;
    let ratio = |one: &Explained<'_>| one.beside.response().map(|response| response.median);
    // The comparison that the answer is about or, without one, the comparison closest to a
    // difference.
    let (one, changed, what) = match beside::found(&subject.analysed.beside).first() {
        Some(found) => {
            let what = match found.change {
                Change::Usual(_) => "times as long as alone with",
                Change::Some(_) => "times as long on average as alone under",
            };
            (Some(found.one), Some(found.change.ratio()), what)
        }
        None => {
            let others = subject.analysed.beside.iter().filter(|one| !chance(one));
            let size = |one: &Explained<'_>| ratio(one).map_or(0.0, |ratio| ratio.ln().abs());
            let most = others.max_by(|one, other| size(one).total_cmp(&size(other)));
            let what = match beside::chance(&subject.analysed.beside) {
                Some(_) => "times as long as alone, within chance, with",
                None => "times as long as alone, but too few rounds to tell, with",
            };
            (most, most.and_then(ratio), what)
        }
    };
    let figure = |name: String, value: f64| Figure { name, text: three_digits(value), value, unit: "ratio" };
    all.extend(
        one.zip(changed).map(|(one, ratio)| figure(format!("{what} {}", one.beside.condition), ratio)),
    );
    let control = subject.analysed.beside.iter().find(chance).and_then(ratio);
    all.extend(control.map(|ratio| figure("control: alone against alone".into(), ratio)));
    let alone = subject.analysed.beside.iter().find_map(|one| Some((one.beside, one.beside.response()?)));
    all.extend(alone.map(|(of, found)| {
        let (size, rounds) = (length(of.size_bytes as usize), of.pairs.len());
        time(format!("a write of {size} alone (median; {rounds} rounds)"), found.baseline_ns)
    }));
    all
}

/// Calls that have a deadline: the worst of all, and the median of its group. The calls of several
/// groups have no common median.
fn of_calls(groups: &[(String, &Times<'_>)]) -> Vec<Figure> {
    let group = groups.iter().max_by_key(|(_, times)| times.histogram.max_ns());
    let named = |what: &str, name: &str| match groups.len() {
        1 => what.to_owned(),
        _ => format!("{what}: {}", inert::line(name)),
    };
    let figure = |what: &str, of: fn(&Histogram) -> Option<u64>| {
        group.and_then(|(name, times)| Some(time(named(what, name), of(&times.histogram)? as f64)))
    };
    let limits = || groups.iter().filter_map(|(_, times)| times.limit);
    let count: u64 = groups.iter().map(|(_, times)| times.histogram.count()).sum();
    let missed: u64 = limits().map(|limit| limit.beyond).sum();
    let misses = limits().next().map(|limit| Figure {
        name: format!("of {count} calls took longer than {}", duration(limit.ns as f64)),
        text: missed.to_string(),
        value: missed as f64,
        unit: "calls",
    });
    let worst = figure("the worst call", Histogram::max_ns);
    let usual = figure("the usual call (median)", |times| times.percentile_ns(50.0));
    worst.into_iter().chain(misses).chain(usual).collect()
}

pub(crate) fn workers(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    let Some(result) = &subject.analysed.run.results.workers else { return all };
    let value = result.iterations_per_s;
    all.push(Figure {
        name: "calls a second, all workers together".into(),
        text: format!("{value:.0}"),
        value,
        unit: "calls/s",
    });
    all.extend(result.latency.percentile_ns(50.0).map(|ns| time("the usual call (median)", ns as f64)));
    all.extend(result.latency.percentile_ns(99.0).map(|ns| time("99% of calls took at most", ns as f64)));
    all
}

pub(crate) fn baseline(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Some(result) = &subject.analysed.run.results.baseline
        && let (Some(&least), Some(&placement)) =
            (result.plan.sizes_bytes.iter().min(), result.plan.placements.first())
    {
        for transport in [FUTEX, "binder", "hwbinder"] {
            let median = result.cell(transport, least, placement).and_then(BaselineCell::median_ns);
            all.extend(
                median.map(|ns| time(format!("{transport}, {}, placement {placement}", length(least)), ns)),
            );
        }
    }
    all
}
