//! A whole run as text: its environment, a summary, each test's own report, and warnings. Also the
//! forms in which a test's command prints its run. Pure.

use std::fmt::Write as _;

use roundtrip_analysis::Analysed;

use crate::storage::files;
use crate::text::look::Look;
use crate::{Error, environment, kinds};

/// One test's report below the header and the summary.
#[must_use]
pub fn page(analysed: &Analysed<'_>, look: Look) -> String {
    let reports: String = reports(analysed, look).map(|(_, text)| text).collect();
    let gap = if reports.is_empty() { "" } else { "\n" };
    look.fit(format!("{}{gap}{reports}", head(analysed)))
}

/// The first page: what a survey prints.
#[must_use]
pub fn first_page(analysed: &Analysed<'_>, look: Look) -> String {
    look.fit(head(analysed))
}

/// The machine, then the answer.
fn head(analysed: &Analysed<'_>) -> String {
    let run = analysed.run;
    let mut out = environment::header(&run.environment);
    out.push_str(&environment::of_this_run(run));
    let short = kinds::summary(analysed);
    if !short.is_empty() {
        let _ = write!(out, "\n{short}");
    }
    out
}

/// The whole report.
#[must_use]
pub fn text(analysed: &Analysed<'_>, look: Look) -> String {
    let mut out = head(analysed);
    for (title, text) in reports(analysed, look) {
        let _ = write!(out, "\n== {title} ==\n\n{text}");
    }
    let warnings = environment::warnings(analysed.run);
    if !warnings.is_empty() {
        let _ = write!(out, "\n{warnings}");
    }
    look.fit(out)
}

/// The report of each test, with its title.
fn reports(analysed: &Analysed<'_>, look: Look) -> impl Iterator<Item = (&'static str, String)> {
    let views = kinds::of(&analysed.run.results);
    views.filter_map(move |(part, view)| Some((part.test().title, (view.tables)(analysed, look)?)))
}

/// The run as in a run directory, plus the layers of its writes, or the figures of the study.
///
/// # Errors
/// If the run has figures that JSON cannot represent.
pub fn json(Analysed { run, layers, beside, .. }: &Analysed<'_>) -> Result<String, Error> {
    match (&run.results.storage, &run.results.interference) {
        (Some(result), _) => files::json(run, result, layers),
        (None, Some(result)) => files::json_of_study(run, result, beside),
        (None, None) => Ok(run.to_json()?),
    }
}
