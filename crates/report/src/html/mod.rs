//! A run, or several side by side, as one self-contained HTML page: the answer, what to do about
//! it, how reliable it is, and below that every figure as a chart with its table. The page loads
//! nothing, and its Content-Security-Policy allows only its own scripts and styles. Pure: runs and
//! explanations in, text out.

mod advice;
mod answer;
mod assets;
mod bars;
mod chart;
mod compared;
mod figures;
mod first;
mod interference;
mod lanes;
mod latency;
mod others;
mod over_time;
mod page;
mod ranges;
mod slow_calls;
mod stacks;
mod storage;
mod subject;
mod trust;

use serde_json::{Map, Value, json};

use crate::Error;
pub use compared::compared;
use page::Page;
pub use subject::Subject;

/// The version of the page's JSON data.
const VERSION: u32 = 1;

/// Creates the page.
///
/// # Errors
/// [`Error::Json`] if the data cannot be represented as JSON.
pub fn page(subjects: &[Subject<'_>]) -> Result<String, Error> {
    let mut page = Page::default();
    first::screen(&mut page, subjects);
    slow_calls::section(&mut page, subjects);
    latency::section(&mut page, subjects);
    others::sections(&mut page, subjects);
    storage::section(&mut page, subjects);
    interference::section(&mut page, subjects);
    let mut facts = Map::new();
    facts.insert("schema".into(), json!("roundtrip.report"));
    facts.insert("version".into(), json!(VERSION));
    facts.insert("runs".into(), subjects.iter().map(facts_of).collect());
    let (body, data) = page.finish(facts)?;
    let labels: Vec<&str> = subjects.iter().map(|one| one.label.as_str()).collect();
    Ok(assets::document(&labels.join(", "), &body, &data))
}

/// The page's data about a run as a whole.
fn facts_of(subject: &Subject<'_>) -> Value {
    let environment = &subject.run.environment;
    json!({
        "label": subject.label,
        "date": environment.date,
        "host_name": environment.host_name,
        "kernel_release": environment.kernel.release,
        "driver": environment.driver,
        "roundtrip_version": environment.roundtrip_version,
        "build_profile": environment.build_profile,
        "warnings": subject.run.warnings,
        "damage": subject.damage,
    })
}

#[cfg(test)]
mod tests;
