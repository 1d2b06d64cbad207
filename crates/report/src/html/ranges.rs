//! Histograms as ranges from the median to the maximum on one axis. Must not know any run.

use latency::Histogram;

use super::bars::Range;
use super::chart::{log_ticks, short_duration};
use crate::quantity::duration;

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
pub(super) fn range(label: &str, histogram: &Histogram) -> Option<Range> {
    let at = |percent| histogram.percentile_ns(percent);
    let (p50, p99, min, max) = (at(50.0)?, at(99.0)?, histogram.min_ns()?, histogram.max_ns()?);
    let [p50_text, p99_text, max_text] = [p50, p99, max].map(|ns| duration(ns as f64));
    let [p50, p99, min, max] = [p50, p99, min, max].map(|ns| ns as f64);
    Some(Range {
        label: label.to_owned(),
        text: format!("p50 {p50_text}, p99 {p99_text}, worst {max_text}"),
        whole: Some((min, max)),
        most: Some((p50, p99)),
        points: vec![
            (p50, format!("p50 {p50_text}")),
            (p99, format!("p99 {p99_text}")),
            (max, format!("worst {max_text}")),
        ],
    })
}
