//! A comparison of runs as text, JSON, Markdown and JUnit XML. Pure: a comparison in, text out.

use std::fmt::Write as _;

use analysis::compare::{Basis, Compared, Difference, Verdict};
use serde_json::{Value, json};

use crate::csv::Line;
use crate::figures::{unit, value};
use crate::inert;
use crate::look::Look;
use crate::markdown::cell;
use crate::quantity::three_digits;
use crate::table::{Column, Table};

/// A comparison to show.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The names of the sides.
    pub names: [&'a str; 2],
    /// The figures.
    pub figures: &'a [Compared],
    /// Other differences between the runs.
    pub differences: &'a [Difference],
    /// How the runs were made, one line each.
    pub notes: &'a [String],
    /// The figures that exceed a threshold: indices into `figures`, with reasons.
    pub failed: &'a [(usize, String)],
    /// How much two sides may differ and still count as the same: 0.02 is 2%.
    pub margin: f64,
    /// How much single runs of the same thing may differ: 0.02 is 2%.
    pub noise: f64,
}

const VERDICTS: [Verdict; 4] = [Verdict::Worse, Verdict::Better, Verdict::Same, Verdict::CannotTell];

/// The word for a verdict.
#[must_use]
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::CannotTell => "cannot tell",
    }
}

/// The answer and the tables for a terminal.
#[must_use]
pub fn text(comparison: &Comparison<'_>, look: Look) -> String {
    let mut out = answer(comparison) + "\n";
    for line in failures(comparison) {
        let _ = writeln!(out, "FAILED: {line}");
    }
    if !comparison.figures.is_empty() {
        let _ = write!(out, "\n{}", table(comparison).render(look));
    }
    out.push('\n');
    for line in notes(comparison) {
        let _ = writeln!(out, "{line}");
    }
    look.fit(out)
}

/// The figures with their verdicts.
pub(crate) fn table(comparison: &Comparison<'_>) -> Table {
    let mut table = Table::new([
        Column::text("of"),
        Column::text("figure"),
        Column::number("base", ""),
        Column::number("new", ""),
        Column::number("ratio", ""),
        Column::number("95% interval", ""),
        Column::text("verdict"),
        Column::number("runs needed", ""),
    ]);
    for compared in comparison.figures {
        table.row(row(compared));
    }
    table
}

fn row(compared: &Compared) -> [String; 8] {
    let number = |ratio: f64| format!("{ratio:.3}");
    let interval = compared.bounds.map(|bounds| format!("{}-{}", number(bounds.low), number(bounds.high)));
    [
        of(compared),
        compared.name.clone(),
        value(compared.base, compared.unit),
        value(compared.new, compared.unit),
        compared.ratio.map_or_else(|| "-".to_owned(), number),
        interval.unwrap_or_else(|| "-".to_owned()),
        verdict(compared.verdict).to_owned(),
        compared.runs_needed.map_or_else(|| "-".to_owned(), |runs| runs.to_string()),
    ]
}

/// What a figure describes, from the values of its labels.
pub(crate) fn of(compared: &Compared) -> String {
    let values: Vec<&str> = compared.of.iter().map(|(_, value)| value.as_str()).collect();
    inert::name(&values.join(", "))
}

/// "tuesday (4 runs) against monday (4 runs): 1 of 6 figures worse, 2 the same; cannot tell for 3".
pub(crate) fn answer(comparison: &Comparison<'_>) -> String {
    let [base, new] = comparison.names.map(inert::name);
    let Some(first) = comparison.figures.first() else {
        return format!("{base} and {new} have none of the compared figures in common");
    };
    let counts = VERDICTS
        .map(|verdict| comparison.figures.iter().filter(|compared| compared.verdict == verdict).count());
    let all = comparison.figures.len();
    let counted = ["worse", "better", "the same"].into_iter().zip(counts).filter(|(_, count)| *count > 0);
    let counted = counted.enumerate().map(|(at, (of, count))| match at {
        0 => format!("{count} of {all} figures {of}"),
        _ => format!("{count} {of}"),
    });
    let counted = counted.collect::<Vec<_>>().join(", ");
    let said = match (all, counts[3]) {
        (1, _) => verdict(first.verdict).to_owned(),
        (_, 0) => counted,
        (_, unclear) if unclear == all => format!("cannot tell for any of {all} figures"),
        (_, unclear) => format!("{counted}; cannot tell for {unclear}"),
    };
    let runs = first.runs.map(|runs| format!("{runs} run{}", if runs == 1 { "" } else { "s" }));
    format!("{new} ({}) against {base} ({}): {said}", runs[1], runs[0])
}

pub(crate) fn failures<'a>(comparison: &'a Comparison<'_>) -> impl Iterator<Item = String> + 'a {
    comparison.failed.iter().filter_map(|(at, why)| {
        let compared = comparison.figures.get(*at)?;
        Some(format!("{} of {}: {}", compared.name, of(compared), inert::line(why)))
    })
}

/// How reliable the comparison is.
pub(crate) fn notes(comparison: &Comparison<'_>) -> Vec<String> {
    let mut notes: Vec<String> = comparison.notes.iter().map(|note| inert::line(note).into_owned()).collect();
    notes.extend(comparison.differences.iter().map(|difference| {
        let [what, base, other] = [difference.what, &difference.base, &difference.other].map(inert::line);
        format!("Differs: {what}: {base} and {other}")
    }));
    let has = |basis| comparison.figures.iter().any(|compared| compared.basis == basis);
    let percent = |share: f64| format!("{}%", three_digits(share * 100.0));
    if has(Basis::Runs) || has(Basis::Pairs) || has(Basis::RunsApart) {
        let test = if has(Basis::Pairs) {
            "Pairs of runs: Wilcoxon's signed-rank test"
        } else {
            "Runs against runs: the Mann-Whitney test"
        };
        notes.push(format!(
            "{test}. If nothing changed, at most 5 of 100 comparisons report a difference in any figure."
        ));
    }
    if has(Basis::RunsApart) {
        notes.push(format!(
            "The sides were measured at different times, and the machine may have changed in between. The \
             intervals allow for {} (--noise); `roundtrip ab` measures alternately and needs no such guess.",
            percent(comparison.noise)
        ));
    }
    if has(Basis::FewRuns) {
        notes.push(format!(
            "Few runs: two runs of the same thing often differ by more than their own calls suggest. The \
             intervals allow for {} (--noise); 4 or more runs a side, or 6 or more pairs (`roundtrip ab`), \
             need no such guess.",
            percent(comparison.noise)
        ));
    }
    if comparison.figures.iter().any(|compared| compared.runs_needed.is_some()) {
        notes.push("runs needed: about how many runs of each side would be enough for a verdict.".to_owned());
    }
    notes.push(format!(
        "same: the ratio differs from 1 by no more than {} (--margin).",
        percent(comparison.margin)
    ));
    notes
}

/// Markdown for a pull request.
#[must_use]
pub fn markdown(comparison: &Comparison<'_>) -> String {
    let mut out = format!("**{}**\n", cell(&answer(comparison)));
    for line in failures(comparison) {
        let _ = write!(out, "\n- **failed**: {}\n", cell(&line));
    }
    if !comparison.figures.is_empty() {
        let _ = write!(out, "\n{}", table(comparison).markdown());
    }
    out.push('\n');
    for line in notes(comparison) {
        let _ = writeln!(out, "- {}", cell(&line));
    }
    out
}

/// CSV: one line for each figure, unrounded.
#[must_use]
pub fn csv(comparison: &Comparison<'_>) -> String {
    let mut out = String::from(
        "base,new,of,figure,unit,base_value,new_value,base_runs,new_runs,ratio,low,high,basis,p,verdict,runs_needed,failed\n",
    );
    for (at, compared) in comparison.figures.iter().enumerate() {
        Line::of(&mut out)
            .fields(comparison.names.map(inert::name))
            .field(inert::line(&of(compared)))
            .fields([compared.name.as_str(), unit(compared.unit)])
            .fields([compared.base, compared.new])
            .fields(compared.runs)
            .known(compared.ratio)
            .known(compared.bounds.map(|bounds| bounds.low))
            .known(compared.bounds.map(|bounds| bounds.high))
            .field(basis(compared.basis))
            .known(compared.p)
            .field(verdict(compared.verdict))
            .known(compared.runs_needed)
            .known(comparison.failed.iter().find(|(place, _)| *place == at).map(|(_, why)| inert::line(why)))
            .end();
    }
    out
}

/// The basis of a verdict, as a name for programs.
fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Runs => "runs",
        Basis::RunsApart => "runs_apart",
        Basis::Pairs => "pairs",
        Basis::FewRuns => "few_runs",
    }
}

/// JUnit XML for a CI server, with one test case for each figure. A test case fails if the figure
/// is worse or exceeds a threshold. It is skipped if the figure has no verdict.
#[must_use]
pub fn junit(comparison: &Comparison<'_>) -> String {
    let figures = comparison.figures;
    let failed = |at: usize| comparison.failed.iter().find(|(place, _)| *place == at);
    let failures = (0..figures.len()).filter(|at| failed(*at).is_some()).count();
    let skipped = |at: usize| failed(at).is_none() && figures[at].verdict == Verdict::CannotTell;
    let skips = (0..figures.len()).filter(|at| skipped(*at)).count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites>\n  <testsuite name=\"roundtrip compare\" tests=\"{}\" failures=\"{failures}\" \
         errors=\"0\" skipped=\"{skips}\">",
        figures.len()
    );
    for (at, compared) in figures.iter().enumerate() {
        let [of, name] = [of(compared), compared.name.clone()].map(|text| inert::html(&text));
        let _ = write!(out, "    <testcase classname=\"{of}\" name=\"{name}\"");
        let [_, _, base, new, ratio, interval, counted, _] = row(compared).map(|text| inert::html(&text));
        let figures = format!("{base} to {new}, ratio {ratio}, 95% interval {interval}: {counted}");
        match failed(at) {
            Some((_, why)) => {
                let why = inert::html(why);
                let _ =
                    writeln!(out, ">\n      <failure message=\"{why}\">{figures}</failure>\n    </testcase>");
            }
            None if skipped(at) => {
                let _ = writeln!(out, ">\n      <skipped message=\"{figures}\"/>\n    </testcase>");
            }
            None => {
                let _ = writeln!(out, ">\n      <system-out>{figures}</system-out>\n    </testcase>");
            }
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

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
    let document = json!({
        "schema": "roundtrip.comparison",
        "version": 1,
        "base": comparison.names[0],
        "new": comparison.names[1],
        "margin": comparison.margin,
        "noise": comparison.noise,
        "notes": comparison.notes,
        "differences": differences,
        "figures": figures,
    });
    format!("{document}\n")
}

#[cfg(test)]
mod tests;
