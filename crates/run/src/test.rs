//! What every test is described by, and what its result can do. Must not know any test.

use roundtrip_latency::counts::CLUMP;
use roundtrip_latency::{PERCENTS, Percentile};

use crate::error::{Error, MergeFault, Result};
use crate::figures::{Better, Bounds, Figure, Group, Labels, Times, Unit};
use crate::ipc::Backend;

/// The description of a test. Formats, gates, comparisons and merging read only this, and
/// [`Tested`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Its name in JSON, CSV, gates and the data set of many devices.
    pub name: &'static str,
    /// The command that makes it.
    pub command: &'static str,
    /// Its heading in reports.
    pub title: &'static str,
    /// The labels that distinguish its groups.
    pub labels: &'static [&'static str],
    /// The prefixes of its groups' durations; an empty text for whole calls.
    pub times: &'static [&'static str],
    /// Its other figures.
    pub numbers: &'static [(&'static str, Unit, Better)],
    /// The prefixes of the mean times of layers.
    pub layers: &'static [&'static str],
}

/// The figures of durations, behind their prefix.
pub const TIMES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];

const _: () = assert!(TIMES.len() == PERCENTS.len() + 2);

impl Test {
    /// The unit of a figure; `None` if the test has none of that name, or if it is that of a layer.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<(Unit, Better)> {
        let is_time = |prefix: &&str| name.strip_prefix(*prefix).is_some_and(|rest| TIMES.contains(&rest));
        if self.times.iter().any(is_time) {
            return Some((Unit::Nanoseconds, Better::Lower));
        }
        let known = self.numbers.iter().find(|(known, ..)| *known == name);
        known.map(|(_, unit, better)| (*unit, *better))
    }

    /// The figures of one of its groups.
    #[must_use]
    pub fn figures(&self, group: &Group<'_>) -> Vec<Figure> {
        let of: Labels =
            std::iter::once(("test", self.name.to_owned())).chain(group.labels.clone()).collect();
        let figure = |name: String, value: Option<f64>, samples, bounds: Option<Bounds>| {
            // What a description does not list is the mean of a layer.
            let (unit, better) = self.unit(&name).unwrap_or((Unit::Nanoseconds, Better::Lower));
            Figure { name, of: of.clone(), value, unit, better, samples, bounds, in_clumps: bounds }
        };
        let numbers = group.numbers.iter();
        let numbers = numbers.map(|one| figure(one.name.clone(), one.value, one.samples, one.bounds));
        let times = group.times.iter().flat_map(|Times { prefix, histogram, .. }| {
            let bounds = |low: f64, high: f64| Bounds { low, high };
            let count = histogram.count();
            let (mean, max) = (histogram.mean_ns(), histogram.max_ns().map(|ns| ns as f64));
            let mean = mean.map(|mean| {
                let interval = histogram.mean_interval_ns().map(|(low, high)| bounds(low, high));
                figure(format!("{prefix}mean"), Some(mean), count, interval)
            });
            let percentiles = PERCENTS.into_iter().filter(|_| count > 0).map(move |percent| {
                let interval = |found: Option<Percentile>| {
                    let (low, high) = found.and_then(|one| one.low_ns.zip(one.high_ns))?;
                    Some(bounds(low as f64, high as f64))
                };
                let found = histogram.percentile(percent);
                let value = found.map(|one| one.ns as f64);
                let mut figure = figure(format!("{prefix}p{percent}"), value, count, interval(found));
                if percent >= 99.0 {
                    figure.in_clumps = interval(histogram.percentile_in_clumps(percent, CLUMP));
                }
                figure
            });
            let max = max.map(|max| figure(format!("{prefix}max"), Some(max), count, None));
            mean.into_iter().chain(percentiles).chain(max).collect::<Vec<_>>()
        });
        numbers.chain(times).collect()
    }
}

/// Whether a test recorded the kernel's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// It does not record any.
    Never,
    /// It recorded none, for this reason.
    Missing(String),
    /// It recorded all of them.
    Whole,
    /// The recording ended early, or is lost, for this reason.
    Ended(String),
}

impl Recording {
    pub(crate) fn of(recorded: bool, reason: Option<&String>) -> Self {
        match (recorded, reason.cloned()) {
            (true, None) => Self::Whole,
            (true, Some(reason)) => Self::Ended(reason),
            (false, reason) => Self::Missing(reason.unwrap_or_else(|| "nothing was recorded".to_owned())),
        }
    }
}

/// The result of a test.
pub trait Tested {
    /// Its description.
    fn test(&self) -> &'static Test;

    /// Its groups of calls.
    fn groups(&self) -> Vec<Group<'_>>;

    /// What two runs must have in common to be compared or merged: the plan without what does not
    /// matter, as text.
    fn plan(&self) -> String;

    /// The driver of its calls; `None` without a driver.
    fn backend(&self) -> Option<&Backend> {
        None
    }

    /// What a reader must know before trusting its figures.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it recorded events.
    fn recording(&self) -> Recording {
        Recording::Never
    }

    /// Whether other programs were observed.
    fn observed(&self) -> bool {
        false
    }

    /// Adds the calls of another run of the same plan.
    ///
    /// # Errors
    /// [`Error::NotMerged`] if results of this test cannot be merged, or these two cannot.
    fn merge(&mut self, _other: &Self) -> Result<()>
    where
        Self: Sized,
    {
        Err(Error::NotMerged(MergeFault::Never { what: self.test().title }))
    }
}

/// The error that runs differ in something that must be equal.
pub(crate) fn different(what: &'static str) -> Error {
    Error::NotMerged(MergeFault::Different { what })
}

/// Refuses results of different plans.
pub(crate) fn same_plan<P: PartialEq>(ours: &P, theirs: &P) -> Result<()> {
    if ours == theirs { Ok(()) } else { Err(different("plans")) }
}
