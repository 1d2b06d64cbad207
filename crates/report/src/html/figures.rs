//! The three figures that support a run's answer. Must not know the page.

use analysis::interference::Explained;
use analysis::storage::SeriesLayers;
use latency::{Deadline, Histogram};
use run::baseline::{BaselineCell, FUTEX};
use run::storage::interference::Condition;

use super::answer::all_calls;
use super::subject::Subject;
use crate::beside::{self, Change};
use crate::quantity::{byte_rate, duration, length, three_digits};

/// A figure of the first screen.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

fn time(name: impl Into<String>, ns: f64) -> Figure {
    Figure { name: name.into(), text: duration(ns), value: ns, unit: "ns" }
}

/// The three figures that support the answer.
pub(super) fn figures(subject: &Subject<'_>) -> Vec<Figure> {
    let results = &subject.run.results;
    let mut all = Vec::new();
    if let Some(result) = &results.latency {
        let (times, missed) = all_calls(result);
        all = of_calls(&times, missed, result.plan.deadline);
    }
    if let Some(result) = &results.observed_calls
        && all.is_empty()
    {
        let missed = result.flows.iter().map(|flow| flow.missed).sum();
        all = of_calls(&result.latency(), missed, result.plan.deadline);
    }
    if let Some(result) = &results.observed_writes
        && all.is_empty()
    {
        let missed = result.rows.iter().map(|row| row.missed).sum();
        all = of_calls(&result.latency(), missed, result.plan.deadline);
    }
    if let Some(result) = &results.throughput
        && all.is_empty()
    {
        let fastest = result.rows.iter().min_by_key(|row| row.size_bytes);
        all.extend(fastest.and_then(|row| {
            Some(time(format!("a {} call over {}", length(row.size_bytes), row.stack), row.real_time_ns()?))
        }));
        let largest = result.rows.iter().max_by_key(|row| row.size_bytes);
        all.extend(largest.and_then(|row| {
            Some(time(format!("a {} call over {}", length(row.size_bytes), row.stack), row.real_time_ns()?))
        }));
        all.extend(largest.and_then(|row| {
            let value = row.bytes_per_second()?;
            Some(Figure {
                name: format!("one way, {} over {}", length(row.size_bytes), row.stack),
                text: byte_rate(value),
                value,
                unit: "B/s",
            })
        }));
    }
    if all.is_empty() {
        all = of_others(subject);
    }
    all.truncate(3);
    all
}

/// The figures of the first test other than latency and throughput that has some.
fn of_others(subject: &Subject<'_>) -> Vec<Figure> {
    let tests = [of_writes, of_comparison, of_workers, of_baseline];
    tests.into_iter().map(|figures| figures(subject)).find(|all| !all.is_empty()).unwrap_or_default()
}

fn of_writes(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Some(result) = &subject.run.results.storage
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
        all.extend(subject.layers.iter().find(same).map(|one| {
            let value = one.breakdown.host_share() * 100.0;
            Figure {
                name: "of it on the host, the rest with the device".into(),
                text: format!("{value:.1}%"),
                value,
                unit: "%",
            }
        }));
    }
    all
}

/// Writes with background load.
fn of_comparison(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if subject.run.results.interference.is_none() {
        return all;
    }
    let chance = |one: &&Explained<'_>| one.beside.condition == Condition::Alone;
    let ratio = |one: &Explained<'_>| one.beside.response().map(|response| response.median);
    // The comparison that the answer is about or, without one, the comparison closest to a
    // difference.
    let (one, changed, what) = match beside::found(subject.beside).first() {
        Some(found) => {
            let what = match found.change {
                Change::Usual(_) => "times as long as alone with",
                Change::Some(_) => "times as long on average as alone under",
            };
            (Some(found.one), Some(found.change.ratio()), what)
        }
        None => {
            let others = subject.beside.iter().filter(|one| !chance(one));
            let size = |one: &Explained<'_>| ratio(one).map_or(0.0, |ratio| ratio.ln().abs());
            let most = others.max_by(|one, other| size(one).total_cmp(&size(other)));
            let what = match beside::chance(subject.beside) {
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
    let control = subject.beside.iter().find(chance).and_then(ratio);
    all.extend(control.map(|ratio| figure("control: alone against alone".into(), ratio)));
    let alone = subject.beside.iter().find_map(|one| Some((one.beside, one.beside.response()?)));
    all.extend(alone.map(|(of, found)| {
        let (size, rounds) = (length(of.size_bytes as usize), of.pairs.len());
        time(format!("a write of {size} alone (median; {rounds} rounds)"), found.baseline_ns)
    }));
    all
}

/// Calls that have a deadline.
fn of_calls(times: &Histogram, missed: u64, deadline: Deadline) -> Vec<Figure> {
    let deadline = duration(deadline.ns as f64);
    let worst = times.max_ns().map(|ns| time("the worst call", ns as f64));
    let misses = Figure {
        name: format!("of {} calls took longer than {deadline}", times.count()),
        text: missed.to_string(),
        value: missed as f64,
        unit: "calls",
    };
    let usual = times.percentile_ns(50.0).map(|ns| time("the usual call (median)", ns as f64));
    worst.into_iter().chain([misses]).chain(usual).collect()
}

fn of_workers(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    let Some(result) = &subject.run.results.workers else { return all };
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

fn of_baseline(subject: &Subject<'_>) -> Vec<Figure> {
    let mut all = Vec::new();
    if let Some(result) = &subject.run.results.baseline
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
