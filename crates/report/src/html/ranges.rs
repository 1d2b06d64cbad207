//! Histograms as ranges from the median to the maximum on one axis. Must not know any run.

use roundtrip_latency::Histogram;

use super::bars::{Range, Ranges, Scale};
use super::chart::{log_ticks, short_duration};
use crate::text::quantity::{duration, percentiles};

/// Durations on one axis, each from the median to the maximum.
pub(super) fn ranges(title: &str, all: &[(String, &Histogram)], marks: Vec<(f64, String)>) -> Ranges {
    let (low, high) = span(all.iter().map(|(_, times)| *times));
    let high = marks.iter().fold(high, |high, mark| high.max(mark.0));
    Ranges {
        title: title.to_owned(),
        scale: Scale::Log,
        rows: all.iter().filter_map(|(name, times)| range(name, times)).collect(),
        marks,
        chance: None,
        ticks: ticks(low, high),
    }
}

/// The ticks of an axis of durations.
pub(super) fn ticks(low_ns: f64, high_ns: f64) -> Vec<(f64, String)> {
    let all = log_ticks(low_ns, high_ns, short_duration).into_iter();
    all.filter(|tick| tick.2 == 0).map(|(value, text, _)| (value, text)).collect()
}

/// The minimum and maximum of some histograms, in nanoseconds.
pub(super) fn span<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> (f64, f64) {
    histograms.fold((f64::INFINITY, 0.0_f64), |(low, high), one| {
        let of = |ns: Option<u64>, other: f64| ns.map_or(other, |ns| ns.max(1) as f64);
        (low.min(of(one.min_ns(), low)), high.max(of(one.max_ns(), high)))
    })
}

/// From the median to the maximum; `None` without calls.
fn range(label: &str, histogram: &Histogram) -> Option<Range> {
    let (min, max) = (histogram.min_ns()? as f64, histogram.max_ns()?);
    let [p50, p99] = [50.0, 99.0].map(|percent| histogram.percentile_ns(percent));
    let points = [("p50", p50), ("p99", p99), ("worst", Some(max))];
    let point =
        |(name, ns): (&str, Option<u64>)| Some((ns? as f64, format!("{name} {}", duration(ns? as f64))));
    Some(Range {
        label: label.to_owned(),
        text: percentiles(histogram, &[50.0, 99.0]),
        whole: Some((min, max as f64)),
        most: p50.zip(p99).map(|(p50, p99)| (p50 as f64, p99 as f64)),
        points: points.into_iter().filter_map(point).collect(),
    })
}
