//! Gates: conditions on a result that make a command fail. A gate names a figure and its limit
//! (`p99>200us`), or a verdict (`inheritance`, `warnings`). A requirement names what the run must
//! have used. Must not know how a violation is shown.
//!
//! A gate on something that the run does not contain is violated, so that a missing measurement
//! never passes.

mod metrics;
mod parse;
#[cfg(test)]
mod tests;

use run::Run;
use run::ipc::Backend;
use run::ipc::latency::{LatencyResult, Verdict};

use crate::figures::Figure;
pub use metrics::{TESTS, labels};
pub use parse::figure_name;

/// A condition that makes a command fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The text as typed.
    text: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Figure {
        name: String,
        labels: Vec<(String, String)>,
        /// The tests that have a figure of this name with the limit's unit.
        tests: Vec<&'static str>,
        /// True if values above the limit violate the gate, false if values below it do.
        above: bool,
        /// The limit, in the figure's own unit.
        limit: f64,
    },
    Inheritance,
    Warnings,
}

/// What a run must have used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The plan's real-time callers made calls.
    Realtime,
    /// All calls over a driver went over the kernel's driver.
    KernelDriver,
    /// Kernel events were recorded until the end.
    Events,
}

/// How a gate is violated.
#[derive(Debug, Clone, PartialEq)]
pub enum Violation {
    /// Figures exceed the limit.
    Beyond {
        /// The figure that exceeds the limit most.
        worst: Box<Figure>,
        /// The number of figures that exceed the limit.
        beyond: usize,
        /// The number of figures that the gate covers.
        of: usize,
    },
    /// The run has no such figure.
    NoFigure,
    /// Real-time priorities were not inherited, or it is unknown whether they were.
    Inheritance {
        /// The series; empty for the whole run.
        series: String,
        /// The reason.
        reason: String,
    },
    /// The run has this many warnings.
    Warnings(usize),
    /// The run did not use something required. Contains the reason.
    Missing(String),
}

impl Gate {
    /// The gate's text as typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How a run violates the gate; `None` if it does not. `figures` are the figures of the run.
    #[must_use]
    pub fn judge(&self, run: &Run, figures: &[Figure]) -> Option<Violation> {
        match &self.what {
            What::Warnings => (!run.warnings.is_empty()).then_some(Violation::Warnings(run.warnings.len())),
            What::Inheritance => inheritance(run.results.latency.as_ref()),
            What::Figure { name, labels, tests, above, limit } => {
                let chosen = |figure: &&Figure| {
                    figure.name == *name
                        && figure.label("test").is_some_and(|test| tests.contains(&test))
                        && labels.iter().all(|(key, value)| figure.label(key) == Some(value.as_str()))
                };
                let figures: Vec<&Figure> = figures.iter().filter(chosen).collect();
                // The excess is positive if the value is beyond the limit. NaN is beyond every
                // limit.
                let excess = |figure: &Figure| {
                    let excess = if *above { figure.value - limit } else { limit - figure.value };
                    if excess.is_nan() { f64::INFINITY } else { excess }
                };
                let beyond = figures.iter().filter(|figure| excess(figure) > 0.0).count();
                let worst = figures.iter().max_by(|one, other| excess(one).total_cmp(&excess(other)));
                match worst {
                    None => Some(Violation::NoFigure),
                    Some(_) if beyond == 0 => None,
                    Some(&worst) => {
                        Some(Violation::Beyond { worst: Box::new(worst.clone()), beyond, of: figures.len() })
                    }
                }
            }
        }
    }
}

/// A violation if some call of a real-time caller was not served at its priority although the node
/// requests inheritance, or if that is unknown.
fn inheritance(result: Option<&LatencyResult>) -> Option<Violation> {
    let unknown = |reason: &str| {
        Some(Violation::Inheritance { series: String::new(), reason: format!("not known: {reason}") })
    };
    let Some(result) = result else { return unknown("the run has no latency test") };
    let mut asking = result.series.iter().filter(|series| series.inheritance.is_on(series.stack)).peekable();
    if asking.peek().is_none() {
        return unknown("no node asks for it; use --inheritance on");
    }
    asking.find_map(|series| match &series.verdict {
        Verdict::Pass | Verdict::Unseen { .. } => None,
        Verdict::Fail { reason } => {
            Some(Violation::Inheritance { series: series.stack.to_string(), reason: reason.clone() })
        }
        Verdict::Skip { reason } => unknown(reason),
    })
}

impl Requirement {
    /// All requirements.
    pub const ALL: [Self; 3] = [Self::Realtime, Self::KernelDriver, Self::Events];

    /// The requirement's name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::KernelDriver => "kernel-driver",
            Self::Events => "events",
        }
    }

    /// Why a run does not meet the requirement; `None` if it does.
    #[must_use]
    pub fn judge(self, run: &Run) -> Option<Violation> {
        let missing = match self {
            Self::Realtime => realtime(run),
            Self::KernelDriver => kernel_driver(run),
            Self::Events => events(run),
        };
        missing.map(Violation::Missing)
    }
}

fn realtime(run: &Run) -> Option<String> {
    let Some(result) = &run.results.latency else { return Some("the run has no latency test".to_owned()) };
    if let Some(reason) = &result.realtime_refused {
        return Some(reason.clone());
    }
    let called = |series: &run::ipc::latency::Series| {
        let mut callers = series.pairs.iter().flat_map(|pair| &pair.callers);
        callers.any(|caller| caller.caller.policy.is_realtime())
    };
    (!result.series.iter().all(called)).then(|| "no real-time caller made calls".to_owned())
}

fn kernel_driver(run: &Run) -> Option<String> {
    let results = &run.results;
    let backends: Vec<&Backend> = [
        results.baseline.as_ref().and_then(run::baseline::BaselineResult::backend),
        results.latency.as_ref().and_then(|result| result.backend.as_ref()),
        results.throughput.as_ref().and_then(|result| result.backend.as_ref()),
        results.workers.as_ref().and_then(|result| result.backend.as_ref()),
        results.traits.as_ref().map(|result| &result.backend),
    ]
    .into_iter()
    .flatten()
    .collect();
    if results.observed_calls.is_some() && backends.is_empty() {
        return None;
    }
    match backends.iter().find(|backend| backend.is_emulated()) {
        Some(backend) => Some(format!("the run used the {backend}")),
        None if backends.is_empty() => Some("the run used no binder driver".to_owned()),
        None => None,
    }
}

fn events(run: &Run) -> Option<String> {
    let results = &run.results;
    let explained = results.latency.as_ref().and_then(|result| result.explained.as_ref());
    let recorders = [
        explained.map(|kept| (kept.recorder.is_some(), kept.not_recorded.as_ref())),
        results.observed_calls.as_ref().map(|one| (true, one.not_recorded.as_ref())),
        results.observed_writes.as_ref().map(|one| (true, one.not_recorded.as_ref())),
        results.storage.as_ref().map(|one| (one.recorder.is_some(), one.recording_ended.as_ref())),
        results.interference.as_ref().map(|one| (one.recorder.is_some(), one.recording_ended.as_ref())),
    ];
    let mut recorders = recorders.into_iter().flatten().peekable();
    if recorders.peek().is_none() {
        return Some("no test of the run records events; for latency, --explain does".to_owned());
    }
    recorders.find_map(|(recorder, ended)| match ended {
        Some(reason) => Some(reason.clone()),
        None if !recorder => Some("nothing was recorded".to_owned()),
        None => None,
    })
}
