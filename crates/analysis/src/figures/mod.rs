//! The figures of a run as one flat list, for comparisons, gates and tables. Each figure is
//! computed here and nowhere else. Must not know how anything is shown.

mod observed;
mod observed_writes;

use latency::{Histogram, Interval, PERCENTS};
use layers::storage::{Breakdown, Layer};
use run::Results;
use run::baseline::BaselineResult;
use run::ipc::Backend;
use run::ipc::latency::{CallerResult, LatencyResult};
use run::ipc::throughput::{Batch, ThroughputResult, ThroughputRow};
use run::ipc::workers::WorkersResult;
use run::storage::{StorageResult, StorageSeries};

use crate::interference::Explained;
use crate::storage::SeriesLayers;

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A count.
    Count,
    /// Percent.
    Percent,
    /// A rate per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// One value divided by another.
    Ratio,
}

/// Which of two values is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
}

/// The 95% confidence interval of a figure, estimated from a single run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower end, in the figure's unit.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name, in lower case: `p99`, `request.p50`, `missed`.
    pub name: String,
    /// Its labels, from the test to the caller: pairs of key and value.
    pub of: Vec<(&'static str, String)>,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: Unit,
    /// Which value is better.
    pub better: Better,
    /// The number of calls or rounds that it is based on.
    pub samples: u64,
    /// Its interval, if the calls or rounds were independent; `None` if there are too few.
    pub bounds: Option<Bounds>,
}

impl Figure {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.of.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    }

    /// Whether two figures of different runs describe the same thing.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.name == other.name && self.of == other.of
    }
}

/// The driver of a run's calls; `None` if there was no driver, as in a run of writes.
#[must_use]
pub fn backend(results: &Results) -> Option<&Backend> {
    let latency = results.latency.as_ref().and_then(|result| result.backend.as_ref());
    let throughput = results.throughput.as_ref().and_then(|result| result.backend.as_ref());
    let workers = results.workers.as_ref().and_then(|result| result.backend.as_ref());
    let baseline = results.baseline.as_ref().and_then(|result| result.backend());
    latency.or(throughput).or(workers).or(baseline)
}

/// Whether that driver was the emulated one; `None` if there was no driver.
#[must_use]
pub fn is_emulated(results: &Results) -> Option<bool> {
    // Calls were observed, which needs events. Only the kernel's driver produces events.
    if results.observed_calls.is_some() {
        return Some(false);
    }
    backend(results).map(|backend| matches!(backend, Backend::Emulated { .. }))
}

/// All figures of a run. `layers` contains the divided writes and `beside` the explained
/// comparisons, if they were recorded.
#[must_use]
pub fn of(results: &Results, layers: &[SeriesLayers<'_>], beside: &[Explained<'_>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    if let Some(result) = &results.baseline {
        of_baseline(&mut figures, result);
    }
    if let Some(result) = &results.throughput {
        of_throughput(&mut figures, result);
    }
    if let Some(result) = &results.latency {
        of_latency(&mut figures, result);
    }
    if let Some(result) = &results.workers {
        of_workers(&mut figures, result);
    }
    if let Some(result) = &results.storage {
        of_storage(&mut figures, result, layers);
    }
    if let Some(result) = &results.observed_calls {
        observed::of_observed(&mut figures, result);
    }
    if let Some(result) = &results.observed_writes {
        observed_writes::of_observed_writes(&mut figures, result);
    }
    beside.iter().for_each(|one| of_interference(&mut figures, one));
    figures
}

type Labels = Vec<(&'static str, String)>;

/// Figures with the same labels.
struct Group<'a> {
    figures: &'a mut Vec<Figure>,
    of: Labels,
}

impl Group<'_> {
    fn add(
        &mut self,
        name: impl Into<String>,
        value: f64,
        (unit, better): (Unit, Better),
        samples: u64,
        bounds: Option<Bounds>,
    ) {
        self.figures.push(Figure {
            name: name.into(),
            of: self.of.clone(),
            value,
            unit,
            better,
            samples,
            bounds,
        });
    }

    /// Adds mean, percentiles and maximum. Their names start with `prefix`.
    fn times(&mut self, prefix: &str, histogram: &Histogram) {
        let (Some(mean_ns), Some(max_ns)) = (histogram.mean_ns(), histogram.max_ns()) else { return };
        let count = histogram.count();
        let mean = histogram.mean_interval_ns().map(|(low, high)| Bounds { low, high });
        self.add(format!("{prefix}mean"), mean_ns, TIME, count, mean);
        for percentile in PERCENTS.iter().filter_map(|&percent| histogram.percentile(percent)) {
            let ends = percentile.low_ns.zip(percentile.high_ns);
            let bounds = ends.map(|(low, high)| Bounds { low: low as f64, high: high as f64 });
            let name = format!("{prefix}p{}", percentile.percent);
            self.add(name, percentile.ns as f64, TIME, count, bounds);
        }
        self.add(format!("{prefix}max"), max_ns as f64, TIME, count, None);
    }

    /// Adds the mean time of each layer with any time. The names start with `prefix`.
    fn layers(&mut self, prefix: &str, breakdown: &Breakdown) {
        for layer in Layer::ALL.into_iter().filter(|layer| breakdown.layers.contains_key(layer)) {
            let name = format!("{prefix}{}.mean", layer.name());
            self.add(name, breakdown.mean_ns(layer), TIME, breakdown.calls, None);
        }
    }

    /// Adds the median of the rounds' values.
    fn rounds(&mut self, name: &str, unit: (Unit, Better), values: impl Iterator<Item = f64>) {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let Some(median) = latency::quantile(&values, 0.5) else { return };
        let bounds = latency::median_interval(&values).map(Bounds::from);
        self.add(name, median, unit, values.len() as u64, bounds);
    }

    /// Adds the number of calls, of `calls`, that missed the deadline, and their share.
    fn misses(&mut self, prefix: &str, missed: u64, calls: u64) {
        self.add(format!("{prefix}missed"), missed as f64, (Unit::Count, Better::Lower), calls, None);
        if calls > 0 {
            let share = 100.0 * missed as f64 / calls as f64;
            let bounds = Some(share_bounds(missed, calls));
            self.add(format!("{prefix}missed.share"), share, (Unit::Percent, Better::Lower), calls, bounds);
        }
    }
}

const TIME: (Unit, Better) = (Unit::Nanoseconds, Better::Lower);

impl From<Interval> for Bounds {
    fn from(Interval { low, high, .. }: Interval) -> Self {
        Self { low, high }
    }
}

/// The 95% confidence interval of a share, in percent (Wilson, 1927). It also works for shares of
/// 0% and 100%.
fn share_bounds(part: u64, whole: u64) -> Bounds {
    const Z: f64 = 1.959_964;
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let at = |value: f64| (100.0 * value / (1.0 + Z * Z / n)).clamp(0.0, 100.0);
    Bounds { low: at(middle - half), high: at(middle + half) }
}

fn of_baseline(figures: &mut Vec<Figure>, result: &BaselineResult) {
    for cell in &result.cells {
        let of = vec![
            ("test", "baseline".to_owned()),
            ("transport", cell.transport.clone()),
            ("size_bytes", cell.size_bytes.to_string()),
            ("placement", cell.placement.to_string()),
        ];
        let mut group = Group { figures, of };
        group.rounds("time", TIME, cell.round_medians_ns.iter().map(|&ns| ns as f64));
        if let Some(ratio) = cell.against_futex.filter(|_| cell.transport != run::baseline::FUTEX) {
            let bounds = ratio.interval.map(Bounds::from);
            let unit = (Unit::Ratio, Better::Lower);
            group.add("futex.ratio", ratio.median, unit, ratio.rounds as u64, bounds);
        }
        group.times("", &cell.latency);
    }
}

fn of_throughput(figures: &mut Vec<Figure>, result: &ThroughputResult) {
    for row @ ThroughputRow { stack, size_bytes, batches, latency, .. } in &result.rows {
        let of = vec![
            ("test", "throughput".to_owned()),
            ("stack", stack.to_string()),
            ("size_bytes", size_bytes.to_string()),
            ("placement", result.plan.placement.to_string()),
        ];
        let mut group = Group { figures, of };
        group.rounds("time", TIME, batches.iter().map(Batch::real_time_ns));
        group.rounds("cpu", TIME, batches.iter().map(Batch::cpu_time_ns));
        let rate = (Unit::BytesPerSecond, Better::Higher);
        group.rounds("rate", rate, row.batches.iter().map(Batch::bytes_per_second));
        if let Some(latency) = latency {
            group.times("", latency);
        }
    }
}

fn of_latency(figures: &mut Vec<Figure>, result: &LatencyResult) {
    for series in &result.series {
        let Some(all) = series.all() else { continue };
        for caller in &all.callers {
            let CallerResult { deadline, latency, response, request, handling, reply, .. } = caller;
            let of = vec![
                ("test", "latency".to_owned()),
                ("stack", series.stack.to_string()),
                ("inheritance", series.inheritance.name().to_owned()),
                ("caller", caller.caller.to_string()),
            ];
            let mut group = Group { figures, of };
            group.times("", latency);
            group.misses("", deadline.missed, caller.count());
            if let Some(response) = response {
                group.times("response.", &response.time);
                group.misses("response.", response.missed, caller.count());
            }
            for (leg, times) in [("request.", request), ("handling.", handling), ("reply.", reply)] {
                group.times(leg, times);
            }
        }
    }
}

fn of_workers(figures: &mut Vec<Figure>, result: &WorkersResult) {
    let of = vec![
        ("test", "workers".to_owned()),
        ("stack", result.plan.stack.to_string()),
        ("workers", result.plan.workers.to_string()),
        ("size_bytes", result.plan.size_bytes.to_string()),
    ];
    let mut group = Group { figures, of };
    let calls = result.latency.count();
    group.add("rate", result.iterations_per_s, (Unit::PerSecond, Better::Higher), calls, None);
    group.times("", &result.latency);
}

fn of_storage(figures: &mut Vec<Figure>, result: &StorageResult, layers: &[SeriesLayers<'_>]) {
    for series @ StorageSeries { writer, size_bytes, latency, .. } in &result.series {
        let Some(who) = result.writers.get(*writer) else { continue };
        let of = vec![
            ("test", "storage".to_owned()),
            ("writer", who.api.to_string()),
            ("durability", who.durability.to_string()),
            ("size_bytes", size_bytes.to_string()),
        ];
        let mut group = Group { figures, of };
        group.times("", latency);
        let ours = |one: &&SeriesLayers<'_>| {
            one.series.writer == series.writer && one.series.size_bytes == series.size_bytes
        };
        let Some(SeriesLayers { breakdown, .. }) = layers.iter().find(ours) else { continue };
        group.layers("", breakdown);
        let host = breakdown.host_share() * 100.0;
        group.add("host.share", host, (Unit::Percent, Better::Lower), breakdown.calls, None);
    }
}

fn of_interference(figures: &mut Vec<Figure>, one: &Explained<'_>) {
    let of = vec![
        ("test", "interference".to_owned()),
        ("beside", one.beside.condition.to_string()),
        ("writer", one.beside.writer.to_string()),
        ("size_bytes", one.beside.size_bytes.to_string()),
    ];
    let mut group = Group { figures, of };
    for (name, ratio) in [("response.ratio", one.beside.response()), ("device.ratio", one.device())] {
        if let Some(ratio) = ratio {
            let bounds = ratio.interval.map(Bounds::from);
            group.add(name, ratio.median, (Unit::Ratio, Better::Lower), ratio.rounds as u64, bounds);
        }
    }
    for (prefix, side) in ["alone.", ""].into_iter().zip(one.sides.iter().flatten()) {
        group.layers(prefix, &side.breakdown);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fixture(name: &str) -> run::Run {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs").join(name);
        run::Run::read(&directory).unwrap()
    }

    #[test]
    fn a_latency_run_has_times_legs_and_misses_of_each_caller() {
        let run = fixture("x86_64-6.1-binder");
        let figures = of(&run.results, &[], &[]);
        let find = |name: &str, caller: &str| {
            let mut of = figures.iter().filter(|figure| figure.name == name);
            of.find(|figure| figure.label("caller") == Some(caller)).unwrap_or_else(|| panic!("{name}"))
        };
        let missed = find("missed", "fifo:99");
        assert_eq!((missed.value, missed.samples), (8.0, 300));
        let series = &run.results.latency.as_ref().unwrap().series[0];
        let caller = &series.all().unwrap().callers[0];
        assert_eq!(find("p99", "fifo:99").value, caller.latency.percentile_ns(99.0).unwrap() as f64);
        assert_eq!(find("request.p50", "other").unit, Unit::Nanoseconds);
        for figure in &figures {
            let Some(Bounds { low, high }) = figure.bounds else { continue };
            assert!((low..=high).contains(&figure.value), "{figure:?}");
        }
        let mut names: Vec<_> = figures.iter().map(|figure| (&figure.name, &figure.of)).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "each figure has its own name");
    }

    #[test]
    fn a_share_of_none_or_all_has_an_interval_too() {
        let none = share_bounds(0, 100);
        assert!(none.low == 0.0 && (3.69..3.71).contains(&none.high), "{none:?}");
        let all = share_bounds(100, 100);
        assert!((96.29..96.31).contains(&all.low) && all.high == 100.0, "{all:?}");
        // The textbook example, 15 of 148.
        let some = share_bounds(15, 148);
        assert!((6.23..6.25).contains(&some.low) && (16.04..16.06).contains(&some.high), "{some:?}");
    }
}
