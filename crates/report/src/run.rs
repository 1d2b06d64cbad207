//! A whole run as text: what it was made on, the short of it, each test's own report, and what to beware of. Pure.

use std::fmt::Write as _;

use run::Run;

use super::{environment, floor, interference, latency, storage, summary, throughput, traits, workers};
use analysis::interference::Explained;
use analysis::storage::SeriesLayers;

/// One test's report below the header.
pub fn page(run: &Run, report: &str) -> String {
    format!("{}\n{report}", environment::header(&run.environment))
}

/// The first page: what a survey prints.
pub fn first_page(run: &Run) -> String {
    let mut out = environment::header(&run.environment);
    let short = summary::paragraphs(&run.results);
    if !short.is_empty() {
        let _ = write!(out, "\n{short}");
    }
    out
}

/// Everything; `layers` divides the writes, and `beside` explains comparisons, where they were recorded.
pub fn text(run: &Run, layers: &[SeriesLayers<'_>], beside: &[Explained<'_>], colour: bool) -> String {
    let mut out = first_page(run);
    let results = &run.results;
    let mut part = |title: &str, text: Option<String>| {
        if let Some(text) = text {
            let _ = write!(out, "\n== {title} ==\n\n{text}");
        }
    };
    part("baseline", results.floor.as_ref().map(|result| floor::tables(result, colour)));
    part("throughput", results.throughput.as_ref().map(|result| throughput::tables(result, colour)));
    part("latency", results.latency.as_ref().map(|result| latency::tables(result, colour)));
    part("workers", results.workers.as_ref().map(|result| workers::table(result, colour)));
    part("traits", results.traits.as_ref().map(|result| traits::table(result, colour)));
    part("storage", results.storage.as_ref().map(|result| storage::page(result, layers, colour)));
    let beside = results.interference.as_ref().map(|result| interference::page(result, beside, colour));
    part("interference", beside);
    let warnings = environment::warnings(run);
    if !warnings.is_empty() {
        let _ = write!(out, "\n{warnings}");
    }
    out
}
