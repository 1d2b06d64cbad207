//! A comparison of runs as text, JSON, Markdown and JUnit XML. Pure: a comparison in, text out.

use std::fmt::Write as _;

use roundtrip_analysis::compare::{Basis, Compared, Difference, Verdict};
use roundtrip_analysis::figures::Bounds;

use crate::figures::{unit, value};
use crate::text::csv::Line;
use crate::text::inert;
use crate::text::look::Look;
use crate::text::markdown::cell;
use crate::text::quantity::three_digits;
use crate::text::table::{Column, Table};

mod help;
mod json;
mod sentence;

pub use help::outlook;
pub use json::json;

/// A comparison to show.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The names of the sides.
    pub names: [&'a str; 2],
    /// Whether the user chose these names. If not, the answer prefers the values of the labels that
    /// differ.
    pub named: bool,
    /// The figures.
    pub figures: &'a [Compared],
    /// Other differences between the runs.
    pub differences: &'a [Difference],
    /// How the runs were made, one line each.
    pub notes: &'a [String],
    /// What would help if the runs do not tell, one line each.
    pub hints: &'a [String],
    /// How long a pair of runs took, in nanoseconds; `None` if that is not known.
    pub pair_ns: Option<u64>,
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

/// The counts of verdicts, the table and what it rests on, and at the end the answer as a sentence.
#[must_use]
pub fn text(comparison: &Comparison<'_>, look: Look) -> String {
    let mut out = answer(comparison) + "\n";
    for line in failures(comparison) {
        let _ = writeln!(out, "Beyond a limit: {line}");
    }
    if !comparison.figures.is_empty() {
        let _ = write!(out, "\n{}", table(comparison).render(look));
    }
    out.push('\n');
    for line in notes(comparison) {
        let _ = writeln!(out, "{line}");
    }
    out.push('\n');
    for line in words(comparison) {
        let _ = writeln!(out, "{line}");
    }
    look.fit(out)
}

/// The answer in sentences. If some figures have no verdict, also what would help.
pub(crate) fn words(comparison: &Comparison<'_>) -> Vec<String> {
    let mut words = sentence::sentences(comparison);
    if comparison.figures.iter().any(|compared| compared.verdict == Verdict::CannotTell) {
        words.extend(help::help(comparison));
        words.extend(comparison.hints.iter().map(|hint| inert::line(hint).into_owned()));
    }
    words
}

/// The figures with their verdicts. Columns without a value are left out, and so are labels that
/// all figures share.
pub(crate) fn table(comparison: &Comparison<'_>) -> Table {
    let figures: Vec<&Compared> = comparison.figures.iter().collect();
    let keys = sentence::distinguishing(&figures);
    let rows: Vec<[String; 8]> = figures.iter().map(|compared| row(compared, &keys)).collect();
    let columns = [
        Column::text("of"),
        Column::text("figure"),
        Column::number("base", ""),
        Column::number("new", ""),
        Column::number("ratio", ""),
        Column::number("95% interval", ""),
        Column::text("verdict"),
        Column::number("runs needed", ""),
    ];
    let says = |at: usize| rows.iter().any(|row| !matches!(row[at].as_str(), "" | "-"));
    let says: Vec<bool> = (0..columns.len()).map(says).collect();
    let mut table =
        Table::new(columns.into_iter().zip(&says).filter(|(_, says)| **says).map(|(column, _)| column));
    for row in rows {
        table.row(row.into_iter().zip(&says).filter(|(_, says)| **says).map(|(cell, _)| cell));
    }
    table
}

/// An interval that reaches beyond this factor, or beyond one divided by it, has no bound there.
pub(crate) const MOST_TIMES: f64 = 1000.0;

/// An interval of ratios; `None` if it has no bounds.
fn interval(Bounds { low, high }: Bounds) -> Option<String> {
    match (low > 1.0 / MOST_TIMES, high < MOST_TIMES) {
        (true, true) => Some(format!("{}-{}", times(low), times(high))),
        (true, false) => Some(format!("over {}", times(low))),
        (false, true) => Some(format!("under {}", times(high))),
        (false, false) => None,
    }
}

/// A ratio.
fn times(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.3}") } else { three_digits(ratio) }
}

fn row(compared: &Compared, keys: &[&str]) -> [String; 8] {
    [
        sentence::place(compared, keys),
        compared.name.clone(),
        value(compared.base, compared.unit),
        value(compared.new, compared.unit),
        compared.ratio.map_or_else(|| "-".to_owned(), times),
        compared.bounds.and_then(interval).unwrap_or_else(|| "-".to_owned()),
        verdict(compared.verdict).to_owned(),
        compared.runs_needed.map_or_else(|| "-".to_owned(), |runs| runs.to_string()),
    ]
}

/// A side's value, and of how many calls: "821 of 222846".
pub(crate) fn side(compared: &Compared, side: usize) -> String {
    let text = value([compared.base, compared.new][side], compared.unit);
    match compared.calls {
        Some(calls) => format!("{text} of {}", value(calls[side], compared.unit)),
        None => text,
    }
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
    notes.extend(shared(comparison.figures));
    notes.extend(shares(comparison.figures));
    notes.extend(comparison.differences.iter().map(|difference| {
        let [what, base, other] =
            [&difference.what, &difference.base, &difference.other].map(|text| inert::line(text));
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

/// What the table leaves out, because it holds for all figures: "All figures: latency, stack".
fn shared(figures: &[Compared]) -> Option<String> {
    let all: Vec<&Compared> = figures.iter().collect();
    let (first, keys) = (all.first()?, sentence::distinguishing(&all));
    let others: Vec<&str> = first.of.iter().map(|(key, _)| *key).filter(|key| !keys.contains(key)).collect();
    let place = sentence::place(first, &others);
    (!place.is_empty()).then(|| format!("All figures: {place}."))
}

/// Counts are not shares, if the sides made different numbers of calls.
fn shares(figures: &[Compared]) -> Option<String> {
    let different = |one: &&Compared| one.calls.is_some_and(|[base, new]| base != new);
    let one = figures.iter().find(different)?;
    let [base, new] = [side(one, 0), side(one, 1)];
    Some(format!("Counts: the ratio is that of the shares of calls. {}: {base} calls and {new}.", one.name))
}

/// Markdown for a pull request.
#[must_use]
pub fn markdown(comparison: &Comparison<'_>) -> String {
    let mut out = format!("**{}**\n", cell(&words(comparison).join(" ")));
    let _ = write!(out, "\n{}\n", cell(&answer(comparison)));
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
        "base,new,of,figure,unit,base_value,new_value,base_runs,new_runs,base_calls,new_calls,ratio,low,high,basis,p,verdict,runs_needed,failed\n",
    );
    for (at, compared) in comparison.figures.iter().enumerate() {
        Line::of(&mut out)
            .fields(comparison.names.map(inert::name))
            .field(inert::line(&of(compared)))
            .fields([compared.name.as_str(), unit(compared.unit)])
            .fields([compared.base, compared.new])
            .fields(compared.runs)
            .known(compared.calls.map(|calls| calls[0]))
            .known(compared.calls.map(|calls| calls[1]))
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
/// exceeds a threshold. It is skipped if the figure has no verdict.
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
        let [_, _, base, new, ratio, interval, counted, _] =
            row(compared, &[]).map(|text| inert::html(&text));
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

#[cfg(test)]
mod tests;
