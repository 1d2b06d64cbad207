//! Gates: conditions on a result that make a command fail. A gate names a figure and its limit
//! (`p99>200us`), or a verdict (`inheritance`, `rate`, `warnings`). A requirement names what the
//! run must have used. Must not know how a violation is shown.
//!
//! A gate on something that the run does not contain is violated, so that a missing measurement
//! never passes.

mod metrics;
mod parse;
#[cfg(test)]
mod tests;

use roundtrip_run::ipc::latency::{LatencyResult, Verdict};
use roundtrip_run::{Recording, Run, Tested};

use crate::figures::Figure;
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
    Rate,
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
    /// The run has too few samples for this percentile: at most this many.
    TooFew(u64),
    /// Real-time priorities were not inherited, or it is unknown whether they were.
    Inheritance {
        /// The series; empty for the whole run.
        series: String,
        /// The reason.
        reason: String,
    },
    /// A rate was not reached, or there is none. Contains the reason.
    Rate(String),
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
            What::Rate => rate(run.results.latency.as_ref()).map(Violation::Rate),
            What::Figure { name, labels, tests, above, limit } => {
                let chosen = |figure: &&Figure| {
                    figure.name == *name
                        && figure.label("test").is_some_and(|test| tests.contains(&test))
                        && labels.iter().all(|(key, value)| figure.label(key) == Some(value.as_str()))
                };
                let chosen: Vec<&Figure> = figures.iter().filter(chosen).collect();
                // The excess is positive if the value is beyond the limit. NaN is beyond every
                // limit.
                let excess = |value: f64| {
                    let excess = if *above { value - limit } else { limit - value };
                    if excess.is_nan() { f64::INFINITY } else { excess }
                };
                let judged = chosen.iter().filter_map(|figure| Some((excess(figure.value?), *figure)));
                let judged: Vec<(f64, &Figure)> = judged.collect();
                let beyond = judged.iter().filter(|(excess, _)| *excess > 0.0).count();
                match judged.iter().max_by(|one, other| one.0.total_cmp(&other.0)) {
                    None => Some(match chosen.iter().map(|figure| figure.samples).max() {
                        Some(samples) => Violation::TooFew(samples),
                        None => Violation::NoFigure,
                    }),
                    Some(_) if beyond == 0 => None,
                    Some(&(_, worst)) => {
                        Some(Violation::Beyond { worst: Box::new(worst.clone()), beyond, of: judged.len() })
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

/// Why the calls did not have the planned rate; `None` if they did.
fn rate(result: Option<&LatencyResult>) -> Option<String> {
    let Some(planned_per_s) = result.and_then(|result| result.plan.rate_per_s) else {
        return Some("the calls had no rate; use --rate".to_owned());
    };
    let all =
        result.iter().flat_map(|result| &result.series).filter_map(|series| Some((series, series.all()?)));
    let mut callers =
        all.flat_map(|(series, all)| all.callers.into_iter().map(move |caller| (series, caller)));
    callers.find_map(|(series, caller)| {
        let response = caller.response.as_ref()?;
        let who = format!("{} over {}", caller.caller, series.stack);
        match (response.rate_per_s(), response.too_slow(planned_per_s)) {
            (None, _) => Some(format!("{who}: the run does not say which rate was reached")),
            (_, Some(reached)) => Some(format!("{who}: {reached:.1} of {planned_per_s} calls a second")),
            _ => None,
        }
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
    let called = |series: &roundtrip_run::ipc::latency::Series| {
        let mut callers = series.pairs.iter().flat_map(|pair| &pair.callers);
        callers.any(|caller| caller.caller.policy.is_realtime())
    };
    (!result.series.iter().all(called)).then(|| "no real-time caller made calls".to_owned())
}

fn kernel_driver(run: &Run) -> Option<String> {
    let mut backends = run.results.parts().filter_map(Tested::backend);
    match (backends.find(|backend| backend.is_emulated()), run.results.is_emulated()) {
        (Some(backend), _) => Some(format!("the run used the {backend}")),
        (None, None) => Some("the run used no binder driver".to_owned()),
        (None, Some(_)) => None,
    }
}

fn events(run: &Run) -> Option<String> {
    let recordings = run.results.parts().map(Tested::recording);
    let mut recordings = recordings.filter(|recording| *recording != Recording::Never).peekable();
    if recordings.peek().is_none() {
        return Some("no test of the run records events; for latency, --explain does".to_owned());
    }
    recordings.find_map(|recording| match recording {
        Recording::Missing(reason) | Recording::Ended(reason) => Some(reason),
        Recording::Never | Recording::Whole => None,
    })
}
