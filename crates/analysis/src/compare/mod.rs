//! Whether one set of runs is better or worse than another. A verdict is based on how much runs of
//! the same thing vary. It is never based on the number of calls within one run, because those
//! calls share the machine's state. Must not know how anything is shown.

mod comparable;
mod google;
mod outlook;
mod side;

use roundtrip_latency::counts::{self, Events};
use roundtrip_latency::two_samples::{self, Shift};
use roundtrip_sorting::SmallSort as _;

pub use comparable::{Difference, differences};
pub use outlook::{Outlook, SMALL, outlook};
pub use side::{Measured, Side};

use crate::figures::{Better, Bounds, Figure, Unit};

/// Which figures to compare, and how strictly.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Whether the n-th runs of both sides were made one right after the other.
    pub paired: bool,
    /// The figures count as the same if the interval of the ratio differs from 1 by at most this.
    /// 0.05 means 5%.
    pub margin: f64,
    /// How much runs of the same thing may differ if they were made at different times: 0.3 means
    /// 30%. Ignored if both sides have enough runs, and the runs of both sides were interleaved.
    pub noise: f64,
    /// The figures to compare; empty for those in [`MAIN`].
    pub names: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { paired: false, margin: 0.02, noise: 0.3, names: Vec::new() }
    }
}

/// The figures that are compared by default. There are few, because each additional figure
/// increases the probability of a chance finding.
pub const MAIN: [&str; 10] =
    ["time", "rate", "p50", "p99", "p99.9", "max", "missed", "response.p99", "response.ratio", "futex.ratio"];

/// The figures that count calls. Their ratio is that of the shares, because the sides may have made
/// different numbers of calls.
const OF_CALLS: [&str; 5] = ["missed", "response.missed", "failed", "throttled", "above"];

/// The maximum number of figures in one comparison.
pub const MOST_FIGURES: usize = 10_000;

/// The probability of a false alarm over all figures of a comparison.
const ERROR: f64 = 0.05;

/// The result of comparing one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The new value is better.
    Better,
    /// The new value is worse.
    Worse,
    /// The values differ by no more than the margin.
    Same,
    /// The runs show neither a difference nor equality.
    CannotTell,
}

/// The basis of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Independent runs of both sides, interleaved in time: the Mann-Whitney test.
    Runs,
    /// The same test for runs made at different times. The interval is widened by
    /// [`Options::noise`], because the machine may have changed between the runs.
    RunsApart,
    /// Pairs of runs: the Wilcoxon test.
    Pairs,
    /// Too few runs for a test: the intervals of the single runs, widened by [`Options::noise`].
    /// For figures that count calls, the counts of all runs ([`counts::shares`]).
    FewRuns,
}

/// One figure of both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The figure's name.
    pub name: String,
    /// What it describes.
    pub of: Vec<(&'static str, String)>,
    /// The values of the labels by which the sides differ, of the base and of the new side.
    pub subject: Option<[String; 2]>,
    /// The unit of its values.
    pub unit: Unit,
    /// Which value is better.
    pub better: Better,
    /// The median of the base's runs.
    pub base: f64,
    /// The median of the new runs.
    pub new: f64,
    /// The number of runs of the base and of the new side.
    pub runs: [usize; 2],
    /// If the figure counts calls: of how many, as the medians of the runs. The ratio is then that
    /// of the shares.
    pub calls: Option<[f64; 2]>,
    /// New divided by base; `None` if no ratio exists.
    pub ratio: Option<f64>,
    /// The 95% interval of the ratio.
    pub bounds: Option<Bounds>,
    /// What the verdict is based on.
    pub basis: Basis,
    /// The probability of such a difference by chance, corrected for the number of figures (Holm,
    /// 1979).
    pub p: Option<f64>,
    /// The result.
    pub verdict: Verdict,
    /// If the verdict is [`Verdict::CannotTell`]: about how many runs of each side would be needed.
    pub runs_needed: Option<usize>,
}

impl Compared {
    /// By how many percent the new side is worse; negative if it is better; `None` without a ratio.
    #[must_use]
    pub fn worse_percent(&self) -> Option<f64> {
        let ratio = self.ratio?;
        Some(match self.better {
            Better::Lower => (ratio - 1.0) * 100.0,
            Better::Higher => (1.0 / ratio - 1.0) * 100.0,
        })
    }
}

/// Compares every figure that all runs of both sides have.
#[must_use]
pub fn compare(base: &Side, new: &Side, options: &Options) -> Vec<Compared> {
    let Some(first) = base.runs.first() else { return Vec::new() };
    let changed = changed_labels(base, new);
    let values = |of: fn(&Changed) -> &str| changed.iter().map(of).collect::<Vec<_>>().join(", ");
    let subject = (!changed.is_empty()).then(|| [values(|one| &one.base), values(|one| &one.new)]);
    let basis = match (options.paired, made_in_turn(base, new)) {
        (true, _) => Basis::Pairs,
        (false, true) => Basis::Runs,
        (false, false) => Basis::RunsApart,
    };
    let mut all: Vec<Compared> = first
        .figures
        .iter()
        .filter(|figure| wanted(figure, options))
        .take(MOST_FIGURES)
        .filter_map(|figure| {
            let mut compared =
                one(figure, &base.of(figure, &[])?, &new.of(figure, &changed)?, (basis, options));
            for (key, value) in &mut compared.of {
                if let Some(change) = changed.iter().find(|change| change.key == *key) {
                    *value = format!("{} to {}", change.base, change.new);
                }
            }
            compared.subject.clone_from(&subject);
            Some(compared)
        })
        .collect();
    correct(&mut all);
    for compared in &mut all {
        judge(compared, options);
    }
    all
}

/// Whether a figure is compared.
fn wanted(figure: &Figure, options: &Options) -> bool {
    match options.names.as_slice() {
        [] => MAIN.contains(&figure.name.as_str()),
        names => names.contains(&figure.name),
    }
}

/// A label with one value in all figures of the base, and another value in all figures of the new
/// side. The comparison is then about this label, for example about two stacks.
struct Changed {
    key: &'static str,
    base: String,
    new: String,
}

fn changed_labels(base: &Side, new: &Side) -> Vec<Changed> {
    let Some(first) = base.runs.first().and_then(|run| run.figures.first()) else { return Vec::new() };
    let keys = first.of.iter().map(|(key, _)| *key);
    keys.filter_map(|key| {
        let (base, new) = (base.only_value(key)?, new.only_value(key)?);
        (base != new).then(|| Changed { key, base: base.to_owned(), new: new.to_owned() })
    })
    .collect()
}

/// Whether both sides' runs were interleaved in time: neither side was finished before half of the
/// other side's runs were made.
fn made_in_turn(base: &Side, new: &Side) -> bool {
    let dates = |side: &Side| {
        let mut dates: Vec<String> = side.runs.iter().map(|run| run.date.clone()).collect::<Option<_>>()?;
        // RFC 3339 dates in UTC sort chronologically.
        dates.sort();
        Some(dates)
    };
    let reaches = |one: &[String], other: &[String]| {
        let middle = &other[other.len() / 2];
        one.first().is_some_and(|first| first <= middle) && one.last().is_some_and(|last| last >= middle)
    };
    match (dates(base), dates(new)) {
        (Some(base), Some(new)) => reaches(&base, &new) && reaches(&new, &base),
        _ => false,
    }
}

fn one(figure: &Figure, base: &[&Figure], new: &[&Figure], (basis, options): (Basis, &Options)) -> Compared {
    let values = |of: &[&Figure]| -> Vec<f64> { of.iter().filter_map(|figure| figure.value).collect() };
    let (base_values, new_values) = (values(base), values(new));
    let calls = |of: &[&Figure]| -> Vec<f64> { of.iter().map(|figure| figure.samples as f64).collect() };
    let calls = [calls(base), calls(new)];
    let every = || calls.iter().flatten();
    let of_calls = OF_CALLS.contains(&figure.name.as_str()) && every().all(|&calls| calls > 0.0);
    // A count may be 0, for which there is no ratio, so add a half to each, or its share of the
    // mean number of calls. So two sides without events are the same, whatever their numbers of
    // calls.
    let half = 0.5 * every().count() as f64 / every().sum::<f64>();
    let above_0 = |values: &[f64], calls: &[f64]| -> Vec<f64> {
        let both = values.iter().zip(calls);
        both.map(|(value, calls)| match figure.unit {
            Unit::Count if of_calls => value / calls + half,
            Unit::Count => value + 0.5,
            _ => *value,
        })
        .collect()
    };
    let (subject, baseline) = (above_0(&new_values, &calls[1]), above_0(&base_values, &calls[0]));
    let shift = match basis {
        Basis::Pairs => two_samples::paired(&subject, &baseline),
        _ => two_samples::independent(&subject, &baseline),
    };
    let widened = if basis == Basis::RunsApart { 1.0 + options.noise } else { 1.0 };
    let tested = shift.filter(|shift| shift.interval.is_some());
    let (bounds, p, basis) = match tested {
        Some(Shift { interval: Some((low, high)), p, .. }) => {
            (Some(Bounds { low: low / widened, high: high * widened }), Some(p), basis)
        }
        _ if of_calls => {
            let counted = counts::shares(events(new), events(base), (1.0 + options.noise).powi(SHARES_VARY));
            let bounds = counted.and_then(|shift| shift.interval);
            let bounds = bounds.map(|(low, high)| Bounds { low, high });
            (bounds, counted.map(|shift| shift.p), Basis::FewRuns)
        }
        _ => (of_few(base, new, options.noise), None, Basis::FewRuns),
    };
    Compared {
        name: figure.name.clone(),
        of: figure.of.clone(),
        subject: None,
        unit: figure.unit,
        better: figure.better,
        base: median(&base_values),
        new: median(&new_values),
        runs: [base.len(), new.len()],
        calls: of_calls.then(|| calls.each_ref().map(|calls| median(calls))),
        ratio: shift.map(|shift| shift.ratio),
        bounds,
        basis,
        p,
        verdict: Verdict::CannotTell,
        runs_needed: None,
    }
}

/// If the time of all calls varies by a factor, the share of those that miss a deadline varies by
/// about this power of it.
const SHARES_VARY: i32 = 3;

/// The events of all runs of one side.
fn events(of: &[&Figure]) -> Events {
    let events = of.iter().filter_map(|figure| figure.value).map(|value| value as u64).sum();
    Events { events, calls: of.iter().map(|figure| figure.samples).sum() }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    roundtrip_latency::quantile(&values, 0.5).unwrap_or(f64::NAN)
}

/// The interval of the ratio, from the outermost ends of the single runs' intervals, widened by the
/// noise.
fn of_few(base: &[&Figure], new: &[&Figure], noise: f64) -> Option<Bounds> {
    let ends = |of: &[&Figure]| {
        let bounds = of.iter().map(|figure| figure.in_clumps).collect::<Option<Vec<_>>>()?;
        let low = bounds.iter().map(|bounds| bounds.low).min_by(f64::total_cmp)?;
        let high = bounds.iter().map(|bounds| bounds.high).max_by(f64::total_cmp)?;
        (low > 0.0).then_some(Bounds { low, high })
    };
    let (base, new) = (ends(base)?, ends(new)?);
    Some(Bounds { low: new.low / base.high / (1.0 + noise), high: new.high / base.low * (1.0 + noise) })
}

/// Corrects the probabilities for the number of comparisons.
fn correct(all: &mut [Compared]) {
    let mut order: Vec<usize> = (0..all.len()).filter(|&at| all[at].p.is_some()).collect();
    order.small_sort_by(|&one, &other| all[one].p.unwrap_or(1.0).total_cmp(&all[other].p.unwrap_or(1.0)));
    let count = order.len();
    let mut at_least = 0.0_f64;
    for (rank, &at) in order.iter().enumerate() {
        if let Some(p) = &mut all[at].p {
            at_least = at_least.max((*p * (count - rank) as f64).min(1.0));
            *p = at_least;
        }
    }
}

fn judge(compared: &mut Compared, options: &Options) {
    let Some(Bounds { low, high }) = compared.bounds else { return };
    let beyond_chance = compared.p.is_none_or(|p| p <= ERROR);
    let (above, below) = (low > 1.0 && beyond_chance, high < 1.0 && beyond_chance);
    let inside = low >= 1.0 / (1.0 + options.margin) && high <= 1.0 + options.margin;
    compared.verdict = match (above, below, compared.better) {
        _ if inside => Verdict::Same,
        (true, _, Better::Lower) | (_, true, Better::Higher) => Verdict::Worse,
        (true, _, Better::Higher) | (_, true, Better::Lower) => Verdict::Better,
        (false, false, _) => Verdict::CannotTell,
    };
    if compared.verdict == Verdict::CannotTell && !matches!(compared.basis, Basis::FewRuns | Basis::RunsApart)
    {
        compared.runs_needed = compared.ratio.map(|ratio| runs_needed(ratio, low, high, compared, options));
    }
}

/// Estimates the number of runs with which the interval excludes 1 or lies within the margin. An
/// interval shrinks with the square root of the number of runs.
fn runs_needed(ratio: f64, low: f64, high: f64, compared: &Compared, options: &Options) -> usize {
    const MOST: f64 = 10_000.0;
    let half = (high / low).ln() / 2.0;
    let goal = ratio.ln().abs().max((1.0 + options.margin).ln());
    let runs = compared.runs[0].min(compared.runs[1]).max(1) as f64;
    let needed = (runs * (half / goal).powi(2)).clamp(runs + 1.0, MOST);
    needed.ceil() as usize
}

#[cfg(test)]
mod tests;
