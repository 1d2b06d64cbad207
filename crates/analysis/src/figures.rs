//! All figures of a run: those that its results contain, and those that only its recording shows.

use roundtrip_layers::storage::{Breakdown, Layer};
use roundtrip_run::figures::Group;
pub use roundtrip_run::figures::{Better, Bounds, Figure, Unit};
use roundtrip_run::{Results, Tested};

use crate::interference::Explained;
use crate::storage::SeriesLayers;

/// The figures of a layer, behind its name.
pub(crate) const OF_LAYER: [&str; 5] = [".mean", ".p50", ".p90", ".p99", ".max"];

/// All figures of a run. `layers` contains the divided writes and `beside` the explained
/// comparisons, if they were recorded.
#[must_use]
pub fn of(results: &Results, layers: &[SeriesLayers<'_>], beside: &[Explained<'_>]) -> Vec<Figure> {
    let mut figures = results.figures();
    if let Some(result) = &results.storage {
        for SeriesLayers { series, breakdown } in layers {
            let Some(labels) = result.labels(series.writer, series.size_bytes) else { continue };
            let mut group = Group::new(labels);
            of_layers(&mut group, "", breakdown);
            group.add("host.share", breakdown.host_share() * 100.0, breakdown.calls, None);
            figures.extend(result.test().figures(&group));
        }
    }
    if let Some(result) = results.interference.as_ref().filter(|result| result.recorder.is_some()) {
        for one in beside {
            let Some(labels) = result.labels(one.beside) else { continue };
            let mut group = Group::new(labels);
            group.ratio("device.ratio", one.device());
            for (prefix, side) in ["alone.", ""].into_iter().zip(one.sides.iter().flatten()) {
                of_layers(&mut group, prefix, &side.breakdown);
            }
            figures.extend(result.test().figures(&group));
        }
    }
    figures
}

/// Adds the time in each layer that has any.
fn of_layers(group: &mut Group<'_>, prefix: &str, breakdown: &Breakdown) {
    for layer in Layer::ALL.into_iter().filter(|layer| breakdown.layers.contains_key(layer)) {
        let at = |percent| breakdown.percentile_ns(layer, percent).map(|ns| ns as f64);
        let max = Some(breakdown.max_ns(layer) as f64);
        let values = [Some(breakdown.mean_ns(layer)), at(50.0), at(90.0), at(99.0), max];
        for (name, value) in OF_LAYER.into_iter().zip(values) {
            group.add(format!("{prefix}{}{name}", layer.name()), value, breakdown.calls, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_latency_run_has_times_legs_and_misses_of_each_caller() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/x86_64-6.1-binder");
        let run = roundtrip_run::Run::read(&directory).unwrap();
        let figures = of(&run.results, &[], &[]);
        let find = |name: &str, caller: &str| {
            let mut of = figures.iter().filter(|figure| figure.name == name);
            of.find(|figure| figure.label("caller") == Some(caller)).unwrap_or_else(|| panic!("{name}"))
        };
        let missed = find("missed", "fifo:99");
        assert_eq!((missed.value, missed.samples), (Some(8.0), 300));
        let series = &run.results.latency.as_ref().unwrap().series[0];
        let caller = &series.all().unwrap().callers[0];
        assert_eq!(find("p99", "fifo:99").value, caller.latency.percentile_ns(99.0).map(|ns| ns as f64));
        assert_eq!((find("p99.9", "fifo:99").value, find("p99.9", "fifo:99").samples), (None, 300));
        assert_eq!(find("request.p50", "other").unit, Unit::Nanoseconds);
        for figure in &figures {
            let Some(Bounds { low, high }) = figure.bounds else { continue };
            assert!((low..=high).contains(&figure.value.unwrap()), "{figure:?}");
        }
        let mut names: Vec<_> = figures.iter().map(|figure| (&figure.name, &figure.of)).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "each figure has its own name");
    }
}
