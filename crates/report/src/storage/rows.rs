//! The figures of a storage measurement that all of its files contain: response, host, each layer,
//! and strace, each with its distribution. Must not know how a file writes them.

use roundtrip_latency::Histogram;
use roundtrip_layers::storage::{Breakdown, Layer, LayerTimes};
use roundtrip_run::storage::{StorageSeries, StraceBlock};

use roundtrip_analysis::storage::SeriesLayers;

/// The names of [`Row::percentiles_ns`] in files.
pub(crate) const PERCENTS: [&str; 4] = ["p50_ns", "p90_ns", "p99_ns", "max_ns"];

/// A distribution over all calls of a series.
#[derive(Debug)]
pub(crate) struct Row {
    /// "response", "host", a layer's name, "strace response", "strace system", "strace platform".
    pub part: String,
    pub calls: u64,
    /// In nanoseconds; `None` without calls.
    pub mean_ns: Option<f64>,
    /// As [`PERCENTS`], in nanoseconds; `None` if there are too few calls.
    pub percentiles_ns: [Option<u64>; 4],
    /// Share of the response time, 0 to 1.
    pub share: Option<f64>,
}

/// A series under strace, measured by the writer and by strace.
#[derive(Debug, Default)]
pub(crate) struct Straced {
    /// The application's response times.
    pub response: Histogram,
    /// The duration of its system calls according to strace.
    pub system: Histogram,
    /// Response time minus system call time. The study attributed this difference to the platform.
    pub platform: Histogram,
    /// Calls for which strace showed no system call.
    pub without: u64,
}

impl Straced {
    /// The strace figures of a series; `None` if it was measured without strace.
    pub(crate) fn of(series: &StorageSeries) -> Option<Self> {
        let mut straced = Self::default();
        for StraceBlock { calls, system_ns } in &series.strace {
            for (call, system_ns) in calls.iter().zip(system_ns) {
                straced.response.record(call.latency_ns());
                match system_ns {
                    Some(ns) => {
                        straced.system.record(*ns);
                        straced.platform.record(call.latency_ns().saturating_sub(*ns));
                    }
                    None => straced.without += 1,
                }
            }
        }
        (!straced.response.is_empty()).then_some(straced)
    }
}

/// All rows of a series, in the order in which files contain them.
pub(crate) fn rows(series: &StorageSeries, layers: Option<&SeriesLayers<'_>>) -> Vec<Row> {
    let mut out = vec![row("response", &series.latency, Some(1.0))];
    if let Some(SeriesLayers { breakdown, .. }) = layers {
        let LayerTimes { calls, .. } = &breakdown.host;
        out.push(row("host", calls, Some(breakdown.host_share())));
        out.extend(Layer::ALL.map(|layer| of_layer(breakdown, layer)));
    }
    if let Some(straced) = Straced::of(series) {
        out.push(row("strace response", &straced.response, None));
        out.push(row("strace system", &straced.system, None));
        out.push(row("strace platform", &straced.platform, None));
    }
    out
}

fn row(part: &str, times: &Histogram, share: Option<f64>) -> Row {
    Row {
        part: part.to_owned(),
        calls: times.count(),
        mean_ns: times.mean_ns(),
        percentiles_ns: [
            times.percentile_ns(50.0),
            times.percentile_ns(90.0),
            times.percentile_ns(99.0),
            times.max_ns(),
        ],
        share,
    }
}

/// The distribution over all calls, including those that spent no time in the layer.
fn of_layer(breakdown: &Breakdown, layer: Layer) -> Row {
    Row {
        part: layer.name().to_owned(),
        calls: breakdown.calls,
        mean_ns: Some(breakdown.mean_ns(layer)),
        percentiles_ns: [
            breakdown.percentile_ns(layer, 50.0),
            breakdown.percentile_ns(layer, 90.0),
            breakdown.percentile_ns(layer, 99.0),
            Some(breakdown.max_ns(layer)),
        ],
        share: Some(breakdown.share(layer)),
    }
}
