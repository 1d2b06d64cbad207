//! A whole run as text: its environment, a summary, each test's own report, and warnings. Pure.

use std::fmt::Write as _;

use run::Run;

use super::look::Look;
use super::{
    baseline, environment, interference, latency, observed_calls, observed_writes, storage, summary,
    throughput, traits, workers,
};
use analysis::interference::Explained;
use analysis::observed_writes::Slow;
use analysis::storage::SeriesLayers;

/// A run's writes and comparisons, divided into layers, if their recordings were read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Divided<'a> {
    /// The writes of each series.
    pub layers: &'a [SeriesLayers<'a>],
    /// The comparisons with background load.
    pub beside: &'a [Explained<'a>],
    /// The slow writes of other programs.
    pub slow_writes: &'a [Slow<'a>],
}

/// One test's report below the header and the summary.
#[must_use]
pub fn page(run: &Run, divided: Divided<'_>, report: &str, look: Look) -> String {
    look.fit(format!("{}\n{report}", head(run, divided)))
}

/// The first page: what a survey prints.
#[must_use]
pub fn first_page(run: &Run, divided: Divided<'_>, look: Look) -> String {
    look.fit(head(run, divided))
}

/// The machine, then the answer.
fn head(run: &Run, Divided { layers, beside, .. }: Divided<'_>) -> String {
    let mut out = environment::header(&run.environment);
    out.push_str(&environment::of_this_run(run));
    let short = summary::paragraphs(&run.results, layers, beside);
    if !short.is_empty() {
        let _ = write!(out, "\n{short}");
    }
    out
}

/// The whole report.
#[must_use]
pub fn text(run: &Run, divided: Divided<'_>, look: Look) -> String {
    let mut out = head(run, divided);
    let Divided { layers, beside, slow_writes } = divided;
    let results = &run.results;
    let mut part = |title: &str, text: Option<String>| {
        if let Some(text) = text {
            let _ = write!(out, "\n== {title} ==\n\n{text}");
        }
    };
    part("baseline", results.baseline.as_ref().map(|result| baseline::tables(result, look)));
    part("throughput", results.throughput.as_ref().map(|result| throughput::tables(result, look)));
    part("latency", results.latency.as_ref().map(|result| latency::tables(result, look)));
    part("workers", results.workers.as_ref().map(|result| workers::table(result, look)));
    part(
        "observed calls",
        results.observed_calls.as_ref().map(|result| observed_calls::tables(result, look)),
    );
    part(
        "observed writes",
        results.observed_writes.as_ref().map(|result| observed_writes::tables(result, slow_writes, look)),
    );
    part("traits", results.traits.as_ref().map(|result| traits::table(result, look)));
    part("storage", results.storage.as_ref().map(|result| storage::page(result, layers, look)));
    let beside = results.interference.as_ref().map(|result| interference::page(result, beside, look));
    part("interference", beside);
    let warnings = environment::warnings(run);
    if !warnings.is_empty() {
        let _ = write!(out, "\n{warnings}");
    }
    look.fit(out)
}
