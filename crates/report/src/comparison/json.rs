//! A comparison as JSON.

use serde_json::{Value, json};

use super::{Comparison, basis, sentence, verdict, words};
use crate::figures::unit;

/// JSON for programs, in one line.
#[must_use]
pub fn json(comparison: &Comparison<'_>) -> String {
    let figures: Vec<Value> = comparison
        .figures
        .iter()
        .enumerate()
        .map(|(at, compared)| {
            let of: serde_json::Map<String, Value> =
                compared.of.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
            let failed = comparison.failed.iter().find(|(place, _)| *place == at);
            json!({
                "name": compared.name,
                "of": of,
                "unit": unit(compared.unit),
                "base": compared.base,
                "new": compared.new,
                "base_runs": compared.runs[0],
                "new_runs": compared.runs[1],
                "base_calls": compared.calls.map(|calls| calls[0]),
                "new_calls": compared.calls.map(|calls| calls[1]),
                "ratio": compared.ratio,
                "low": compared.bounds.map(|bounds| bounds.low),
                "high": compared.bounds.map(|bounds| bounds.high),
                "basis": basis(compared.basis),
                "p": compared.p,
                "verdict": verdict(compared.verdict).replace(' ', "_"),
                "runs_needed": compared.runs_needed,
                "failed": failed.map(|(_, why)| why),
            })
        })
        .collect();
    let differences: Vec<Value> = comparison
        .differences
        .iter()
        .map(|difference| {
            json!({
                "what": difference.what,
                "base": difference.base,
                "other": difference.other,
                "refused": difference.refused,
            })
        })
        .collect();
    let means: Vec<Value> = sentence::means(comparison.figures)
        .iter()
        .map(|mean| json!({ "name": mean.name, "ratio": mean.ratio, "figures": mean.figures }))
        .collect();
    let document = json!({
        "schema": "roundtrip.comparison",
        "version": 1,
        "base": comparison.names[0],
        "new": comparison.names[1],
        "margin": comparison.margin,
        "noise": comparison.noise,
        "answer": words(comparison).join(" "),
        "geometric_means": means,
        "notes": comparison.notes,
        "differences": differences,
        "figures": figures,
    });
    format!("{document}\n")
}
