//! A run, or several side by side, as one self-contained HTML page: the answer, what to do about
//! it, how reliable it is, and below that every figure as a chart with its table. The page loads
//! nothing, and its Content-Security-Policy allows only its own scripts and styles. Pure: runs and
//! explanations in, text out.

mod advice;
pub(crate) mod answer;
mod assets;
mod bars;
mod chart;
mod colours;
mod compared;
pub(crate) mod figures;
mod first;
pub(crate) mod interference;
mod lanes;
pub(crate) mod latency;
pub(crate) mod observed_writes;
pub(crate) mod others;
mod over_time;
pub(crate) mod page;
mod ranges;
mod slow_calls;
mod slow_writes;
mod stacks;
pub(crate) mod storage;
mod study;
pub(crate) mod subject;
mod trust;
mod without;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::kinds;
pub use compared::{Pair, compared};
use page::Page;
pub use subject::Subject;

/// The version of the page's JSON data.
const VERSION: u32 = 1;

/// Creates the page. A page of two runs begins with `pair`.
///
/// # Errors
/// [`Error::Json`] if the data cannot be represented as JSON.
pub fn page(subjects: &[Subject<'_>], pair: Option<&Pair<'_>>) -> Result<String, Error> {
    let mut page = Page::default();
    first::screen(&mut page, subjects, pair);
    slow_calls::section(&mut page, subjects);
    for test in first::tests(subjects) {
        let Some(view) = kinds::view(test.name) else { continue };
        page.within("section", &[("id", test.name)], |page| {
            page.element("h2", &[], test.title);
            (view.section)(page, subjects);
        });
    }
    let mut facts = Map::new();
    facts.insert("schema".into(), json!("roundtrip.report"));
    facts.insert("version".into(), json!(VERSION));
    facts.insert("runs".into(), subjects.iter().map(facts_of).collect());
    let (body, data) = page.finish(facts)?;
    let labels: Vec<&str> = subjects.iter().map(|one| one.label.as_str()).collect();
    Ok(assets::document(&labels.join(", "), &body, &data))
}

/// Adds a part for each run. `show` returns `None` for a run that has no such part.
fn each(page: &mut Page, subjects: &[Subject<'_>], show: impl Fn(&mut Page, &Subject<'_>) -> Option<()>) {
    for subject in subjects {
        if subjects.len() > 1 {
            page.element("h3", &[], &subject.label);
        }
        if show(page, subject).is_none() && subjects.len() > 1 {
            page.paragraphs("note", "This run did not measure it.");
        }
    }
}

/// The page's data about a run as a whole.
fn facts_of(subject: &Subject<'_>) -> Value {
    let environment = &subject.analysed.run.environment;
    json!({
        "label": subject.label,
        "date": environment.date,
        "host_name": environment.host_name,
        "kernel_release": environment.kernel.release,
        "driver": environment.driver,
        "roundtrip_version": environment.roundtrip_version,
        "build_profile": environment.build_profile,
        "warnings": subject.analysed.run.warnings,
        "damage": subject.damage,
    })
}

#[cfg(test)]
mod tests;
